# SPDX-License-Identifier: MIT
# What CPUID says of SVM: the number of ASIDs, and the features.

        .include "common.inc"

main:
        mov $0x8000000a, %eax
        cpuid
        mov %ebx, %eax
        PUT_EAX
        mov %edx, %eax
        PUT_EAX
        QUIT PASSED
