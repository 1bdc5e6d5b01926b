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
#include <linux/random.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "group.h"
#include "protocol.h"
#include "region.h"
#include "tree.h"

#define IMAGE "/root.erofs"
#define OUTPUT "/tmp/workload.out"
#define OUTPUT_LINES 200
/* Of processes that were killed: none is busy for that long, but one may wait for a device that never answers. */
#define REAP_S 10

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
	bool idle; /* what the first process leaves running is looked at again */
};

static void add_word(char **argv, char *word)
{
	int words = 0;

	while (argv[words])
		if (++words == ABH_MAX_WORDS)
			finish("error more than %d words", ABH_MAX_WORDS);
	argv[words] = word;
}

/*
 * Gives the kernel's randomness another seed, so that all that is drawn from here on, addresses first, is drawn anew.
 * The seed counts as entropy: else a kernel that has none yet would not use it.
 */
static void draw_anew(const char *seed)
{
	struct {
		struct rand_pool_info head;
		char bytes[32];
	} given = { .head = { .entropy_count = 8 * sizeof(given.bytes), .buf_size = sizeof(given.bytes) } };
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	snprintf(given.bytes, sizeof(given.bytes), "draw %s", seed);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &given) || ioctl(fd, RNDRESEEDCRNG))
		finish("error draw %s: %s", seed, strerror(errno));
	close(fd);
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
	} else if (!strcmp(line->key, "draw")) {
		draw_anew(line->rest);
	} else if (!strcmp(line->key, "cwd")) {
		cell->cwd = line->rest;
	} else if (!strcmp(line->key, "idle")) {
		cell->idle = true;
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
	if (!abh_next_line(&text, &line) || strcmp(line.key, "ABHCELL") || strcmp(line.rest, ABH_VERSION))
		finish("error %s is not a cell: starts with '%.20s'", path, line.key);
	while (abh_next_line(&text, &line))
		take_line(cell, &line);
	if (!cell->argv[0] || cell->timeout_s <= 0)
		finish("error the cell has no command or no time limit");
}

/*
 * Starts the command that the policy wants to be there before the workload, and waits for its word. It goes on beside
 * the workload, out of its control group, and nothing of it is counted as the workload's.
 */
static pid_t start_before(char *const *argv)
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
	return child;
}

/* A fork into the control group: so the group counts every fault of the process, those before exec() too. */
static pid_t fork_into_group(void)
{
	int group = open(ABH_GROUP, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)group };
	pid_t child = group < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (child < 0)
		finish("error start in %s: %s", ABH_GROUP, strerror(errno));
	if (child)
		close(group);
	return child;
}

static pid_t start_workload(const struct cell *cell)
{
	pid_t child = fork_into_group();

	if (child)
		return child;
	int fd = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || (cell->cwd && chdir(cell->cwd)))
		_exit(126);
	execvp(cell->argv[0], cell->argv);
	dprintf(2, "abh-init: %s: %s\n", cell->argv[0], strerror(errno));
	_exit(127);
}

/*
 * Waits for the first process of the workload, watching the group; returns false on time-out. Orphans that end
 * meanwhile are reaped.
 */
static bool watch(double limit_s, struct abh_tree *tree, struct abh_peaks *peaks)
{
	struct timespec tick = { .tv_nsec = ABH_SAMPLE_NS };
	double start = abh_seconds();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (!abh_reap(tree, tree->first)) {
		abh_sample(peaks);
		if (abh_seconds() - start > limit_s)
			return false;
		sigtimedwait(&set, NULL, &tick);
	}
	return true;
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

/*
 * What was counted of the workload: of its control group, so of every process that it started, whoever their parents
 * are by now. The group has no peak of resident memory, and counts as major only what began to read a file: these two
 * are of each process that was reaped. Its pgfault is both kinds of faults.
 */
static void show_group(const struct abh_tree *tree, const struct abh_peaks *peaks)
{
	long long faults;

	abh_settle_group();
	faults = abh_group_value("pgfault");
	say("value minor_faults %lld", faults < 0 ? -1 : faults - tree->major_faults);
	say("value major_faults %lld", tree->major_faults);
	say("value rss_peak_kib %lld", tree->rss_peak_kib > peaks->rss_kib ? tree->rss_peak_kib : peaks->rss_kib);
	say("value memory_peak_kib %lld", peaks->memory_kib);
	say("value mappings_peak %lld", peaks->mappings);
	say("value huge_faults %lld", abh_group_value("thp_fault_alloc"));
	say("value guest_huge_kib %lld", peaks->huge / 1024);
	say("value processes_left %lld", tree->left);
}

/* The kernel's table of why the workload's faults got no hugepage. It is there if the cell has set explain_faults. */
static void show_faults(const struct abh_tree *tree)
{
	if (*tree->header)
		say("faults %s", tree->header);
	for (int i = 0; i < tree->reasons; i++) {
		char line[256];
		int used = snprintf(line, sizeof(line), "%s", tree->reason[i].name);

		for (int region = 0; region < ABH_REGIONS; region++)
			used += snprintf(line + used, sizeof(line) - (size_t)used, " %lld",
					 tree->reason[i].faults[region]);
		say("faults %s", line);
	}
}

static void run_workload(const struct cell *cell, pid_t beside)
{
	struct abh_tree tree = { .beside = beside };
	long long before[DELTAS], after[DELTAS], free_huge = free_hugepages();
	struct abh_peaks peaks = { 0 };
	struct abh_idle idle = { -1, -1 };
	double start, elapsed;
	bool in_time, gone;

	read_deltas(before);
	say("begin");
	start = abh_seconds();
	abh_region_begin();
	tree.first = start_workload(cell);
	in_time = watch(cell->timeout_s, &tree, &peaks);
	abh_region_end();
	elapsed = abh_seconds() - start;
	read_deltas(after);
	peaks.samples = 0; /* the last sample has a list of mappings, too */
	abh_sample(&peaks);
	if (cell->idle && in_time)
		idle = abh_watch_idle();
	gone = abh_end_tree(&tree, ABH_GROUP "/cgroup.procs", REAP_S);
	show_output();
	show_group(&tree, &peaks);
	if (cell->idle) {
		say("value memory_idle_1s_kib %lld", idle.after_1s_kib);
		say("value memory_idle_10s_kib %lld", idle.after_10s_kib);
	}
	show_faults(&tree);
	say("value free_hugepages %lld", free_huge);
	for (size_t i = 0; i < DELTAS; i++)
		if (before[i] >= 0)
			say("value %s %lld", deltas[i].name, after[i] - before[i]);
	say("value elapsed %.6f", elapsed);
	if (!gone)
		finish("error processes of the workload are there %d s after they were killed", REAP_S);
	if (!in_time)
		finish("timeout %g", cell->timeout_s);
	if (WIFSIGNALED(tree.status))
		finish("signal %d", WTERMSIG(tree.status));
	finish("exit %d", WEXITSTATUS(tree.status));
}

static void run_cell(void)
{
	struct cell cell = { 0 };
	pid_t beside = 0;
	sigset_t set;

	read_cell(&cell);
	if (cell.before[0])
		beside = start_before(cell.before);
	if (write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory") || mkdir(ABH_GROUP, 0755))
		finish("error control group: %s", strerror(errno));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	run_workload(&cell, beside);
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
