// SPDX-License-Identifier: MIT
#include <stddef.h>
int printf(const char *format, ...);
int puts(const char *text);
int putchar(int character);
