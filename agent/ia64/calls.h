// SPDX-License-Identifier: MIT
// Calls of the kernel and their numbers (arch/ia64/kernel/syscalls/syscall.tbl, from 1024 on).
#pragma once

long call(long a, long b, long c, long d, long e, long f, long number);

enum {
	CALL_EXIT = 1025,
	CALL_READ = 1026,
	CALL_WRITE = 1027,
	CALL_OPEN = 1028,
	CALL_CLOSE = 1029,
	CALL_EXECVE = 1033,
	CALL_CHDIR = 1034,
	CALL_MOUNT = 1043,
	CALL_ACCESS = 1049,
	CALL_MKDIR = 1055,
	CALL_DUP2 = 1070,
	CALL_BRK = 1060,
	CALL_REBOOT = 1096,
	CALL_SETITIMER = 1118,
	CALL_WAIT4 = 1126,
	CALL_CLONE = 1128,
	CALL_MMAP = 1151,
	CALL_MUNMAP = 1152,
};
