// SPDX-License-Identifier: MIT
/* Slack that one process makes another lose, or sees: what the other has must be counted as the other's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define BYTES (MIB + PAGE) /* with as much slack as there can be: little less than a stack's guard gap */

struct counts {
	long size, data;
};

/* A kernel compares these with the mappings when the process ends, and crashes if they differ. */
static struct counts counts(void)
{
	return (struct counts){ of_process("VmSize"), of_process("VmData") };
}

static void expect_counts(const char *who, struct counts before, long more_kib, long more_data_kib)
{
	struct counts now = counts();

	if (now.size != before.size + more_kib || now.data != before.data + more_data_kib)
		fails("%s: %ld KiB, %ld KiB of data; expected %ld and %ld", who, now.size, now.data,
		      before.size + more_kib, before.data + more_data_kib);
}

/* A child registers memory of its parent, by the parent's handle. */
static void registered_by_child(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int handle = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);
	struct counts before;
	pid_t child;

	if (handle < 0)
		skips("no userfaultfd");
	range.range.start = (uintptr_t)with_slack(ODD);
	range.range.len = ODD;
	if (ioctl(handle, UFFDIO_API, &api))
		fails("UFFDIO_API: %s", strerror(errno));
	before = counts();
	child = fork();
	if (child == 0) {
		if (ioctl(handle, UFFDIO_REGISTER, &range))
			fails("UFFDIO_REGISTER: %s", strerror(errno));
		expect_counts("child", before, 0, 0);
		_exit(0);
	}
	wait_for(child);
	expect_counts("parent", before, 0, 0);
	if (slack_kib())
		fails("%ld KiB of slack are behind what was registered", slack_kib());
}

/* Slack has no right that what it belongs to has not, also where it can't be given the same. */
static void read_only_while_watched(void)
{
	char *at = with_slack(ODD);

	fill(at, ODD, 1);
	watch(at, PAGE, 0);
	if (mprotect(at, ODD, PROT_READ))
		fails("mprotect: %s", strerror(errno));
	if (can_be_written(at + ODD))
		fails("what is behind it can be written");
}

/* Something that grows down, near enough above slack that this must go, once it grows. */
static void map_above(char *at)
{
	char *end = at + HUGE + 16 * PAGE;

	if (mmap(end, 16 * PAGE, RW, PLAIN | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0) != end)
		fails("MAP_GROWSDOWN: %s", strerror(errno));
}

struct other {
	pid_t child;
	int ends[2]; /* of what tells it to go on */
	char *at;    /* its memory, which has slack */
	struct counts ours;
};

/* Runs a process that has slack, and, if it is to grow by a page, a stack above. */
static struct other start(bool grows)
{
	struct other other = { .ours = counts() };
	int said[2];

	if (pipe(other.ends) || pipe(said))
		fails("pipe: %s", strerror(errno));
	other.child = fork();
	if (other.child == 0) {
		char *mine = with_slack(BYTES), byte;
		struct counts before;

		if (grows)
			map_above(mine);
		before = counts();
		if (write(said[1], &mine, sizeof(mine)) != sizeof(mine) || read(other.ends[0], &byte, 1) != 1)
			fails("no word of the parent");
		expect_counts("child", before, grows ? (long)(PAGE / KIB) : 0, 0);
		expect(mine, BYTES, 1, "its memory");
		munmap(mine, BYTES);
		_exit(0);
	}
	if (other.child < 0 || read(said[0], &other.at, sizeof(other.at)) != sizeof(other.at))
		fails("no word of the child");
	return other;
}

/* The other judges what was done to it, and ends. */
static void judge(struct other other)
{
	if (write(other.ends[1], "", 1) != 1)
		fails("the child is gone");
	wait_for(other.child);
	expect_counts("parent", other.ours, 0, 0);
}

static void grown_by_parent(void)
{
	struct other other = start(true);
	uintptr_t below = (uintptr_t)other.at + HUGE + 15 * PAGE;
	char path[64], byte;
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", other.child);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (memory < 0 || pread(memory, &byte, 1, (off_t)below) != 1)
		fails("reading the child's memory at %#lx: %s", below, strerror(errno));
	close(memory);
	judge(other);
}

/* What reclaims another's memory names what it finds in /proc/PID/maps: slack too. */
static void reclaimed_by_parent(void)
{
	struct other other = start(false);
	struct iovec range = { other.at, on() ? HUGE : BYTES };
	int handle = (int)syscall(SYS_pidfd_open, other.child, 0);

	for (int advice = MADV_COLD; advice <= MADV_PAGEOUT; advice++)
		if (syscall(SYS_process_madvise, handle, &range, 1, advice, 0) != (long)range.iov_len)
			fails("process_madvise(%d): %s", advice, strerror(errno));
	close(handle);
	judge(other);
}

const struct test slack_foreign[] = {
	{ "a child registers its parent's memory", registered_by_child, true },
	{ "a mapping that is read-only and watched has no slack that is not", read_only_while_watched, true },
	{ "a parent makes its child's stack grow", grown_by_parent, true },
	{ "a parent reclaims its child's memory", reclaimed_by_parent, true },
	{ NULL, NULL, false },
};
