// SPDX-License-Identifier: MIT
#pragma once
// Says what went wrong, err() with the number of the last error, and ends the program with this status.
void err(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void errx(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
