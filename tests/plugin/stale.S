# SPDX-License-Identifier: MIT
# Enters a guest that loads once from each small page, changes the first page's entry, and enters it again. Guest and
# host have the same tables; there is no nested paging.

        .include "common.inc"
        .include "svm.inc"
        .include "long.inc"

.macro RUN control
        movl $guest, vmcb + SAVE_RIP(%rip)
        movb $\control, vmcb + TLB_CONTROL(%rip)
        mov $vmcb, %eax
        vmrun
.endm

main:
        GUEST guest
        movl $top, vmcb + SAVE_CR3
        movl $CR4_PAE | CR4_PGE, vmcb + SAVE_CR4
        orl $CR0_PG | CR0_WP, vmcb + SAVE_CR0
        orl $EFER_LME | EFER_LMA, vmcb + SAVE_EFER
        GUEST_SEGMENT 1, 24, 0xa9b
        LONG_MODE

        # 1: nothing changes
        BEGIN_LONG
        RUN 0
        RUN 0
        END_LONG
        cmpl $EXIT_HLT, vmcb + EXIT_CODE(%rip)
        jne unexpected

        # 2 and 3: another page, without a flush and with one
        BEGIN_LONG
        RUN 0
        addl $PAGES * PAGE, small(%rip)
        RUN 0
        END_LONG

        BEGIN_LONG
        RUN 0
        subl $PAGES * PAGE, small(%rip)
        RUN 3
        END_LONG

        # 4 and 5: a right is taken, and given, without a flush
        BEGIN_LONG
        RUN 0
        andl $~2, small(%rip)
        RUN 0
        END_LONG

        BEGIN_LONG
        RUN 0
        orl $2, small(%rip)
        RUN 0
        END_LONG
        QUIT PASSED

unexpected:
        QUIT UNEXPECTED

guest:
        TOUCH
        hlt
