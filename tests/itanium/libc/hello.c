// SPDX-License-Identifier: MIT
/*
 * What a program has of the C library that is built for this machine (recipes/ia64-glibc.sh): numbers, signals,
 * processes, threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static __thread int of_thread = 42;
static sigjmp_buf faulted;
static volatile sig_atomic_t alarms;
static int wrong;

static void expect(int holds, const char *what)
{
	printf("%s %s\n", holds ? "ok" : "FAILED", what);
	wrong += !holds;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	siglongjmp(faulted, number);
}

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

static void print(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%d %#lx %s %.3f %g %Lg", -7, 0xabcdul, "words", 2.0 / 3, 1e-300, 3.5L);
	expect(!strcmp(text, "-7 0xabcd words 0.667 1e-300 3.5"), text);
	expect(strtod("0.1", NULL) == 0.1 && strtoul("ffffffffffffffff", NULL, 16) == ~0ul, "numbers are read");
	errno = ENOENT;
	expect(!strcmp(strerror(errno), "No such file or directory"), "errors have names");
}

/* As deep as there are frames to come back over, so that the register stack has been stored. */
static long descend(long depth, void *nowhere)
{
	if (!depth)
		*(volatile long *)nowhere = 1;
	return depth ? descend(depth - 1, nowhere) + depth : 0;
}

static void handle_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	void *nowhere = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int caught = 0;
	int number;

	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < 100; i++) {
		number = sigsetjmp(faulted, 1);
		if (number)
			caught += number == SIGSEGV;
		else
			descend(i, nowhere);
	}
	expect(caught == 100, "a fault is caught a hundred times");
	signal(SIGALRM, on_alarm);
	alarm(1);
	pause();
	expect(alarms == 1, "an alarm comes");
}

static void start_processes(void)
{
	int status, sum = 0;

	for (int i = 0; i < 8; i++) {
		pid_t child = fork();

		if (!child) {
			of_thread += i;
			_exit(of_thread);
		}
		waitpid(child, &status, 0);
		sum += WEXITSTATUS(status);
	}
	expect(sum == 8 * 42 + 28 && of_thread == 42, "children have memory of their own");
}

static pthread_mutex_t together = PTHREAD_MUTEX_INITIALIZER;
static int counted, cleaned;

static void clean(void *unused)
{
	(void)unused;
	cleaned++;
}

/* Leaves by the stack being unwound, from some frames below the thread's first. */
static long leave(long depth)
{
	if (!depth && of_thread)
		pthread_exit((void *)(long)of_thread);
	return depth ? leave(depth - 1) + depth : 0;
}

static void *run_thread(void *number)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&together);
		counted++;
		pthread_mutex_unlock(&together);
	}
	of_thread += (int)(long)number;
	pthread_cleanup_push(clean, NULL);
	leave(50);
	pthread_cleanup_pop(0);
	return NULL;
}

static void start_threads(void)
{
	pthread_t thread[4];
	long sum = 0;
	void *got;

	for (long i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, run_thread, (void *)i))
			wrong++;
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &got);
		sum += (long)got;
	}
	expect(counted == 4000 && sum == 4 * 42 + 6, "threads count together, and have storage of their own");
	expect(cleaned == 4, "threads are unwound when they leave");
}

static void take_memory(void)
{
	unsigned char *kept[64];
	int same = 1;

	for (int i = 0; i < 64; i++) {
		kept[i] = malloc(1ul << (i % 22));
		memset(kept[i], i, 1ul << (i % 22));
	}
	for (int i = 0; i < 64; i++) {
		same &= kept[i][0] == i && kept[i][(1ul << (i % 22)) - 1] == i;
		free(kept[i]);
	}
	expect(same, "malloc() gives memory");
}

int main(void)
{
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	print();
	handle_signals();
	start_processes();
	start_threads();
	take_memory();
	clock_gettime(CLOCK_MONOTONIC, &after);
	expect(after.tv_sec - before.tv_sec >= 1 && after.tv_sec - before.tv_sec < 10, "time goes on");
	printf("hello: %s\n", wrong ? "not all is well" : "all is well");
	return wrong != 0;
}
