// SPDX-License-Identifier: MIT
/*
 * What the tests ask Xen for, in dom0, that no tool of Debian's does:
 *
 *   ask suspend DOMID    shuts a domain down as one that was asked to suspend does itself: it goes on where it stopped,
 *                        in the domain that is made of what was saved, and need not know
 *   ask drop DOMID 0|1   sets superpages in the shadow to what they are, which drops all shadows; says the nanoseconds
 *                        that it took, which are instructions in a machine that counts time by them
 *   ask dirty DOMID 0|1  ends or begins to record which pages the domain writes, as a live migration does
 *   ask region 0|1       marks the end or the begin of a region, which the emulator's plugins report on
 *   ask pin DOMID 0|1    ends or begins to pin the cache attributes of 2 MiB at 16 MiB, to the write-back that they are
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "../../../agent/region.h"

#define HYPERVISOR_sched_op 29
#define SCHEDOP_remote_shutdown 4
#define SHUTDOWN_suspend 2
#define HYPERVISOR_domctl 36
#define DOMCTL_INTERFACE_VERSION 0x17
#define DOMCTL_shadow_op 10
#define SET_SUPERPAGES 40
#define ENABLE_LOGDIRTY 2
#define SHADOW_OFF 0
#define HYPERVISOR_dm_op 41
#define DMOP_pin_memory_cacheattr 18
#define WRITE_BACK 6
#define DELETE UINT32_C(0xffffffff)

struct remote_shutdown {
	uint16_t domain;
	uint32_t reason;
};

struct domctl {
	uint32_t cmd, interface_version;
	uint16_t domain, padding[3];
	struct {
		uint32_t op, mode;
	} shadow;
	uint8_t rest[160];
};

struct dm_op {
	uint32_t op, padding;
	struct {
		uint64_t start, end;
		uint32_t type, padding;
	} pin;
	uint8_t rest[64];
	struct {
		uint64_t address, size;
	} buffer;
};

struct privcmd_hypercall {
	uint64_t op, arg[5];
};

#define IOCTL_PRIVCMD_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))

static int hypercall(uint64_t number, uint64_t first, uint64_t second, uint64_t third)
{
	struct privcmd_hypercall call = { number, { first, second, third } };
	int privcmd = open("/dev/xen/privcmd", O_RDWR | O_CLOEXEC);

	if (privcmd < 0 || ioctl(privcmd, IOCTL_PRIVCMD_HYPERCALL, &call) < 0) {
		perror("ask: Xen refuses");
		return 1;
	}
	return 0;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

static int pin(struct dm_op *op, int domain, int on)
{
	op->op = DMOP_pin_memory_cacheattr;
	op->pin.start = 0x1000;
	op->pin.end = 0x11ff;
	op->pin.type = on ? WRITE_BACK : DELETE;
	op->buffer.address = (uintptr_t)op;
	op->buffer.size = offsetof(struct dm_op, buffer);
	return hypercall(HYPERVISOR_dm_op, domain, 1, (uintptr_t)&op->buffer);
}

int main(int argc, char **argv)
{
	int buffers = open("/dev/xen/hypercall", O_RDWR | O_CLOEXEC), failed;
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, buffers, 0);
	struct remote_shutdown *shutdown = shared;
	struct domctl *op = shared;
	uint64_t start;

	if (argc == 3 && !strcmp(argv[1], "region")) {
		if (atoi(argv[2]))
			abh_region_begin();
		else
			abh_region_end();
		return 0;
	}
	if (shared == MAP_FAILED) {
		perror("ask: /dev/xen/hypercall");
		return 1;
	}
	memset(shared, 0, 4096);
	if (argc == 3 && !strcmp(argv[1], "suspend")) {
		shutdown->domain = atoi(argv[2]);
		shutdown->reason = SHUTDOWN_suspend;
		return hypercall(HYPERVISOR_sched_op, SCHEDOP_remote_shutdown, (uintptr_t)shutdown, 0);
	}
	if (argc == 4 && !strcmp(argv[1], "pin"))
		return pin(shared, atoi(argv[2]), atoi(argv[3]));
	if (argc != 4 || (strcmp(argv[1], "drop") && strcmp(argv[1], "dirty"))) {
		fputs("usage: ask suspend DOMID | ask drop|dirty|pin DOMID 0|1 | ask region 0|1\n", stderr);
		return 2;
	}
	op->cmd = DOMCTL_shadow_op;
	op->interface_version = DOMCTL_INTERFACE_VERSION;
	op->domain = atoi(argv[2]);
	op->shadow.mode = atoi(argv[3]);
	if (!strcmp(argv[1], "dirty")) {
		op->shadow.op = op->shadow.mode ? ENABLE_LOGDIRTY : SHADOW_OFF;
		return hypercall(HYPERVISOR_domctl, (uintptr_t)op, 0, 0);
	}
	op->shadow.op = SET_SUPERPAGES;
	start = now();
	failed = hypercall(HYPERVISOR_domctl, (uintptr_t)op, 0, 0);
	printf("ABH value superpages_drop_ns %llu\n", (unsigned long long)(now() - start));
	return failed;
}
