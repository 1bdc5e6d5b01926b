// SPDX-License-Identifier: MIT
/*
 * Stands before libxenctrl: Xen has no memory in more than one page, as of a host whose memory is in pieces. Its own
 * limit (memop-max-order) is of all that the control domain asks for, and of when Xen boots. With EXTENTS_ERRNO in the
 * environment that is the error which asking for it ends with, as no hypercall does that the tests could have fail so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int populate(void *xch, uint32_t domain, unsigned long count, unsigned int order, unsigned int flags,
		     uint64_t *extents);

populate xc_domain_populate_physmap;
int xc_domain_populate_physmap(void *xch, uint32_t domain, unsigned long count, unsigned int order, unsigned int flags,
			       uint64_t *extents)
{
	const char *error = getenv("EXTENTS_ERRNO");

	if (order && error) {
		errno = atoi(error);
		return -1;
	}
	if (order) {
		fprintf(stderr, "no extent of order %u\n", order);
		return 0;
	}
	return ((populate *)dlsym(RTLD_NEXT, "xc_domain_populate_physmap"))(xch, domain, count, order, flags, extents);
}
