# SPDX-License-Identifier: MIT
# Waits for the test to write a byte into the serial port's scratch register; then one region of known length.

        .include "common.inc"

.set SCRATCH, 0x3ff
.set GO, 0x42

main:
        mov $'W', %al
        out %al, $DEBUG_PORT
        mov $SCRATCH, %dx
1:      in %dx, %al
        cmp $GO, %al
        jne 1b

        # 1: 1 + 300 * 2
        BEGIN
        mov $300, %ecx
1:      dec %ecx
        jnz 1b
        END
        QUIT PASSED
