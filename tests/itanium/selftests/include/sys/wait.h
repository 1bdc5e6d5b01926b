// SPDX-License-Identifier: MIT
#pragma once
#include <sys/types.h>
#define WIFEXITED(status) (!((status) & 127))
#define WEXITSTATUS(status) ((status) >> 8 & 255)
pid_t waitpid(pid_t child, int *status, int options);
