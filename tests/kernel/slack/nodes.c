// SPDX-License-Identifier: MIT
/* Memory policies, on a machine of two nodes: all processors are of node 0. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

/* Of linux/mempolicy.h, which no library's headers need. */
enum { POLICY_DEFAULT, POLICY_BIND = 2, OF_NODE = 1, OF_ADDRESS = 2, MOVE = 2 };

static void bind_task(int node)
{
	unsigned long nodes = 1ul << node;

	if (!syscall(SYS_set_mempolicy, POLICY_BIND, &nodes, 8 * sizeof(nodes)))
		return;
	skips(errno == ENOSYS ? "no memory policies" : "no second node");
}

static void unbind_task(void)
{
	if (syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0))
		fails("set_mempolicy: %s", strerror(errno));
}

static void all_on(int node, const char *at, size_t bytes, const char *what)
{
	for (size_t i = 0; i < bytes; i += PAGE) {
		int found = -1;

		if (syscall(SYS_get_mempolicy, &found, NULL, 0, at + i, OF_NODE | OF_ADDRESS))
			fails("get_mempolicy: %s", strerror(errno));
		if (found != node)
			fails("%s: page %zu is on node %d, expected %d", what, i / PAGE, found, node);
	}
}

/* A hugepage is from where the task's memory is to be from, with what nobody asked for. */
static void task_policy(void)
{
	for (int node = 1; node >= 0; node--) {
		char *at, *top = (char *)(((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1)) + 4 * PAGE;

		bind_task(node);
		at = with_slack(ODD);
		all_on(node, at, on() ? HUGE : ODD, "mapping");
		if (brk(top))
			fails("brk: %s", strerror(errno));
		fill(top - 4 * MIB, 4 * MIB, 1);
		all_on(node, top - 4 * MIB, 4 * MIB, "heap");
		if (on() && (in_hugepages(at, ODD) != ODD || in_hugepages(top - 4 * PAGE, 4 * PAGE) != 4 * PAGE))
			fails("no hugepages");
	}
}

static int policy_at(const char *at)
{
	int policy = -1;

	if (syscall(SYS_get_mempolicy, &policy, NULL, 0, at, OF_ADDRESS))
		fails("get_mempolicy: %s", strerror(errno));
	return policy;
}

/* The program's part has the policy and moves, and its slack with it: so the hugepage stays whole. */
static void policy_of_a_mapping(void)
{
	unsigned long nodes = 1ul << 1;
	char *at;

	bind_task(1);
	unbind_task();
	at = with_slack(ODD);
	all_on(0, at, ODD, "mapping");
	if (syscall(SYS_mbind, at, ODD, POLICY_BIND, &nodes, 8 * sizeof(nodes), MOVE))
		fails("mbind: %s", strerror(errno));
	all_on(1, at, ODD, "what mbind() names");
	expect(at, ODD, 1, "what mbind() names");
	if (on() && policy_at(at + ODD) != POLICY_BIND)
		fails("slack has policy %d", policy_at(at + ODD));
	if (on() && in_hugepages(at, ODD) != ODD)
		fails("mbind() has split the hugepage");
	/* What it grows into has its policy. */
	if (mremap(at, ODD, ODD + 16 * PAGE, 0) != at)
		fails("mremap() in place: %s", strerror(errno));
	fill(at + ODD, 16 * PAGE, 2);
	all_on(1, at, ODD + 16 * PAGE, "what has grown");
	munmap(at, ODD + 16 * PAGE);
	left(at, "munmap() after mbind()");

	at = with_slack(ODD);
	if (!syscall(SYS_mbind, at, ODD + PAGE, POLICY_BIND, &nodes, 8 * sizeof(nodes), 0) || errno != EFAULT)
		fails("mbind() of more than there is: %s", strerror(errno));
	if (is_mapped(at + ODD))
		fails("mbind() left slack in its range");
	munmap(at, ODD);
	left(at, "munmap() after mbind()");
}

/* What a hugepage has left lies on its node: not for a task that says where its memory is to be. */
static void policy_and_pieces(void)
{
	char *first, *second;

	map(ARENA);
	fill(first = map(ARENA), ARENA, 1);
	bind_task(1);
	fill(second = map(ARENA), ARENA, 2);
	all_on(1, second, ARENA, "a piece");
	expect(first, ARENA, 1, "the one before");
	if (on() && second == first + ARENA)
		fails("it is served from the slack of another");
}

const struct test slack_nodes[] = {
	{ "a policy of the task", task_policy, true },
	{ "a policy of a mapping", policy_of_a_mapping, true },
	{ "a policy of the task, and pieces", policy_and_pieces, true },
	{ NULL, NULL, false },
};
