// SPDX-License-Identifier: MIT
/* Reads /proc/self/maps without allocating memory, which would change it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "maps.h"
#include "model.h"
#include "ops.h"

struct vma {
	uintptr_t start, end;
	char protection[5];
	unsigned long inode;
};

/* "start-end rwxp offset device inode ..."; sscanf() would take half the time of a check. */
static struct vma parse(const char *line)
{
	struct vma vma = { 0 };
	char *at;

	vma.start = strtoul(line, &at, 16);
	vma.end = strtoul(at + 1, &at, 16);
	memcpy(vma.protection, at + 1, 4);
	strtoul(at + 5, &at, 16); /* offset */
	strtoul(at, &at, 16);     /* device, major number */
	strtoul(at + 1, &at, 16);
	vma.inode = strtoul(at, &at, 10);
	return vma;
}

static void each_vma(void (*take)(const struct vma *vma))
{
	static char text[1 << 16];
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		fail("/proc/self/maps cannot be opened");
	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0) {
		char *line = text, *end;

		length += (size_t)got;
		text[length] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			struct vma vma = parse(line);

			take(&vma);
		}
		length = (size_t)(text + length - line);
		memmove(text, line, length);
	}
	close(file);
}

static void mark(const struct vma *vma)
{
	uintptr_t end = vma->end, top = address_of(heap_end);

	/* What the kernel keeps behind the heap is nobody's. */
	if (options.extended && vma->start < top && top < end)
		end = top;
	for (uintptr_t at = vma->start; at < end; at += PAGE)
		if (page_of(at) < PAGES)
			page[page_of(at)].flags |= FOREIGN;
}

void mark_foreign(void)
{
	each_vma(mark);
}

static size_t seen;

static void check_page_of(const struct vma *vma, size_t n)
{
	const struct page *p = &page[n];
	const char wanted[] = { p->flags & READABLE ? 'r' : '-', p->flags & WRITABLE ? 'w' : '-', '-',
				p->flags & SHARED ? 's' : 'p', '\0' };

	if (p->flags & FOREIGN)
		return;
	if (p->flags & MAPPED) {
		seen++;
		if (strcmp(vma->protection, wanted))
			fail("%#lx is %s in /proc/self/maps, expected %s", address_of(n), vma->protection, wanted);
	} else if (!options.extended) {
		fail("%#lx is in /proc/self/maps (%lx-%lx), and was not asked for", address_of(n), vma->start,
		     vma->end);
	} else if (vma->inode || vma->protection[3] != 'p' || !near_anonymous(n)) {
		fail("%#lx is in /proc/self/maps (%lx-%lx %s), and is no extension", address_of(n), vma->start,
		     vma->end, vma->protection);
	}
}

static void check_vma(const struct vma *vma)
{
	for (uintptr_t at = vma->start; at < vma->end; at += PAGE)
		if (page_of(at) < PAGES)
			check_page_of(vma, page_of(at));
		else if (page_of(vma->end - PAGE) == PAGES)
			return; /* all of it is elsewhere */
}

void check_maps(void)
{
	seen = 0;
	each_vma(check_vma);
	if (seen != mapped_pages)
		fail("/proc/self/maps has %zu pages of the %zu that were asked for", seen, mapped_pages);
}

void print_maps(void)
{
	char text[4096];
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while ((got = read(file, text, sizeof(text))) > 0)
		if (write(1, text, (size_t)got) != got)
			break;
	close(file);
}
