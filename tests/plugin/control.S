# SPDX-License-Identifier: MIT
# Writes control registers between two loads from each small page: what the second finds tells what was forgotten.

        .include "common.inc"
        .include "long.inc"

.set CR4_SMEP, 1 << 20
.set CR4_SMAP, 1 << 21

# Changes these bits of a control register, and changes them back, with no access between.
.macro TOGGLE register, bits
        mov %\register, %rax
        mov %rax, %r9
        xor $\bits, %rax
        mov %rax, %\register
        mov %r9, %\register
.endm

.macro REGION
        BEGIN_LONG
        TOUCH
.endm
.macro REGION_END
        TOUCH
        END_LONG
.endm

main:
        LONG_MODE

        # 1: nothing
        REGION
        REGION_END

        # 2 to 4: rights that change, and flush nothing: CR0.WP, CR4.SMAP, and SMEP, off
        REGION
        TOGGLE cr0, CR0_WP
        REGION_END

        REGION
        TOGGLE cr4, CR4_SMAP
        REGION_END

        mov %cr4, %rax
        or $CR4_SMEP, %rax
        mov %rax, %cr4
        REGION
        mov %cr4, %rax
        xor $CR4_SMEP, %rax
        mov %rax, %cr4
        REGION_END

        # 5 and 6: CR4.SMEP set, and CR4.PGE changed, flush everything
        REGION
        mov %cr4, %r10
        or $CR4_SMEP, %r10
        mov %r10, %cr4
        REGION_END

        REGION
        TOGGLE cr4, CR4_PGE
        REGION_END

        # 7 and 8: the same table once more, once and twice: global pages stay
        REGION
        mov %cr3, %rax
        mov %rax, %cr3
        REGION_END

        REGION
        mov %cr3, %rax
        mov %rax, %cr3
        mov %rax, %cr3
        REGION_END

        # 9: one page
        REGION
        invlpg DATA
        REGION_END
        QUIT PASSED
