// SPDX-License-Identifier: MIT
/*
 * What superpages must not take from programs: mappings that become one, memory of threads that do little, and the base
 * pages of whoever touches memory far apart. Each is tried in a child, as the kernel kills whom it has no memory for;
 * what they look for holds without superpages, too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE (PAGE_KIB * 1024ul)
#define MIB (1ul << 20)

static int wrong;

static void expect(int holds, const char *what, long got)
{
	printf("%s %s: %ld\n", holds ? "ok" : "FAILED", what, got);
	wrong += !holds;
}

static char *map(size_t bytes, int more)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more, -1, 0);
}

/* Pages of this process. */
static long resident(void)
{
	long all, in = -1;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%ld %ld", &all, &in) != 2)
		in = -1;
	if (file)
		fclose(file);
	return in;
}

/* How many there are in this process. */
static long mappings(void)
{
	static char text[4096];
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	long lines = 0;

	for (ssize_t got; (got = read(file, text, sizeof(text))) > 0;)
		for (ssize_t at = 0; at < got; at++)
			lines += text[at] == '\n';
	close(file);
	return lines;
}

/* Of 80 KiB, where 64 KiB and with them 128 KiB are pages that the processor has. */
static void follow(void)
{
	enum { MANY = 3000 };
	long before = mappings();

	for (int i = 0; i < MANY; i++)
		if (map(80 << 10, 0) == MAP_FAILED)
			wrong++;
	expect(mappings() - before <= 2, "small mappings one after the other are few", mappings() - before);
	before = mappings();
	for (int i = 0; i < MANY; i++)
		if (map(80 << 10, MAP_STACK) == MAP_FAILED)
			wrong++;
	expect(mappings() - before <= 2, "so are those of MAP_STACK", mappings() - before);
}

static int ended(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && !status;
}

/* A touch of a page of a stack takes that page alone, whatever has become of its mapping. */
static void touch_stack(void)
{
	enum { FEW = 64 }; /* those touched, and of the program and the C library what is used first here */
	size_t bytes = 32 * MIB;
	char *stack = map(bytes, MAP_STACK), *moved;
	long before = resident();
	pid_t child;

	stack[0] = 1;
	mprotect(stack + bytes / 4, PAGE, PROT_READ);
	stack[bytes / 4 + PAGE] = 1;
	moved = mremap(stack + bytes / 2, bytes / 2, bytes / 2, MREMAP_MAYMOVE | MREMAP_FIXED, map(bytes / 2, 0));
	moved[0] = 1;
	expect(resident() - before < FEW, "pages of a stack come one by one", resident() - before);
	child = fork();
	if (!child) {
		before = resident();
		moved[bytes / 4] = 1;
		_exit(resident() - before >= FEW);
	}
	expect(ended(child), "in a child, too", 0);
}

static int hold[2];

/* Registers of each frame are needed after the call, which no compiler makes a loop. */
static long __attribute__((noinline)) descend(long depth, long a, long b, long c)
{
	long below = depth ? descend(depth - 1, a + depth, b * 3, c ^ a) : a;

	__asm__ volatile("" : "+r"(below));
	return (below ^ depth) * (a | 1) + (b & c);
}

static void *wait_for_end(void *unused)
{
	char byte;
	volatile long sum = descend(100, 1, 2, 3); /* so that registers are stored */

	(void)sum;
	return read(hold[0], &byte, 1) ? hold : unused;
}

static void start_threads(void)
{
	enum { THREADS = 150, PAGES = 8 }; /* each: of both stacks, and what the C library has of it */
	pthread_t thread[THREADS];
	long before = resident();
	void *got;

	if (pipe2(hold, O_CLOEXEC))
		wrong++;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, wait_for_end, NULL))
			wrong++;
	usleep(100000); /* all of them are waiting */
	expect(resident() - before <= THREADS * PAGES, "threads that do little take little", resident() - before);
	close(hold[1]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], &got);
}

/* As much memory four times, of which a byte each 16 MiB is touched; and a part of a superpage goes. */
static void touch_far_apart(void)
{
	struct sysinfo info;
	size_t bytes, touched = 0;
	char *all;

	sysinfo(&info);
	bytes = 4 * info.totalram * info.mem_unit;
	all = map(bytes, 0);
	for (size_t at = 0; at < bytes; at += 16 * MIB)
		touched += ++all[at];
	expect(touched == (bytes + 16 * MIB - 1) / (16 * MIB), "there is memory for bytes far apart", (long)touched);
	munmap(all, PAGE);
}

static void alone(void (*what)(void), const char *name)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		wrong = 0; /* of this one */
		what();
		fflush(stdout);
		_exit(wrong != 0);
	}
	expect(ended(child), name, 0);
}

int main(void)
{
	int line;
	FILE *file;

	alone(follow, "mappings");
	alone(touch_stack, "stack");
	alone(start_threads, "threads");
	alone(touch_far_apart, "far apart");
	file = fopen("/proc/superpages", "re");
	while (file && (line = getc(file)) != EOF)
		putchar(line);
	return wrong != 0;
}
