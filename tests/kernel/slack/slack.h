/* SPDX-License-Identifier: MIT */
/* What the tests of slack share. */
#ifndef SLACK_H
#define SLACK_H

#include <stdbool.h>
#include <stddef.h>

/* What the process has been given and did not ask for. */
long slack_kib(void);

/* A mapping with slack behind it; without ABH, with nothing there. */
char *with_slack(size_t bytes);

/* The most slack and surplus, for all processes: cases that set it are the last, or set it back. */
void bound_to(unsigned long bytes);

void left(const char *at, const char *after);
bool has_pieces(void);

#endif
