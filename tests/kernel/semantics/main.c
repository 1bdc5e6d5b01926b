// SPDX-License-Identifier: MIT
/*
 * What must hold for a program under alignment-based hugepages; the fuzzer tests the memory calls themselves.
 *
 * "semantics layout" prints what a program sees of its memory, for comparing two kernels, and "semantics booted POLICY"
 * tells whether the switch stands there; they take no part in the cases.
 */
#include <stdlib.h>
#include <string.h>

#include "../cases.h"
#include "semantics.h"

extern const struct test semantics_limits[], semantics_asked[], semantics_heap[], semantics_heap_reuse[],
	semantics_told[], semantics_knobs[], semantics_layout[], semantics_others[], semantics_zeros[],
	semantics_refused[], semantics_secret[], semantics_shown[], semantics_thp[];

const struct test *const themes[] = { semantics_limits, semantics_asked,
				      semantics_heap,   semantics_heap_reuse,
				      semantics_told,   semantics_knobs,
				      semantics_layout, semantics_others,
				      semantics_zeros,  semantics_refused,
				      semantics_secret, semantics_shown,
				      semantics_thp,    NULL };

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "layout"))
		return layout();
	if (!strcmp(what, "member"))
		return member();
	if (!strcmp(what, "holds"))
		return holds_memory();
	if (!strcmp(what, "finds"))
		return finds();
	if (!strcmp(what, "sparse"))
		return sparse();
	if (argc > 2 && !strcmp(what, "effect"))
		return effect(atoi(argv[2]));
	if (argc > 2 && !strcmp(what, "booted"))
		return booted(argv[2]);
	return run_tests(argc, argv);
}
