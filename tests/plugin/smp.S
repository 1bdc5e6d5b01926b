# SPDX-License-Identifier: MIT
# Two vCPUs: the first marks the region and waits, the second starts, works and halts within it.

        .include "common.inc"

.set APIC_SPURIOUS, 0xfee000f0
.set APIC_ICR_LOW, 0xfee00300
.set INIT_ALL_BUT_SELF, 0xc4500
.set STARTUP_ALL_BUT_SELF, 0xc4600
.set PAGE, 8                    # the second vCPU starts at PAGE << 12, in real mode
.set DONE, 0x7000               # a byte that neither firmware nor loader uses by now

main:
        mov $second, %esi
        mov $PAGE << 12, %edi
        mov $second_end - second, %ecx
        rep movsb
        movb $0, DONE
        orl $0x100, APIC_SPURIOUS
        movl $INIT_ALL_BUT_SELF, APIC_ICR_LOW
        mov $1000, %ecx
1:      pause
        loop 1b

        # 1: (movl) + turns * (inc, pause, cmpb, jne), turns to the console; and what the second vCPU executes.
        # PAUSE lets QEMU's other vCPU run.
        xor %ebx, %ebx
        BEGIN
        movl $STARTUP_ALL_BUT_SELF | PAGE, APIC_ICR_LOW
1:      inc %ebx
        pause
        cmpb $1, DONE
        jne 1b
        END
        mov %ebx, %eax
        PUT_EAX
        QUIT PASSED

        # (xor, mov, mov) + 20000 * (dec, jnz) + (movb, hlt)
        .code16
second: xor %ax, %ax
        mov %ax, %ds
        mov $20000, %cx
1:      dec %cx
        jnz 1b
        movb $1, DONE
        hlt
second_end:
        .code32
