# SPDX-License-Identifier: MIT
# Enters a one-instruction guest a known number of times: HLT, intercepted, so it never moves on. Not VMMCALL, which
# is one bit away from VMRUN and would be executed as often.

        .include "common.inc"
        .include "svm.inc"

main:
        GUEST guest
        mov $vmcb, %eax

        vmrun %eax              # outside: must not count
        cmpl $EXIT_HLT, vmcb + EXIT_CODE
        jne unexpected

        # 1: 1 + 1000 * (vmrun, guest's hlt, dec, jnz)
        BEGIN
        mov $1000, %ecx
1:      vmrun %eax
        dec %ecx
        jnz 1b
        END
        cmpl $EXIT_HLT, vmcb + EXIT_CODE
        jne unexpected

        # 2: SVM's other instructions, which are not entries: (clgi, vmsave, vmload, stgi)
        BEGIN
        clgi
        vmsave %eax
        vmload %eax
        stgi
        END

        # 3: the guest marks the region: its (hlt) + the host's (cmp, jne, movl, dec, jnz, vmrun) + its (nop)
        movl $guest_begin, vmcb + SAVE_RIP
        mov $2, %ecx
1:      vmrun %eax
        cmp $2, %ecx
        jne 2f
        movl $guest_end, vmcb + SAVE_RIP
2:      dec %ecx
        jnz 1b

        # 4: with a prefix: (vmrun, guest's hlt)
        BEGIN
        .byte 0x66
        vmrun %eax
        END
        cmpl $EXIT_HLT, vmcb + EXIT_CODE
        jne unexpected
        QUIT PASSED

unexpected:
        QUIT UNEXPECTED

guest_begin:
        BEGIN
guest:  hlt
guest_end:
        nop
        END
        hlt
