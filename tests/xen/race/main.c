// SPDX-License-Identifier: MIT
/*
 * Two processors: one changes an entry between superpages and a table, half of whose entries map nothing, while the
 * other reads there without end. It may find what either superpage or the table maps, or nothing, and never what no
 * entry ever named: the first pages of both superpages are full of what Xen's shadow marks emulated memory with, of a
 * frame that is mapped nowhere. Xen would take it for its own mark if it read a superpage for a table.
 */
#include "../lib/lib.h"

const char test_name[] = "race";

#define HYPERVISOR_vcpu_op 24
#define VCPUOP_initialise 0
#define VCPUOP_up 1
#define OFFSET UINT64_C(64) /* of a page's own word in it */
#define HIDDEN (ARENA + 2 * SUPERPAGE)
#define SECRET UINT64_C(0x5ec3e7)
/* SH_L1E_MMIO_MAGIC with a frame (xen/arch/x86/mm/shadow/types.h) */
#define MARK(frame) (UINT64_C(0xfffff00000000001) | (frame) << 4)

static volatile uint64_t reads, nothing;
static uint64_t *table;
static char stack[4096] __attribute__((aligned(16)));

static void mark_extent(uint64_t extent)
{
	for (uint64_t i = 0; i < 512; i++)
		set(at(extent) + i, MARK(HIDDEN / PAGE));
	for (uint64_t page = 0; page < 512; page++)
		set(at(extent + page * PAGE + OFFSET), tag_of(extent + page * PAGE));
}

/* Xen gave it none of the guest's segments, and a fault returns to that of its code by number. */
static void load_code_segment(void)
{
#ifdef __x86_64__
	uint64_t scratch;

	asm volatile("push $8; lea 1f(%%rip), %0; push %0; lretq; 1:" : "=&r"(scratch) : : "memory");
#else
	asm volatile("ljmp $8, $1f; 1:" : : : "memory");
#endif
}

/* In 32 bits a value is read one half after the other, and the entry may change in between. */
static bool is_either(uint64_t value, uint64_t one, uint64_t other)
{
	if (sizeof(long) == sizeof(value))
		return value == one || value == other;
	return ((uint32_t)value == (uint32_t)one || (uint32_t)value == (uint32_t)other) &&
	       (value >> 32 == one >> 32 || value >> 32 == other >> 32);
}

static void __attribute__((noreturn)) read_for_ever(void)
{
	uint64_t state = 41, value;

	load_handlers();
	load_code_segment();
	for (;;) {
		uint64_t page = draw(&state) & 511, where = WINDOW + page * PAGE;
		long got;

		if (!(page & 15))
			invlpg(where);
		got = try_read(where + OFFSET, &value);
		if (got != NONE)
			nothing++;
		check(got == 0 || got == NONE, "page %lu: fault %lx", page, (uint64_t)got);
		check(got == 0 ||
			      is_either(value, tag_of(ARENA + page * PAGE), tag_of(ARENA + SUPERPAGE + page * PAGE)),
		      "page %lu reads %lx", page, value);
		reads++;
	}
}

/* struct vcpu_hvm_context, Xen's public/hvm/hvm_vcpu.h */
static struct {
	uint32_t mode, padding;
#ifdef __x86_64__
	uint64_t ax, cx, dx, bx, sp, bp, si, di, ip, flags, cr0, cr3, cr4, efer;
#else
	uint32_t ax, cx, dx, bx, sp, bp, si, di, ip, flags, cr0, cr3, cr4, hole;
	uint64_t efer;
	uint32_t base[5], limit[5]; /* cs, ds, ss, es, tr */
	uint16_t rights[5];
#endif
	uint64_t rest[16];
} context;

static void start_second(void)
{
	uintptr_t cr0, cr3, cr4;

	asm volatile("mov %%cr0, %0; mov %%cr3, %1; mov %%cr4, %2" : "=r"(cr0), "=r"(cr3), "=r"(cr4));
	context.cr0 = cr0;
	context.cr3 = cr3;
	context.cr4 = cr4;
	context.sp = address_of(stack + sizeof(stack) - 8); /* as behind a call */
	context.ip = (uintptr_t)read_for_ever;
	context.flags = 2;
#ifdef __x86_64__
	context.mode = 1;
	context.efer = 0xd00; /* long mode, active, NX */
#else
	context.efer = 0x800; /* NX */
	for (int i = 0; i < 5; i++) {
		context.limit[i] = i < 4 ? 0xffffffff : 0x67;
		context.rights[i] = i == 0 ? 0xc9b : i < 4 ? 0xc93 : 0x8b;
	}
#endif
	check(!hypercall(HYPERVISOR_vcpu_op, VCPUOP_initialise, 1, (uintptr_t)&context), "no second processor");
	check(!hypercall(HYPERVISOR_vcpu_op, VCPUOP_up, 1, 0), "the second processor does not start");
}

void test(void)
{
	uint64_t rounds = argument("rounds", 500), state = 43, *entry = l2_entry(WINDOW);
	uint64_t leaf = PS | P | RW | A | D, before;

	table = new_table();
	mark_extent(ARENA);
	mark_extent(ARENA + SUPERPAGE);
	for (uint64_t page = 0; page < 512; page++)
		set(at(HIDDEN + page * PAGE + OFFSET), SECRET);
	for (uint64_t i = 0; i < 512; i += 2)
		set(table + i, (ARENA + SUPERPAGE + i * PAGE) | P | RW | A | D);
	set(entry, ARENA | leaf);
	start_second();
	while (reads < 1000)
		yield();
	for (uint64_t round = 0; round < rounds; round++) {
		static const int kinds[] = { 0, 1, 2, 1, 0, 2, 0, 1 };
		int kind = kinds[draw(&state) & 7];

		before = reads;
		set(entry, kind == 1 ? address_of(table) | P | RW | A : (ARENA + (kind ? SUPERPAGE : 0)) | leaf);
		invlpg(WINDOW);
		for (int tries = 0; reads - before < (draw(&state) & 31) && tries < 1000; tries++)
			yield();
	}
	check(nothing > 100, "the other processor met an empty entry %lu times", nothing);
	print("ABH test race %lu reads, %lu of nothing\n", reads, nothing);
}
