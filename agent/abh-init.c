// SPDX-License-Identifier: MIT
/*
 * First process of every system in the bench, static.
 *
 * From an initramfs it puts the root image it finds there in place and goes on
 * as /abh/init-host (hosts) or as itself (native). As the first process of a
 * guest or of the native system it runs one cell: sets the knobs, runs the
 * workload in a control group of its own, and says what the kernel counted.
 */
#define _GNU_SOURCE /* pipe2() */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"
#include "region.h"

#define IMAGE "/root.erofs"
#define CGROUP "/sys/fs/cgroup/cell"
#define OUTPUT "/tmp/workload.out"
#define OUTPUT_LINES 200
/* Arbitrary: often enough to catch a peak, rare enough to cost nothing that shows. */
#define SAMPLE_NS (20 * 1000 * 1000)

static FILE *out;

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("ABH ", out);
	vfprintf(out, format, args);
	fputc('\n', out);
	fflush(out);
	va_end(args);
}

/* Ends the cell for good: the last line says how. */
static void finish(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("ABH end ", out);
	vfprintf(out, format, args);
	fputc('\n', out);
	fflush(out);
	va_end(args);
	fsync(fileno(out));
	/* A guest stays: its host may still want to look at it. Whoever waits for the last line ends the machine. */
	if (getenv("abh_role"))
		reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void mount_or_die(const char *what, const char *where, const char *type, unsigned long flags, const char *data)
{
	if (mount(what, where, type, flags, data) && errno != EBUSY)
		finish("error mount %s on %s: %s", what, where, strerror(errno));
}

static void mount_kernel_filesystems(void)
{
	mount_or_die("proc", "/proc", "proc", 0, NULL);
	mount_or_die("sys", "/sys", "sysfs", 0, NULL);
	mount_or_die("dev", "/dev", "devtmpfs", 0, NULL);
	mount_or_die("tmp", "/tmp", "tmpfs", 0, "size=90%");
	mount_or_die("run", "/run", "tmpfs", 0, NULL);
	mount_or_die("cgroup", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	mount("debug", "/sys/kernel/debug", "debugfs", 0, NULL);
}

static void open_output(void)
{
	const char *path = getenv("abh_out") ?: "/dev/console";
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);

	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out)
		out = stderr;
}

/* In an initramfs: attach the root image, put it in place of the root, go on inside it. */
static void enter_root_image(void)
{
	const char *role = getenv("abh_role") ?: "native";
	int image, loop;

	mkdir("/dev", 0755);
	mkdir("/mnt", 0755);
	mount_or_die("dev", "/dev", "devtmpfs", 0, NULL);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(open("/dev/console", O_RDWR | O_NOCTTY), fd) < 0)
			break;
	open_output();
	image = open(IMAGE, O_RDONLY | O_CLOEXEC);
	loop = open("/dev/loop0", O_RDWR | O_CLOEXEC);
	if (image < 0 || loop < 0 || ioctl(loop, LOOP_SET_FD, image))
		finish("error attach %s: %s", IMAGE, strerror(errno));
	close(loop); /* a device open for writing can't be mounted */
	mount_or_die("/dev/loop0", "/mnt", "erofs", MS_RDONLY, NULL);
	if (!strcmp(role, "host")) {
		/* Daemons write to /etc and /var: a scratch layer above the image. */
		mkdir("/upper", 0755);
		mount_or_die("upper", "/upper", "tmpfs", 0, NULL);
		mkdir("/upper/up", 0755);
		mkdir("/upper/work", 0755);
		mkdir("/merged", 0755);
		mount_or_die("root", "/merged", "overlay", 0, "lowerdir=/mnt,upperdir=/upper/up,workdir=/upper/work");
		mkdir("/merged/image", 0755);
		mount_or_die("/images", "/merged/image", NULL, MS_BIND, NULL);
		if (chdir("/merged"))
			finish("error chdir: %s", strerror(errno));
	} else if (chdir("/mnt")) {
		finish("error chdir: %s", strerror(errno));
	}
	mount_or_die("/dev", "dev", NULL, MS_MOVE, NULL);
	mount_or_die(".", "/", NULL, MS_MOVE, NULL);
	if (chroot(".") || chdir("/"))
		finish("error chroot: %s", strerror(errno));
	if (!strcmp(role, "host"))
		execl("/abh/init-host", "/abh/init-host", NULL);
	else
		execl("/abh/abh-init", "/abh/abh-init", NULL);
	finish("error exec after root switch: %s", strerror(errno));
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t length = (ssize_t)strlen(text), done = -1;

	if (fd >= 0) {
		done = write(fd, text, (size_t)length);
		close(fd);
	}
	return done == length ? 0 : -1;
}

struct cell {
	char *argv[ABH_MAX_WORDS + 1];
	char *before[ABH_MAX_WORDS + 1];
	char *cwd;
	double timeout_s;
};

static void add_word(char **argv, char *word)
{
	int words = 0;

	while (argv[words])
		if (++words == ABH_MAX_WORDS)
			finish("error more than %d words", ABH_MAX_WORDS);
	argv[words] = word;
}

static void take_line(struct cell *cell, const struct abh_line *line)
{
	if (!strcmp(line->key, "set")) {
		char *value = strchr(line->rest, ' ');

		if (!value)
			finish("error malformed line: set %s", line->rest);
		*value++ = '\0';
		if (write_text(line->rest, value))
			finish("error set %s=%s: %s", line->rest, value, strerror(errno));
	} else if (!strcmp(line->key, "require")) {
		if (access(line->rest, F_OK))
			finish("skip this system has no %s", line->rest);
	} else if (!strcmp(line->key, "absent")) {
		if (!access(line->rest, F_OK))
			finish("error %s is there, and the environment says that it is not", line->rest);
	} else if (!strcmp(line->key, "env")) {
		putenv(line->rest);
	} else if (!strcmp(line->key, "cwd")) {
		cell->cwd = line->rest;
	} else if (!strcmp(line->key, "timeout")) {
		cell->timeout_s = atof(line->rest);
	} else if (!strcmp(line->key, "arg")) {
		add_word(cell->argv, line->rest);
	} else if (!strcmp(line->key, "before")) {
		add_word(cell->before, line->rest);
	} else {
		finish("error unknown line: %s", line->key);
	}
}

static void read_cell(struct cell *cell)
{
	const char *path = getenv("abh_cell") ?: "/sys/firmware/qemu_fw_cfg/by_name/opt/abh/cell/raw";
	char *text = abh_read_file(path, ABH_CELL_BYTES);
	struct abh_line line = { .key = "" };

	if (!text)
		finish("error read %s: %s", path, strerror(errno));
	if (!abh_next_line(&text, &line) || strcmp(line.key, "ABHCELL") || strcmp(line.rest, "1"))
		finish("error %s is not a cell: starts with '%.20s'", path, line.key);
	while (abh_next_line(&text, &line))
		take_line(cell, &line);
	if (!cell->argv[0] || cell->timeout_s <= 0)
		finish("error the cell has no command or no time limit");
}

/*
 * Starts the command that the policy wants to be there before the workload, and waits for its word. It goes on beside
 * the workload, out of its control group and never reaped, so that nothing of it is counted as the workload's.
 */
static void start_before(char *const *argv)
{
	char word[256] = "";
	int ends[2];
	FILE *said;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		finish("error pipe: %s", strerror(errno));
	child = fork();
	if (!child) {
		if (dup2(ends[1], 1) >= 0 && dup2(ends[1], 2) >= 0)
			execv(argv[0], argv);
		dprintf(ends[1], "%s\n", strerror(errno));
		_exit(127);
	}
	close(ends[1]);
	said = fdopen(ends[0], "re");
	if (child < 0 || !said || !fgets(word, sizeof(word), said) || strcmp(word, "ready\n"))
		finish("error %s said '%.*s' before the workload, not 'ready'", argv[0], (int)strcspn(word, "\n"),
		       word);
}

static pid_t start_workload(const struct cell *cell)
{
	pid_t child = fork();

	if (child)
		return child;
	int fd = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || write_text(CGROUP "/cgroup.procs", "0") ||
	    (cell->cwd && chdir(cell->cwd)))
		_exit(126);
	execvp(cell->argv[0], cell->argv);
	dprintf(2, "abh-init: %s: %s\n", cell->argv[0], strerror(errno));
	_exit(127);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long long group_value(const char *key)
{
	char *table = abh_read_file(CGROUP "/memory.stat", 16384);
	long long value = table ? abh_table_value(table, key) : -1;

	free(table);
	return value;
}

/*
 * Waits for the workload, watching its hugepages; returns false on time-out. The workload is dead then but not reaped:
 * a zombie can still be asked what its faults were.
 */
static bool watch(pid_t child, double limit_s, long long *huge_peak)
{
	struct timespec tick = { .tv_nsec = SAMPLE_NS };
	double start = seconds();
	siginfo_t gone = { .si_pid = 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (!waitid(P_PID, (id_t)child, &gone, WEXITED | WNOHANG | WNOWAIT) && !gone.si_pid) {
		long long huge = group_value("anon_thp");

		if (huge > *huge_peak)
			*huge_peak = huge;
		if (seconds() - start > limit_s) {
			kill(child, SIGKILL);
			waitid(P_PID, (id_t)child, &gone, WEXITED | WNOWAIT);
			return false;
		}
		sigtimedwait(&set, NULL, &tick);
	}
	return true;
}

/*
 * The kernel's table of why the workload's faults, and those of children it waited for, got no hugepage. It is there if
 * the cell has set explain_faults.
 */
static void show_faults(pid_t child)
{
	char path[64], *text;
	struct abh_line line;

	snprintf(path, sizeof(path), "/proc/%d/thp_faults", child);
	text = abh_read_file(path, 16384);
	while (abh_next_line(&text, &line))
		say("faults %s %s", line.key, line.rest);
}

static const struct {
	const char *name, *vmstat;
} deltas[] = {
	{ "huge_fallbacks", "thp_fault_fallback" },
	{ "huge_splits", "thp_split_page" },
	{ "huge_pmd_splits", "thp_split_pmd" },
	{ "huge_collapses", "thp_collapse_alloc" },
	{ "system_faults", "pgfault" },
	{ "system_huge_faults", "thp_fault_alloc" },
};
#define DELTAS (sizeof(deltas) / sizeof(deltas[0]))

static void read_deltas(long long values[DELTAS])
{
	char *table = abh_read_file("/proc/vmstat", 32768);

	for (size_t i = 0; i < DELTAS; i++)
		values[i] = table ? abh_table_value(table, deltas[i].vmstat) : -1;
	free(table);
}

static long long free_hugepages(void)
{
	char *table = abh_read_file("/proc/buddyinfo", 4096);
	long long number = table ? abh_free_hugepages(table) : -1;

	free(table);
	return number;
}

static void show_output(void)
{
	FILE *file = fopen(OUTPUT, "re");
	char line[1024];

	for (int i = 0; file && i < OUTPUT_LINES && fgets(line, sizeof(line), file); i++) {
		line[strcspn(line, "\n")] = '\0';
		say("out %s", line);
	}
}

static void run_cell(void)
{
	struct cell cell = { 0 };
	long long before[DELTAS], after[DELTAS], huge_peak = 0, free_huge;
	struct rusage usage;
	double start, end;
	bool in_time;
	int status;
	pid_t child;
	sigset_t set;

	read_cell(&cell);
	if (cell.before[0])
		start_before(cell.before);
	if (write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory") || mkdir(CGROUP, 0755))
		finish("error control group: %s", strerror(errno));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	free_huge = free_hugepages();
	read_deltas(before);
	say("begin");
	start = seconds();
	abh_region_begin();
	child = start_workload(&cell);
	in_time = watch(child, cell.timeout_s, &huge_peak);
	abh_region_end();
	end = seconds();
	read_deltas(after);
	show_faults(child);
	waitpid(child, &status, 0);
	getrusage(RUSAGE_CHILDREN, &usage);
	show_output();
	say("value minor_faults %ld", usage.ru_minflt);
	say("value major_faults %ld", usage.ru_majflt);
	say("value rss_peak_kib %ld", usage.ru_maxrss);
	say("value huge_faults %lld", group_value("thp_fault_alloc"));
	say("value guest_huge_kib %lld", huge_peak / 1024);
	say("value free_hugepages %lld", free_huge);
	for (size_t i = 0; i < DELTAS; i++)
		if (before[i] >= 0)
			say("value %s %lld", deltas[i].name, after[i] - before[i]);
	say("value elapsed %.6f", end - start);
	if (!in_time)
		finish("timeout %g", cell.timeout_s);
	if (WIFSIGNALED(status))
		finish("signal %d", WTERMSIG(status));
	finish("exit %d", WEXITSTATUS(status));
}

int main(void)
{
	if (!access(IMAGE, F_OK))
		enter_root_image();
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	out = stderr;
	mount_kernel_filesystems();
	open_output();
	if (getenv("abh_freeze") && abh_freeze())
		finish("error freeze: %s", strerror(errno));
	run_cell();
}
