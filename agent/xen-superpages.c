// SPDX-License-Identifier: MIT
/*
 * Superpages of Xen's shadow page tables, which are our Xen series':
 *
 *   xen-superpages DOMID 0|1   turns them off or on for a domain (and drops all its shadows)
 *   xen-superpages DOMID       says their counters, as "ABH value" lines
 *
 * It asks Xen itself, as Debian's library does not know the operation. The structures are those of Xen's
 * public/domctl.h, which refuses another interface version than that of its own, and of Linux's xen/privcmd.h, which
 * no program can include.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define HYPERVISOR_domctl 36
#define DOMCTL_INTERFACE_VERSION 0x17
#define DOMCTL_shadow_op 10
#define SET_SUPERPAGES 40
#define GET_SUPERPAGES 41

struct privcmd_hypercall {
	uint64_t op, arg[5];
};

#define IOCTL_PRIVCMD_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))

struct domctl {
	uint32_t cmd, interface_version;
	uint16_t domain, padding[3];
	struct {
		uint32_t op, mode, mb, hole;
		uint64_t buffer, count;
		uint32_t stats[2];
	} shadow;
	uint8_t rest[128];
};

/* XEN_DOMCTL_SHADOW_SP_*, in its order. */
static const char *const names[] = {
	"live",
	"shadow_pages",
	"direct",
	"demoted_table",
	"demoted_mapping",
	"demoted_fault",
	"splintered_p2m",
	"splintered_dirty",
	"splintered_cache",
	"splintered_write",
	"splintered_page",
	"splintered_wait",
	"promoted",
};
#define COUNTERS (sizeof(names) / sizeof(*names))

static int hypercall(struct domctl *op)
{
	struct privcmd_hypercall call = { .op = HYPERVISOR_domctl, .arg = { (uintptr_t)op } };
	int privcmd = open("/dev/xen/privcmd", O_RDWR | O_CLOEXEC);

	if (privcmd < 0) {
		perror("xen-superpages: /dev/xen/privcmd");
		return -1;
	}
	if (ioctl(privcmd, IOCTL_PRIVCMD_HYPERCALL, &call) < 0) {
		perror("xen-superpages: Xen refuses");
		return -1;
	}
	return 0;
}

/* A page that stays where it is while Xen looks at it. */
static void *shared_page(void)
{
	int buffers = open("/dev/xen/hypercall", O_RDWR | O_CLOEXEC);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, buffers, 0);

	if (buffers < 0 || page == MAP_FAILED) {
		perror("xen-superpages: /dev/xen/hypercall");
		exit(1);
	}
	return memset(page, 0, 4096);
}

int main(int argc, char **argv)
{
	char *end = "?";
	unsigned long domain = argc > 1 ? strtoul(argv[1], &end, 10) : 0;
	int set = argc == 3;

	if (argc < 2 || argc > 3 || *end || domain > 0x7fef || (set && strcmp(argv[2], "0") && strcmp(argv[2], "1"))) {
		fprintf(stderr, "usage: xen-superpages DOMID [0|1]\n");
		return 2;
	}
	struct domctl *op = shared_page();
	uint64_t *counters = (void *)(op + 1);

	op->cmd = DOMCTL_shadow_op;
	op->interface_version = DOMCTL_INTERFACE_VERSION;
	op->domain = domain;
	op->shadow.op = set ? SET_SUPERPAGES : GET_SUPERPAGES;
	op->shadow.mode = set && argv[2][0] == '1';
	op->shadow.buffer = (uintptr_t)counters;
	op->shadow.count = COUNTERS;
	if (hypercall(op))
		return 1;
	if (set)
		return 0;
	if (op->shadow.count != COUNTERS) {
		fprintf(stderr, "xen-superpages: Xen has %llu counters, not %zu\n",
			(unsigned long long)op->shadow.count, COUNTERS);
		return 1;
	}
	for (size_t i = 0; i < COUNTERS; i++)
		printf("ABH value superpages_%s %llu\n", names[i], (unsigned long long)counters[i]);
	return 0;
}
