// SPDX-License-Identifier: MIT
/*
 * A Xen for agent/xen-superpages.c, linked in the place of the system's open() and ioctl(). By its environment it has
 * XEN_COUNTERS counters, 100 and the numbers after it, and XEN_MODE; or refuses, with the number XEN_ERRNO; or its
 * devices cannot be opened, with XEN_OPEN. What it is asked to set it says on standard error.
 *
 * The places are those of Xen's public/domctl.h, written down here once more: what is wrong in the program is not wrong
 * here likewise.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CMD = 0, VERSION = 4, DOMAIN = 8, OP = 16, MODE = 20, BUFFER = 32, PAGES = 40 };

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	int file;

	(void)flags;
	errno = number("XEN_OPEN");
	if (errno)
		return -1;
	file = memfd_create(path, 0);
	return ftruncate(file, 4096) ? -1 : file;
}

int __wrap_ioctl(int file, unsigned long request, const uint64_t *call);
int __wrap_ioctl(int file, unsigned long request, const uint64_t *call)
{
	uint64_t nr = number("XEN_COUNTERS"), room, *buffer;
	uint32_t cmd, version, op, mode;
	uint16_t domain;
	char *domctl = (char *)(uintptr_t)call[1];

	(void)file;
	memcpy(&cmd, domctl + CMD, sizeof(cmd));
	memcpy(&version, domctl + VERSION, sizeof(version));
	memcpy(&op, domctl + OP, sizeof(op));
	memcpy(&mode, domctl + MODE, sizeof(mode));
	memcpy(&domain, domctl + DOMAIN, sizeof(domain));
	memcpy(&buffer, domctl + BUFFER, sizeof(buffer));
	memcpy(&room, domctl + PAGES, sizeof(room));
	if (request != 0x305000 || call[0] != 36 || cmd != 10 || version != 0x17)
		abort();
	errno = number("XEN_ERRNO");
	if (errno)
		return -1;
	if (op == 40) {
		fprintf(stderr, "set %u of domain %u\n", mode, domain);
		return 0;
	}
	if (op != 41)
		abort();
	for (uint64_t i = 0; i < nr && i < room; i++)
		buffer[i] = 100 + i;
	mode = number("XEN_MODE");
	memcpy(domctl + MODE, &mode, sizeof(mode));
	memcpy(domctl + PAGES, &nr, sizeof(nr));
	return 0;
}
