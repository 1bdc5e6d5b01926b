// SPDX-License-Identifier: MIT
/* Memory that is read before it is written: the huge page of zeros, and what takes its place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

/* A hugepage's range that has been read. */
static char *zeros(void)
{
	char *at;

	if (!thp_always())
		skips("no hugepages");
	at = (char *)(((uintptr_t)map(2 * HUGE) + HUGE - 1) & ~(HUGE - 1));
	if (*(volatile char *)at)
		fails("fresh memory is not zero");
	return at;
}

static void replaced(void)
{
	char *at = zeros();
	size_t huge = on() && has_knob("replace_zeros") ? HUGE : 0;

	at[17 * PAGE] = 1;
	if (in_hugepages(at, HUGE) != huge)
		fails("%zu KiB in hugepages after the first write, not %zu", in_hugepages(at, HUGE) / KIB, huge / KIB);
	for (size_t i = 0; i < HUGE; i++)
		if (at[i] != (i == 17 * PAGE))
			fails("byte %zu is %d", i, at[i]);
}

static void of_a_child(void)
{
	char *at = zeros();
	int ends[2], status;
	char byte = 0;
	pid_t child;

	if (pipe(ends))
		fails("pipe: %s", strerror(errno));
	child = fork();
	if (!child) {
		if (read(ends[0], &byte, 1) != 1 || at[0] || at[PAGE])
			_exit(1);
		at[PAGE] = 2;
		_exit(0);
	}
	at[0] = 1;
	if (write(ends[1], &byte, 1) != 1 || waitpid(child, &status, 0) != child || status)
		fails("the child does not have its zeros");
	if (at[0] != 1 || at[PAGE])
		fails("the parent has what the child wrote");
}

/* No hugepage is to be had: what is not written stays zeros, and no fault more. */
static void not_replaced(void)
{
	char *at = zeros();
	long faults;

	enter_group("1M", "0");
	at[17 * PAGE] = 1;
	if (in_hugepages(at, HUGE))
		fails("a hugepage within 1 MiB");
	faults = minor_faults();
	for (size_t i = 0; i < HUGE; i += PAGE)
		if (((volatile char *)at)[i] != (i == 17 * PAGE))
			fails("page %zu is %d", i / PAGE, at[i]);
	faults = minor_faults() - faults;
	value("zeros.faults", faults);
	if (faults > 16)
		fails("%ld faults", faults);
}

static void *write_byte(void *at)
{
	*(char *)at = 1;
	return NULL;
}

/* Zeros that are there are not missing. */
static void watched(void)
{
	char *at = zeros();
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)at, HUGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct pollfd ready = { .fd = handle, .events = POLLIN };
	pthread_t thread;

	if (handle < 0)
		skips("no userfaultfd");
	if (ioctl(handle, UFFDIO_API, &api) || ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	pthread_create(&thread, NULL, write_byte, at);
	if (poll(&ready, 1, 500))
		fails("a write to zeros that are there is told as missing");
	pthread_join(thread, NULL);
	if (at[0] != 1 || at[PAGE])
		fails("the write went astray");
}

const struct test semantics_zeros[] = {
	{ "first write after a read", replaced, false },
	{ "first write without a hugepage", not_replaced, false },
	{ "zeros of a child", of_a_child, false },
	{ "zeros that are watched", watched, false },
	{ NULL, NULL, false },
};
