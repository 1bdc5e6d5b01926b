# SPDX-License-Identifier: MIT
# Instructions that load or store much at once, each in a region of its own.

        .include "common.inc"

.set CR4_OSFXSR, 1 << 9
.set CR4_OSXSAVE, 1 << 18

.macro ALONE instruction:vararg
        BEGIN
        \instruction
        END
.endm

main:
        mov %cr4, %eax
        or $CR4_OSFXSR | CR4_OSXSAVE, %eax
        mov %eax, %cr4
        xor %ecx, %ecx
        xor %edx, %edx
        mov $3, %eax            # x87 and SSE
        xsetbv
        fninit
        fld1

        ALONE fxsave area
        ALONE fxrstor area
        ALONE xsave area
        ALONE xrstor area
        ALONE fstpt area
        ALONE fldt area
        ALONE fnsave area
        ALONE frstor area
        ALONE fnstenv area
        ALONE fldenv area
        ALONE fstpl area
        ALONE fldl area
        QUIT PASSED

        .bss
        .balign 64
area:   .skip 1024
