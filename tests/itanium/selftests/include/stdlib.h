// SPDX-License-Identifier: MIT
#pragma once
#include_next <stdlib.h>
#define EXIT_FAILURE 1
unsigned long strtoul(const char *text, char **end, int base);
long strtol(const char *text, char **end, int base);
long atol(const char *text);
int atoi(const char *text);
void srand(unsigned seed);
int rand(void);
int system(const char *command);
char *getenv(const char *name);
