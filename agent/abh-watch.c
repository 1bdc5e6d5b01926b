// SPDX-License-Identifier: MIT
/*
 * The host's side of a running cell: passes on what the guest's agent says on
 * its console, samples the hypervisor's own evidence of hugepages, notices a
 * guest that is gone.
 *
 *   abh-watch freeze                       stop the emulated machine right here
 *   abh-watch watch CONSOLE ALIVE SAMPLE LAST
 *                                          CONSOLE: the file the guest's console is logged to; ALIVE: a shell
 *                                          command that fails once the guest is gone; SAMPLE: "UNIT_KIB GLOB"
 *                                          pairs, each a counter of the pages of UNIT_KIB by which the host maps
 *                                          the guest, or "" for none; LAST: a shell command that says "ABH
 *                                          value" lines at the end, or ""
 */
#include <fcntl.h>
#include <glob.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

#define TICK_NS (50 * 1000 * 1000)
#define TICKS_PER_ALIVE 60
#define CONSOLE_BYTES 3000
#define BASE_PAGE_KIB 4

static FILE *out;

/* Passes on whole "ABH " lines that are new since *offset; returns 1 once the cell has ended. */
static int pass_on(const char *console, long *offset, int *running)
{
	FILE *file = fopen(console, "re");
	char line[2048];
	int ended = 0;

	if (!file)
		return 0;
	fseek(file, *offset, SEEK_SET);
	while (!ended && fgets(line, sizeof(line), file) && strchr(line, '\n')) {
		char *start = strstr(line, "ABH ");

		*offset = ftell(file);
		line[strcspn(line, "\r\n")] = '\0';
		if (!start)
			continue;
		if (!strncmp(start, "ABH begin", 9))
			*running = 1;
		if (!strncmp(start, "ABH end", 7)) {
			ended = 1;
			break;
		}
		fprintf(out, "%s\n", start);
		fflush(out);
	}
	if (ended)
		fprintf(out, "ABH guest-end %s\n", strstr(line, "ABH end") + 8);
	fclose(file);
	return ended;
}

/* The sum of a counter's files; -1 where there is none. */
static long long counter(const char *pattern)
{
	glob_t found;
	long long sum = -1;

	if (glob(pattern, 0, NULL, &found))
		return -1;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *text = abh_read_file(found.gl_pathv[i], 64);

		if (text)
			sum = (sum < 0 ? 0 : sum) + atoll(text);
		free(text);
	}
	globfree(&found);
	return sum;
}

/* What the host maps for the guest at one moment; negative where it was not seen. */
struct mapped {
	long long huge_kib, kib;
};

static struct mapped sample(const char *spec)
{
	struct mapped now = { -1, -1 };
	char pattern[128];
	long long unit_kib;
	int length;

	for (; sscanf(spec, "%lld %127s%n", &unit_kib, pattern, &length) == 2; spec += length) {
		long long pages = counter(pattern);

		if (pages < 0)
			return (struct mapped){ -1, -1 };
		if (now.kib < 0)
			now = (struct mapped){ 0, 0 };
		now.kib += pages * unit_kib;
		now.huge_kib += unit_kib > BASE_PAGE_KIB ? pages * unit_kib : 0;
	}
	return now;
}

/* Whether a sample shows more: first of hugepages; of as much in hugepages, more in all. */
static int more(struct mapped one, struct mapped other)
{
	return one.huge_kib > other.huge_kib || (one.huge_kib == other.huge_kib && one.kib > other.kib);
}

/* The end of what the guest printed: where it stood when it went away. */
static void show_end_of(const char *console)
{
	FILE *file = fopen(console, "re");
	char line[512];

	if (!file)
		return;
	fseek(file, 0, SEEK_END);
	if (ftell(file) > CONSOLE_BYTES)
		fseek(file, -CONSOLE_BYTES, SEEK_CUR);
	else
		rewind(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\r\n")] = '\0';
		fprintf(out, "ABH console %s\n", line);
	}
	fclose(file);
}

/* Passes on what a command says of the guest; it is still there, at its end. */
static void ask(const char *command)
{
	FILE *answer = popen(command, "re");
	char line[512];

	while (answer && fgets(line, sizeof(line), answer))
		fputs(line, out);
	if (!answer || pclose(answer) != 0)
		fprintf(out, "ABH step failed: %s\n", command);
}

static int watch(const char *console, const char *alive, const char *spec, const char *last)
{
	struct timespec tick = { .tv_nsec = TICK_NS };
	struct mapped peak = { -1, -1 };
	long offset = 0;
	int running = 0, ended = 0;

	for (unsigned long ticks = 1; !ended; ticks++) {
		/* As the first process: libvirt waits for a dead guest's QEMU to be reaped before it calls it gone. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		ended = pass_on(console, &offset, &running);
		if (running) {
			struct mapped now = sample(spec);

			if (more(now, peak))
				peak = now;
		}
		if (!ended && ticks % TICKS_PER_ALIVE == 0 && system(alive) != 0) {
			show_end_of(console);
			fprintf(out, "ABH end crash the guest is gone before its cell ended\n");
			return 0;
		}
		if (!ended)
			nanosleep(&tick, NULL);
	}
	/* Both of one moment, so that one is a share of the other. */
	if (peak.kib >= 0)
		fprintf(out, "ABH value host_huge_kib %lld\nABH value host_mapped_kib %lld\n", peak.huge_kib, peak.kib);
	if (*last)
		ask(last);
	fprintf(out, "ABH end host\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *path = getenv("abh_out");

	if (argc == 2 && !strcmp(argv[1], "freeze"))
		return abh_freeze() ? 1 : 0;
	out = path ? fopen(path, "we") : stdout;
	if (argc != 6 || strcmp(argv[1], "watch") || !out) {
		fprintf(stderr, "usage: abh-watch freeze | watch CONSOLE ALIVE SAMPLE LAST\n");
		return 2;
	}
	watch(argv[2], argv[3], argv[4], argv[5]);
	fflush(out);
	for (;;)
		pause();
}
