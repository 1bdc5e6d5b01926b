# SPDX-License-Identifier: MIT
# Six regions of known length, with work outside that must not count.

        .include "common.inc"

main:
        CATCH 0, skip_division
        mov $12345, %ecx
1:      loop 1b

        # 1: nothing between the marks
        BEGIN
        END

        # 2: 1 + 1000 * 2
        BEGIN
        mov $1000, %ecx
1:      dec %ecx
        jnz 1b
        END
        mov $777, %ecx
1:      loop 1b

        # 3: 1 + 100 * (call, push, pop, add, ret, dec, jnz): blocks that end in memory and indirect jumps
        BEGIN
        mov $100, %ecx
1:      call work
        dec %ecx
        jnz 1b
        END

        # 4: 3 + repetitions of a string instruction
        BEGIN
        mov $scratch, %edi
        mov $500, %ecx
        xor %eax, %eax
        rep stosb
        END

        # 5: a fault leaves the block in its middle: (xor, xor, inc, div) + (addl, iret) + (inc), without the two
        # NOPs after the division, which the block's translation holds and the handler steps over
        BEGIN
        xor %ecx, %ecx
        xor %edx, %edx
        inc %eax
        div %ecx
        nop
        nop
        inc %eax
        END

        # 6: (rdtsc, mov) + 1 + 5000 * 2 + (rdtsc, sub), and the clock's own count of it to the console
        BEGIN
        rdtsc
        mov %eax, %ebx
        mov $5000, %ecx
1:      dec %ecx
        jnz 1b
        rdtsc
        sub %ebx, %eax
        END
        PUT_EAX
        QUIT PASSED

work:   push %ebx
        pop %ebx
        add $1, %ebx
        ret

skip_division:
        addl $4, (%esp)
        iret

        .bss
scratch: .skip 500
