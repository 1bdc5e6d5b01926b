# SPDX-License-Identifier: MIT
# Regions that fetch a known number of lines of 16 bytes.

        .include "common.inc"
        .include "long.inc"

# A block of its own after the mark: what follows a mark in its block is not told, as nothing says where it runs.
.macro REGION
        BEGIN_LONG
        jmp 1f
        .balign 64
1:
.endm

main:
        LONG_MODE

        # 1: eight lines one after the other, and the mark's
        REGION
        .fill 128, 1, 0x90
        END_LONG

        # 2: a loop within one line is one fetch, and the mark's line another
        REGION
        mov $1000, %ecx
1:      dec %ecx
        jnz 1b
        .balign 16
        END_LONG

        # 3: a loop of two lines is two fetches a round; its counter's, and the mark's
        REGION
        mov $100, %ecx
        .balign 16
1:      jmp 2f
        .balign 16
2:      dec %ecx
        jnz 1b
        .balign 16
        END_LONG

        # 4: an instruction that lies across two lines is in both: the second has the mark, too
        REGION
        .fill 14, 1, 0x90
        mov $1, %ecx
        END_LONG

        # 5: the same across two pages
        BEGIN_LONG
        jmp 1f
        .balign 4096
        .skip 4096 - 16
1:      .fill 14, 1, 0x90
        mov $1, %ecx
        END_LONG

        # 6: where translations are forgotten, the line is fetched anew, the mark's among them
        REGION
        mov %cr3, %rax
        mov %rax, %cr3
        nop
        .balign 16
        END_LONG

        QUIT PASSED
