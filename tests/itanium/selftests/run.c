// SPDX-License-Identifier: MIT
// The first process of the machine: runs the kernel's own tests of memory, or those that the kernel's command line
// names, each in a process, and says how each ended.
#include <asm/unistd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char *const tests[] = { TESTS };

static int ended(const char *name)
{
	char path[64];
	char *const words[] = { path, NULL }, *const environment[] = { NULL };
	int status = -1;
	pid_t child;

	snprintf(path, sizeof(path), "/t/%s", name);
	child = fork();
	if (!child) {
		/* A limit that is none to root, which tools/testing/selftests/vm/run_vmtests.sh knows, too. */
		if (!strcmp(name, "on-fault-limit"))
			syscall(__NR_setuid, NOBODY);
		syscall(__NR_execve, path, words, environment);
		_exit(127);
	}
	waitpid(child, &status, 0);
	return status;
}

static void run(char *const *names, int count)
{
	for (; count; count--, names++) {
		int status;

		printf("selftest: %s begins\n", *names);
		status = ended(*names);
		if (WIFEXITED(status))
			printf("selftest: %s ended with %d\n", *names, WEXITSTATUS(status));
		else
			printf("selftest: %s ended by signal %d\n", *names, status & 127);
	}
}

int main(int count, char **words)
{
	FILE *file;
	char line[256];

	printf("\ninit: here\n");
	if (syscall(__NR_mount, "proc", "/proc", "proc", 0L, NULL))
		perror("/proc");
	if (count > 1)
		run(words + 1, count - 1);
	else
		run(tests, sizeof(tests) / sizeof(*tests));
	file = fopen("/proc/superpages", "r");
	while (file && fgets(line, sizeof(line), file))
		printf("%s", line);
	printf("init: all is well\n");
	syscall(__NR_reboot, 0xfee1deadL, 672274793L, 0x01234567L, NULL);
	return 1;
}
