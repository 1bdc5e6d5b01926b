# SPDX-License-Identifier: MIT
# Injects an interrupt into a guest whose handler runs, interrupts off, for longer than the emulator runs at a stretch
# under -icount: a timer of the machine sees to that. The guest must have taken the interrupt once.

        .include "common.inc"
        .include "svm.inc"

.set VECTOR, 20
.set PIT_CONTROL, 0x43
.set PIT_CHANNEL_0, 0x40
.set SPIN, 2000000              # 8 ms under -icount shift=1; the timer's period is 1 ms

main:
        CATCH VECTOR, handler
        mov $0x34, %al          # channel 0, both bytes, mode 2
        out %al, $PIT_CONTROL
        mov $1193 & 0xff, %al
        out %al, $PIT_CHANNEL_0
        mov $1193 >> 8, %al
        out %al, $PIT_CHANNEL_0

        GUEST guest
        movl $0x1f, vmcb + SAVE_GDTR + 4
        movl $gdt, vmcb + SAVE_GDTR + 8
        movl $8 * 32 - 1, vmcb + SAVE_IDTR + 4
        movl $idt, vmcb + SAVE_IDTR + 8
        movl $(1 << 31) + VECTOR, vmcb + EVENT_INJECTION
        mov $vmcb, %eax
        vmrun %eax
        cmpl $EXIT_HLT, vmcb + EXIT_CODE
        jne unexpected
        mov taken, %eax
        PUT_EAX
        QUIT PASSED

unexpected:
        QUIT UNEXPECTED

guest:  hlt                     # the injected interrupt comes first
handler:
        incl taken
        mov $SPIN, %ecx
1:      dec %ecx
        jnz 1b
        hlt

        .bss
taken:  .skip 4
