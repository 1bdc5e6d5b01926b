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
	} else if (vma->inode || strcmp(vma->protection + 2, "-p") || !near_anonymous(n)) {
		fail("%#lx is in /proc/self/maps (%lx-%lx %s), and is no extension", address_of(n), vma->start,
		     vma->end, vma->protection);
	}
}

/* VMAs of extensions alone, each right behind the one before, as one that has the rights of all. */
static struct vma bare;

/* Where a page of the model is in the same VMA, its rights are compared already. */
static void check_bare(void)
{
	int may;

	if (bare.start == bare.end)
		return;
	may = page[page_of(bare.start) - 1].flags | page[page_of(bare.end - PAGE) + 1].flags;
	if ((bare.protection[0] == 'r' && !(may & READABLE)) || (bare.protection[1] == 'w' && !(may & WRITABLE)))
		fail("%#lx is in /proc/self/maps (%lx-%lx %s), and has more rights than what it lies beside",
		     bare.start, bare.start, bare.end, bare.protection);
}

/* Two mappings' extensions may meet, and neither is longer than a hugepage: what is farther away has no owner. */
static void take_bare(const struct vma *vma)
{
	if (vma->start != bare.end || vma->end - bare.start > 2 * HUGE) {
		check_bare();
		bare = *vma;
		return;
	}
	bare.end = vma->end;
	for (int i = 0; i < 2; i++)
		if (vma->protection[i] != '-')
			bare.protection[i] = vma->protection[i];
}

static void check_vma(const struct vma *vma)
{
	bool is_bare = true;

	for (uintptr_t at = vma->start; at < vma->end; at += PAGE) {
		size_t n = page_of(at);

		if (n == PAGES && page_of(vma->end - PAGE) == PAGES)
			return; /* all of it is elsewhere */
		if (n < PAGES)
			check_page_of(vma, n);
		is_bare = is_bare && n < PAGES && !(page[n].flags & (MAPPED | FOREIGN));
	}
	if (is_bare)
		take_bare(vma);
}

void check_maps(void)
{
	seen = 0;
	bare = (struct vma){ 0 };
	each_vma(check_vma);
	check_bare();
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
