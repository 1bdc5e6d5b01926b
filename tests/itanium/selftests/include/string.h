// SPDX-License-Identifier: MIT
#pragma once
#include_next <string.h>
char *strstr(const char *in, const char *text);
char *strtok(char *text, const char *between);
char *strerror(int number);
int ffsl(long value);
