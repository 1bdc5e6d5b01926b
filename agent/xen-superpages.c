// SPDX-License-Identifier: MIT
/*
 * Superpages of Xen's shadow page tables, which are our Xen series':
 *
 *   xen-superpages DOMID 0|1        turns them off or on for a domain (and drops all its shadows)
 *   xen-superpages DOMID            says whether they are on, and their counters
 *   xen-superpages --values DOMID   says the counters alone, as the bench reads them: "ABH value" lines
 *
 * It asks Xen itself, as Debian's library does not know the operation. The structures are those of Xen's
 * public/domctl.h, which refuses another interface version than that of its own, and of Linux's xen/privcmd.h, which
 * no program can include.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

/* XEN_DOMCTL_SHADOW_SP_*, in its order. A Xen may have fewer than these, or more. */
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
	"splintered_many",
	"splintered_wait",
	"promoted",
};
#define COUNTERS (sizeof(names) / sizeof(*names))

/* How it ends; the manual page has the same. */
enum { DONE, FAILED, USAGE, HAS_NONE };

static const char usage[] = "usage: xen-superpages [--values] DOMID\n"
			    "       xen-superpages DOMID 0|1\n";

static const char help[] = "\n"
			   "Superpages in the shadow page tables of a domain of Xen's: whether they are on, and their "
			   "counters; with 0 or 1,\n"
			   "they are turned off or on, and all shadows of the domain are dropped. DOMID is a number, "
			   "as `xl domid NAME` says.\n"
			   "\n"
			   "  --values  the counters alone, as lines `ABH value superpages_NAME NUMBER`\n"
			   "  --help    this text; the manual page xen-superpages(8) has what each counter counts\n";

static int opened(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file < 0) {
		fprintf(stderr, "xen-superpages: %s: %s: is this a control domain of Xen, and are you root?\n", path,
			strerror(errno));
		exit(FAILED);
	}
	return file;
}

/* Says why Xen refuses, as far as its error tells; how the program ends. */
static int refused(int error, unsigned long domain)
{
	fprintf(stderr, "xen-superpages: Xen refuses: %s: ", strerror(error));
	switch (error) {
	case EINVAL: /* a Xen without the series does not know the operation, nor does nested paging of any Xen */
	case ENOSYS:
		fprintf(stderr,
			"this Xen has no superpages in the shadow (that of the package xen-hypervisor-abh has),"
			" or domain %lu is not paged by a shadow, is about to end, or is the control domain itself\n",
			domain);
		return HAS_NONE;
	case EOPNOTSUPP:
		fprintf(stderr, "domain %lu is para-virtual: its page tables are its own\n", domain);
		return HAS_NONE;
	case ESRCH:
		fprintf(stderr, "there is no domain %lu (`xl list` shows those that there are)\n", domain);
		return FAILED;
	case EPERM:
		fprintf(stderr,
			"only root of the control domain may ask, unless Xen's security policy says otherwise\n");
		return FAILED;
	case EACCES:
		fprintf(stderr, "it has another interface than the Xen 4.20 that this program is for\n");
		return FAILED;
	default:
		fprintf(stderr, "asked about domain %lu\n", domain);
		return FAILED;
	}
}

/* A page that stays where it is while Xen looks at it. */
static void *shared_page(void)
{
	static const char path[] = "/dev/xen/hypercall";
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened(path), 0);

	if (page == MAP_FAILED) {
		fprintf(stderr, "xen-superpages: a page of %s: %s\n", path, strerror(errno));
		exit(FAILED);
	}
	return memset(page, 0, 4096);
}

/* Of an answer: Xen has put how many counters it has where it was told how many there is room for. */
static void say(const struct domctl *op, const uint64_t *counters, bool values)
{
	size_t known = op->shadow.count < COUNTERS ? op->shadow.count : COUNTERS;

	if (!values)
		printf("enabled %s\n", op->shadow.mode ? "yes" : "no");
	for (size_t i = 0; i < known; i++)
		printf("%s%s %llu\n", values ? "ABH value superpages_" : "", names[i], (unsigned long long)counters[i]);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		printf("%s%s", usage, help);
		return DONE;
	}
	bool values = argc > 1 && !strcmp(argv[1], "--values");
	char **words = argv + 1 + values, *end = "?";
	int nr = argc - 1 - values;
	/* A word that is empty, as of an `xl domid` that found nothing, is no number, though strtoul() takes it for 0.
	 */
	unsigned long domain = nr > 0 && *words[0] >= '0' && *words[0] <= '9' ? strtoul(words[0], &end, 10) : 0;
	bool set = nr == 2;

	if (nr < 1 || nr > 2 || *end || domain > 0x7fef || (set && values) ||
	    (set && strcmp(words[1], "0") && strcmp(words[1], "1"))) {
		fputs(usage, stderr);
		return USAGE;
	}
	struct domctl *op = shared_page();
	uint64_t *counters = (void *)(op + 1);
	struct privcmd_hypercall call = { .op = HYPERVISOR_domctl, .arg = { (uintptr_t)op } };

	op->cmd = DOMCTL_shadow_op;
	op->interface_version = DOMCTL_INTERFACE_VERSION;
	op->domain = domain;
	op->shadow.op = set ? SET_SUPERPAGES : GET_SUPERPAGES;
	op->shadow.mode = set && words[1][0] == '1';
	op->shadow.buffer = (uintptr_t)counters;
	op->shadow.count = COUNTERS;
	if (ioctl(opened("/dev/xen/privcmd"), IOCTL_PRIVCMD_HYPERCALL, &call) < 0)
		return refused(errno, domain);
	if (!set)
		say(op, counters, values);
	if (fflush(stdout)) {
		perror("xen-superpages: standard output");
		return FAILED;
	}
	return DONE;
}
