// SPDX-License-Identifier: MIT
#pragma once
#include <stdarg.h>
#include <stddef.h>
#ifndef EOF
#define EOF (-1)
#endif
// %d %u %x, with a width that zeros fill or spaces, and l or ll before them; %c, %s, %%. Anything else is said as it
// is.
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int snprintf(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vprintf(const char *format, va_list args);
int puts(const char *text);
int putchar(int character);
