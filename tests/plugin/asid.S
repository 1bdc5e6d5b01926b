# SPDX-License-Identifier: MIT
# Enters a guest that loads once from each small page, under several ASIDs and TLB_CONTROLs: what it finds in the TLB
# tells what the model has forgotten. Guest and host have the same tables; there is no nested paging.

        .include "common.inc"
        .include "svm.inc"
        .include "long.inc"

.macro RUN asid, control
        movl $guest, vmcb + SAVE_RIP(%rip)
        movl $\asid, vmcb + ASID(%rip)
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

        # 1: the same ASID once more
        BEGIN_LONG
        RUN 1, 0
        RUN 1, 0
        END_LONG
        cmpl $EXIT_HLT, vmcb + EXIT_CODE(%rip)
        jne unexpected

        # 2: another ASID, and back
        BEGIN_LONG
        RUN 1, 0
        RUN 2, 0
        RUN 1, 0
        END_LONG

        # 3 to 5: the same ASID, and everything, its entries, or its entries but global ones forgotten
        BEGIN_LONG
        RUN 1, 0
        RUN 1, 1
        END_LONG

        BEGIN_LONG
        RUN 1, 0
        RUN 1, 3
        END_LONG

        BEGIN_LONG
        RUN 1, 0
        RUN 1, 7
        END_LONG

        # 6: another ASID's entries forgotten, of which there are none
        BEGIN_LONG
        RUN 1, 0
        RUN 2, 3
        RUN 1, 0
        END_LONG

        # 7: a value that means nothing
        BEGIN_LONG
        RUN 1, 0
        RUN 1, 2
        END_LONG
        QUIT PASSED

unexpected:
        QUIT UNEXPECTED

guest:
        TOUCH
        hlt
