# SPDX-License-Identifier: GPL-2.0-or-later
# Enters a one-instruction guest a known number of times: HLT, intercepted, so it never moves on. Not VMMCALL, which
# is one bit away from VMRUN and would be executed as often.

        .include "common.inc"

# AMD APM vol. 2, appendix B: offsets in the VMCB
.set INTERCEPT_3, 0x00c         # bit 24: HLT
.set INTERCEPT_4, 0x010         # bit 0: VMRUN (must be set)
.set ASID, 0x058
.set EXIT_CODE, 0x070
.set SAVE, 0x400
.set SAVE_EFER, SAVE + 0x0d0
.set SAVE_CR0, SAVE + 0x158
.set SAVE_DR7, SAVE + 0x160
.set SAVE_DR6, SAVE + 0x168
.set SAVE_RFLAGS, SAVE + 0x170
.set SAVE_RIP, SAVE + 0x178
.set SAVE_RSP, SAVE + 0x1d8

.set EFER, 0xc0000080
.set EFER_SVME, 1 << 12
.set VM_HSAVE_PA, 0xc0010117
.set EXIT_HLT, 0x78

# \index: 0 ES, 1 CS, 2 SS, 3 DS. Attributes are the descriptor's, packed to 12 bits.
.macro GUEST_SEGMENT index, selector, attributes
        movw $\selector, vmcb + SAVE + 16 * \index
        movw $\attributes, vmcb + SAVE + 16 * \index + 2
        movl $0xffffffff, vmcb + SAVE + 16 * \index + 4
.endm

main:
        mov $EFER, %ecx
        rdmsr
        or $EFER_SVME, %eax
        wrmsr
        mov $VM_HSAVE_PA, %ecx
        mov $host_save, %eax
        xor %edx, %edx
        wrmsr

        movl $1 << 24, vmcb + INTERCEPT_3
        movl $1, vmcb + INTERCEPT_4
        movl $1, vmcb + ASID
        movl $EFER_SVME, vmcb + SAVE_EFER
        mov %cr0, %eax
        mov %eax, vmcb + SAVE_CR0
        movl $0x400, vmcb + SAVE_DR7
        movl $0xffff0ff0, vmcb + SAVE_DR6
        movl $2, vmcb + SAVE_RFLAGS
        movl $guest, vmcb + SAVE_RIP
        movl $stack, vmcb + SAVE_RSP
        GUEST_SEGMENT 0, 16, 0xc93
        GUEST_SEGMENT 1, 8, 0xc9b
        GUEST_SEGMENT 2, 16, 0xc93
        GUEST_SEGMENT 3, 16, 0xc93
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

        .bss
        .balign 4096
vmcb:   .skip 4096
host_save: .skip 4096
