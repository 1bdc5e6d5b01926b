// SPDX-License-Identifier: MIT
/*
 * First process of a machine that tests a kernel. It does what the file /job says, a line at a time, and ends:
 *
 *	set PATH VALUE		write a file of /sys or /proc; failing ends the job
 *	run WORD ...		run a program; its status is printed
 *	limit SECONDS		of the programs that follow
 *
 * What it says begins with "TEST ". Programs write to the console. Where the kernel's command line ends with
 * `-- PROGRAM WORD ...`, that is run, and no job is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MOST_WORDS 32

static unsigned limit_s;

static void end(const char *how)
{
	printf("TEST end %s\n", how);
	fflush(stdout);
	tcdrain(1);
	sync();
	reboot(RB_AUTOBOOT); /* which the emulator takes for its end: not every kernel can power off */
	for (;;)
		pause();
}

static void mount_all(void)
{
	static const char *const mounts[][2] = {
		{ "/proc", "proc" },     { "/sys", "sysfs" },
		{ "/dev", "devtmpfs" },  { "/sys/fs/cgroup", "cgroup2" },
		{ "/tmp", "tmpfs" },     { "/sys/kernel/debug", "debugfs" },
		{ "/dev/shm", "tmpfs" }, { "/sys/kernel/tracing", "tracefs" },
	};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i][0], 0755);
		if (mount(mounts[i][1], mounts[i][0], mounts[i][1], 0, NULL) && errno != EBUSY)
			printf("TEST no %s: %s\n", mounts[i][0], strerror(errno));
	}
}

static int write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t done = file < 0 ? -1 : write(file, text, strlen(text));

	if (file >= 0)
		close(file);
	return done == (ssize_t)strlen(text) ? 0 : -1;
}

static void set(char *rest)
{
	char *value = strchr(rest, ' ');

	if (!value)
		end("the job has a malformed line");
	*value++ = '\0';
	printf("TEST set %s %s\n", rest, value);
	if (write_file(rest, value)) {
		printf("TEST %s\n", strerror(errno));
		end("a setting was refused");
	}
}

static void run_words(char **words)
{
	int status;
	pid_t child;

	printf("TEST run");
	for (int i = 0; words[i]; i++)
		printf(" %s", words[i]);
	printf("\n");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(limit_s);
		execv(words[0], words);
		printf("TEST %s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("TEST status signal %d\n", WTERMSIG(status));
	else
		printf("TEST status %d\n", WEXITSTATUS(status));
}

static void run(char *rest)
{
	char *words[MOST_WORDS + 1] = { NULL };
	int n = 0;

	for (char *word = strtok(rest, " "); word && n < MOST_WORDS; word = strtok(NULL, " "))
		words[n++] = word;
	run_words(words);
}

int main(int argc, char **argv)
{
	char line[1024];
	FILE *job;

	mount_all();
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	/* The kernel also passes on words that it does not know. */
	if (argc > 1 && argv[1][0] == '/') {
		run_words(argv + 1);
		end("well");
	}
	if (!access("/dev/vda", F_OK) && swapon("/dev/vda", 0))
		printf("TEST no swap: %s\n", strerror(errno));
	job = fopen("/job", "re");
	while (job && fgets(line, sizeof(line), job)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "set ", 4))
			set(line + 4);
		else if (!strncmp(line, "run ", 4))
			run(line + 4);
		else if (!strncmp(line, "limit ", 6))
			limit_s = (unsigned)atoi(line + 6);
		else
			end("the job has an unknown line");
	}
	end(job ? "well" : "there is no job");
}
