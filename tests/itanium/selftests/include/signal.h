// SPDX-License-Identifier: MIT
#pragma once
#include <sys/types.h>
enum { SIGKILL = 9, SIGCHLD = 17 };
int kill(pid_t process, int signal);
