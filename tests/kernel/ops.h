/* SPDX-License-Identifier: MIT */
/* The operations: what each asks of the kernel, and what must come of it. */
#ifndef OPS_H
#define OPS_H

#include <stdbool.h>
#include <stdint.h>

/* A fault that the harness makes itself, to show that it would find the like in a kernel. */
enum broken {
	NOTHING,
	BREAK_ZERO,       /* a fresh page is not zeros */
	BREAK_HEAP,       /* heap given back keeps its contents when it is taken again */
	BREAK_PROTECTION, /* a protection reaches one page too far */
	BREAK_LEAK,       /* munmap() leaves the last page */
	BREAK_PLACE,      /* something is left in the way, behind a mapping */
	BREAK_FORK,       /* a write of the parent is seen by the child */
	BREAK_LOST,       /* advice that keeps contents loses a page */
	BREAK_MOVE,       /* mremap() loses a page */
	BREAK_BRK,        /* the heap's end is not what was asked for */
	BREAK_RIGHTS,     /* what is kept beside a mapping can be written, and the mapping cannot */
	BREAKS,
};

extern const char *const break_names[BREAKS];

struct options {
	enum broken broken;
	bool extended;     /* the kernel may extend what it maps */
	bool surplus;      /* it must have kept some behind the heap, now and then */
	bool slack;        /* and around mappings */
	bool before;       /* also before them */
	bool noise;        /* another thread reads meanwhile */
	bool reservations; /* hugepages grow in place, and must have done so now and then */
	bool verbose;      /* print each operation */
	bool quiet;        /* print no failure */
};

extern struct options options;

uintptr_t ops_prepare(void); /* before any episode; returns where the heap begins */
void ops_begin(void);        /* in the process that runs an episode */
const char *op_name(int n);  /* NULL: there are no more */
void op_run(uint64_t seed);  /* all that an operation draws comes from its seed and the model's state */
void ops_finish(void);       /* check everything, unmap everything, and see that nothing is left */

uint64_t mix(uint64_t a, uint64_t b);
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...);

#endif
