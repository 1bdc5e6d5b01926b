// SPDX-License-Identifier: MIT
// What a program on the machine has in place of a C library: calls of the kernel, and their numbers.
#ifndef ABH_ITANIUM_INIT_H
#define ABH_ITANIUM_INIT_H

typedef unsigned long word;

long call(long a, long b, long c, long d, long e, long f, long number);

enum {
	READ = 1026,
	WRITE = 1027,
	OPEN = 1028,
	CLOSE = 1029,
	EXIT = 1025,
	EXECVE = 1033,
	GETPID = 1041,
	MKDIR = 1055,
	MOUNT = 1043,
	REBOOT = 1096,
	WAIT = 1126,
	CLONE = 1128,
	MMAP = 1151,
	MUNMAP = 1152,
	SLEEP = 1168,
	MPROTECT = 1155,
	MREMAP = 1156,
	MADVISE = 1209,
	DUP = 1057,
	PIPE = 1317
};
enum { CHILD = 17, PAGE = PAGE_KIB << 10 }; // PAGE_KIB: of the kernel's options

// A program of a file in tests/itanium/thesis, which runs it for so many rounds; 0: it went wrong.
struct program {
	const char *name;
	int (*run)(word rounds);
};

// Begins the function of a program; the linker lists all of them.
#define PROGRAM(name)                                                                                                  \
	static int run_##name(word rounds);                                                                            \
	static const struct program program_##name                                                                     \
		__attribute__((used, section("programs"), aligned(8))) = { #name, run_##name };                        \
	static int run_##name(word rounds)

// To the console.
void say(const char *text);
void say_number(const char *what, long number);

// Memory that is there when it is touched; of HugeTLB's pages, which are there before; one page of it each.
char *reserve(word bytes);
char *reserve_huge(word bytes);
void touch(char *memory, word bytes);

// So many bytes of this memory at random, in each round.
void at_random(char *memory, word bytes, int touches, word rounds);

// Waits for a child; 1: it ended with status 0.
int ended(long child);

// Starts this program anew in a child, to touch so many MiB and end; 1: it ended well.
int start(const char *megabytes);

// A token goes so often round so many processes; each touches so many pages before it passes it on. 1: all went well.
int relay(int processes, int pages, word rounds);

// Whether there is a program of this name, and the names of all.
int is_program(const char *name);
void say_programs(void);

// Runs the program of this name, which there is; 0: it went wrong.
int perform(const char *name, word rounds);

#endif
