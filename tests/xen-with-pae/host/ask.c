// SPDX-License-Identifier: MIT
/*
 * What the tests ask Xen for, in dom0, that no tool of Debian's does:
 *
 *   ask suspend DOMID    shuts a domain down as one that was asked to suspend does itself: it goes on where it stopped,
 *                        in the domain that is made of what was saved, and need not know
 *   ask drop DOMID 0|1   sets superpages in the shadow to what they are, which drops all shadows; says the nanoseconds
 *                        that it took, which are instructions in a machine that counts time by them
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#define HYPERVISOR_sched_op 29
#define SCHEDOP_remote_shutdown 4
#define SHUTDOWN_suspend 2
#define HYPERVISOR_domctl 36
#define DOMCTL_INTERFACE_VERSION 0x17
#define DOMCTL_shadow_op 10
#define SET_SUPERPAGES 40

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

struct privcmd_hypercall {
	uint64_t op, arg[5];
};

#define IOCTL_PRIVCMD_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))

static int hypercall(uint64_t number, uint64_t first, uint64_t second)
{
	struct privcmd_hypercall call = { number, { first, second } };
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

int main(int argc, char **argv)
{
	int buffers = open("/dev/xen/hypercall", O_RDWR | O_CLOEXEC), failed;
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, buffers, 0);
	struct remote_shutdown *shutdown = shared;
	struct domctl *op = shared;
	uint64_t start;

	if (shared == MAP_FAILED) {
		perror("ask: /dev/xen/hypercall");
		return 1;
	}
	memset(shared, 0, 4096);
	if (argc == 3 && !strcmp(argv[1], "suspend")) {
		shutdown->domain = atoi(argv[2]);
		shutdown->reason = SHUTDOWN_suspend;
		return hypercall(HYPERVISOR_sched_op, SCHEDOP_remote_shutdown, (uintptr_t)shutdown);
	}
	if (argc != 4 || strcmp(argv[1], "drop")) {
		fputs("usage: ask suspend DOMID | ask drop DOMID 0|1\n", stderr);
		return 2;
	}
	op->cmd = DOMCTL_shadow_op;
	op->interface_version = DOMCTL_INTERFACE_VERSION;
	op->domain = atoi(argv[2]);
	op->shadow.op = SET_SUPERPAGES;
	op->shadow.mode = atoi(argv[3]);
	start = now();
	failed = hypercall(HYPERVISOR_domctl, (uintptr_t)op, 0);
	printf("ABH value superpages_drop_ns %llu\n", (unsigned long long)(now() - start));
	return failed;
}
