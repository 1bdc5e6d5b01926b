# SPDX-License-Identifier: MIT
# Marks that do not fit, then a good region, then one that is never ended.

        .include "common.inc"

main:
        END                     # 1: end without a begin
        BEGIN
        nop
        BEGIN                   # 3: begin inside region 2
        nop
        END                     # 4: no region is open any more
        BEGIN
        nop
        END                     # 5: good
        nopl 0x61626803(%eax)   # near misses of a mark: none of these is one
        nopl 0x61626901(%eax)
        nopl 0x61636801(%eax)
        nopl 0x62626801(%eax)
        nopl 0x61626801(%ecx)
        nopw 0x61626802(%eax)
        mov $0x61626801, %eax
        BEGIN                   # 6: begin without an end
        nop
        QUIT PASSED
