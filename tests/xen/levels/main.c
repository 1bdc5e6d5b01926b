// SPDX-License-Identifier: MIT
/*
 * An adversary whose tables of all four levels lie in superpages that are mapped writable: pages serve at several
 * levels at once, and name themselves; three roots take turns in CR3. CR0.WP, CR4.SMAP and EFER.NXE change meanwhile,
 * pages and whole superpages with tables in them are given back and come again empty, one is replaced by the page that
 * Xen shares with the guest, and Xen is told that a root dies. Each access is asked of a walk by the processor's rules.
 * Left out is what no superpage of the shadow takes part in: writes with CR0.WP clear below an upper entry that is
 * read-only (argument upper=1 has them: see the guest `upper`).
 */
#include "../lib/lib.h"

const char test_name[] = "levels";

#ifdef __x86_64__
#define HYPERVISOR_memory_op 12
#define HYPERVISOR_hvm_op 34
#define HVMOP_pagetable_dying 9
#define XENMEM_add_to_physmap 7
#define DOMID_SELF 0x7ff0
#define EFER 0xc0000080
#define NXE 0x800
#define WP (UINT64_C(1) << 16)
#define SMAP (UINT64_C(1) << 21)
#define PARKED UINT64_C(0x20000000) /* where there is nothing */
#define ARENA_END (ARENA + EXTENTS * SUPERPAGE)
#define ROOTS 3
#define TABLES 30
#define SLOTS 4 /* of an l4 table, from the 8th on */
#define RESERVED UINT64_C(0x1fe000)

static uint64_t state, accesses, faults, big, roots[ROOTS], tables[TABLES], by_kind[16];
static bool wp = true, smap, nxe = true;
static const int indices[] = { 0, 1, 2, 37, 255, 256, 300, 511 };

static bool own(uint64_t physical)
{
	return physical >= ARENA && physical < ARENA_END;
}

static uint64_t page_of(uint64_t physical)
{
	return physical & ~(PAGE - 1);
}

static bool is_root(uint64_t physical)
{
	for (int i = 0; i < ROOTS; i++)
		if (page_of(physical) == roots[i])
			return true;
	return false;
}

struct walked {
	long code;
	bool unknown; /* not for this guest to say */
	uint64_t physical, *entry[4];
	int depth; /* entries walked */
};

static struct walked walk(uint64_t root, uint64_t where, bool write)
{
	struct walked found = { .code = write ? PF_W : 0 };
	uint64_t table = root, all = ~UINT64_C(0), any = 0, offset = PAGE - 1;
	bool upper_read_only = false;

	for (int level = 4; level; level--) {
		uint64_t *entry = at(table) + (where >> (3 + 9 * level) & 511), value = *entry;

		found.entry[found.depth++] = entry;
		if (!(value & P))
			return found;
		if ((!nxe && value & NX) || (level > 2 && value & PS) ||
		    (level == 2 && value & PS && value & RESERVED)) {
			found.code |= PF_P | PF_RSVD;
			return found;
		}
		if (value >> 36 & 0xffff) {
			found.unknown = true;
			return found;
		}
		if (level > 1 && !(level == 2 && value & PS) && !(value & RW))
			upper_read_only = true;
		all &= value;
		any |= value;
		table = value & ADDRESS;
		if (level == 2 && value & PS) {
			table &= ~(SUPERPAGE - 1);
			offset = SUPERPAGE - 1;
			break;
		}
		if (level > 1 && !own(table)) {
			found.unknown = true;
			return found;
		}
	}
	found.physical = table | (where & offset);
	if ((all & US && smap) || (write && !(all & RW) && wp)) {
		found.code |= PF_P;
		return found;
	}
	if (write && !(all & RW) && upper_read_only && !argument("upper", 0))
		found.unknown = true;
	if (!own(found.physical))
		found.unknown = true;
	found.code = NONE;
	return found;
}

static uint64_t any_index(void)
{
	return draw(&state) & 15 ? (uint64_t)indices[draw(&state) % 8] : draw(&state) & 511;
}

static uint64_t any_table(void)
{
	uint64_t r = draw(&state);

	return r % 16 ? tables[r / 16 % TABLES] : roots[r / 16 % ROOTS];
}

static uint64_t any_entry(void)
{
	uint64_t r = draw(&state), flags = (r & 31 ? P : 0) | (r & 0xe0 ? RW : 0) | (r & 0x300 ? US : 0) |
					   (r & 0x2000 ? A : 0) | (r & 0x4000 ? D : 0) | (r & 0x3f8000 ? 0 : NX);

	switch (r >> 32 & 7) {
	case 0:
	case 1:
		return (ARENA + (r >> 40) % EXTENTS * SUPERPAGE) | PS | flags;
	case 2:
		return (ARENA + (r >> 40) % EXTENTS * SUPERPAGE) | PS | flags | PAGE; /* PAT */
	case 3:
		return (ARENA + (r >> 40) % (EXTENTS * 512) * PAGE) | flags | (r >> 35 & 7 ? 0 : PS);
	default:
		return any_table() | flags;
	}
}

/* Each root maps what all need. */
static void keep_root(uint64_t root)
{
	set(at(root), top_table[0]);
}

static void change(void)
{
	uint64_t table = any_table(), index = any_index();

	if (is_root(table) && !index)
		return;
	set(at(table) + index, any_entry());
}

static void use_root(uint64_t root)
{
	asm volatile("mov %0, %%cr3" ::"r"(root) : "memory");
}

static void toggle(void)
{
	uint64_t cr, r = draw(&state) % 3;
	uint32_t low, high;

	if (r == 0) {
		wp = !wp;
		asm volatile("mov %%cr0, %0" : "=r"(cr));
		asm volatile("mov %0, %%cr0" ::"r"(wp ? cr | WP : cr & ~WP) : "memory");
	} else if (r == 1) {
		smap = !smap;
		asm volatile("mov %%cr4, %0" : "=r"(cr));
		asm volatile("mov %0, %%cr4" ::"r"(smap ? cr | SMAP : cr & ~SMAP) : "memory");
	} else if (argument("nxe", 0)) {
		nxe = !nxe;
		asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(EFER));
		low = nxe ? low | NXE : low & ~NXE;
		asm volatile("wrmsr" ::"a"(low), "d"(high), "c"(EFER) : "memory");
	}
}

/* Gives memory back and has it again; not of the first extent, which has the roots. */
static void give_and_ask(unsigned int order)
{
	uint64_t extent = 1 + draw(&state) % (EXTENTS - 1);
	uint64_t frame = (ARENA + extent * SUPERPAGE) / PAGE + (order ? 0 : draw(&state) & 511);
	uint64_t most = order ? 512 : 1;

	check(give_back(frame, order) == 1, "frame %lx order %lu", frame, (uint64_t)order);
	if (draw(&state) & 1)
		check(ask_for(frame, order) == 1, "frame %lx order %lu again", frame, (uint64_t)order);
	else
		for (uint64_t i = 0; i < most; i++)
			check(ask_for(frame + i, 0) == 1, "frame %lx by pages", frame + i);
}

static void overlay(void)
{
	uint64_t frame = (ARENA + SUPERPAGE) / PAGE + draw(&state) % ((EXTENTS - 1) * 512);
	struct {
		uint16_t domain, size;
		unsigned int space;
		unsigned long index, frame;
	} where = { DOMID_SELF, 0, 0, 0, frame };
	uint64_t value;

	if (frame >= ARENA_END / PAGE)
		return;
	check(!hypercall(HYPERVISOR_memory_op, XENMEM_add_to_physmap, (uintptr_t)&where, 0), "overlay of %lx", frame);
	try_read(frame * PAGE, &value);
	/* Elsewhere: given back, it would have no owner any more, and what maps it after that faults for ever. */
	where.frame = PARKED / PAGE;
	check(!hypercall(HYPERVISOR_memory_op, XENMEM_add_to_physmap, (uintptr_t)&where, 0), "it cannot be parked");
	check(ask_for(frame, 0) == 1, "page below the overlay of %lx", frame);
	set(at(frame * PAGE), 0);
}

static void die(uint64_t root)
{
	struct {
		uint16_t domain, padding[3];
		uint64_t gpa;
	} what = { DOMID_SELF, { 0 }, root };

	hypercall(HYPERVISOR_hvm_op, HVMOP_pagetable_dying, (uintptr_t)&what, 0);
}

static void access_one(uint64_t root)
{
	uint64_t where = ((8 + draw(&state) % SLOTS) << 39) | any_index() << 30 | any_index() << 21 |
			 any_index() << 12 | (draw(&state) & 511) << 3;
	bool write = draw(&state) & 1;
	uint64_t mark = draw(&state) & 0x3fe, value = 0, before;
	struct walked want = walk(root, where, write);
	long got;

	if (want.unknown)
		return;
	for (int i = 0; i < want.depth && want.code == NONE; i++)
		if (page_of(want.physical) == page_of(address_of(want.entry[i])))
			return;
	if (want.code == NONE && write && is_root(want.physical) && !(want.physical & (PAGE - 1)))
		return;
	before = want.code == NONE ? *at(want.physical) : 0;
	flush();
	got = write ? try_write(where, mark) : try_read(where, &value);
	accesses++;
	/* The emulator, which walks these tables itself with nested paging, says of a reserved bit no more than that.
	 */
	if (got != NONE && got & PF_RSVD)
		got |= PF_P;
	check(got == want.code, "%s of %lx (%lx, leaf %lx): %lx, not %lx; wp %lu smap %lu nxe %lu",
	      write ? "write" : "read", where, want.physical, *want.entry[want.depth - 1], (uint64_t)got,
	      (uint64_t)want.code, (uint64_t)wp, (uint64_t)smap, (uint64_t)nxe);
	faults += got != NONE;
	if (got != NONE)
		return;
	check((write ? *at(want.physical) == mark : value == before), "%s of %lx (%lx): %lx, not %lx",
	      write ? "write" : "read", where, want.physical, write ? *at(want.physical) : value,
	      write ? mark : before);
	big += want.depth == 3;
	for (int i = 0; i < want.depth; i++)
		check(*want.entry[i] & A, "%lx, entry %lx of it: %lx", where, (uint64_t)i, *want.entry[i]);
	check(!write || *want.entry[want.depth - 1] & D, "%lx is not dirty", where);
}
#endif

void test(void)
{
#ifdef __x86_64__
	uint64_t operations = argument("operations", 20000), root;

	state = argument("seed", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (int i = 0; i < ROOTS; i++) {
		roots[i] = ARENA + (3 + 7 * i) * PAGE;
		for (int k = 0; k < 512; k++)
			set(at(roots[i]) + k, 0);
		keep_root(roots[i]);
	}
	for (int i = 0; i < TABLES; i++)
		tables[i] = ARENA + i % 4 * SUPERPAGE + (40 + 11 * i) * PAGE;
	root = roots[0];
	use_root(root);
	for (int i = 0; i < 600; i++)
		change();
	for (uint64_t i = 0; i < operations; i++) {
		uint64_t r = draw(&state) % 4096;
		int kind = r < 1200   ? 0
			   : r < 1300 ? 1
			   : r < 1340 ? 2
			   : r < 1360 ? 3
			   : r < 1362 ? 4
			   : r < 1370 ? 5
			   : r < 1380 ? 6
			   : r < 1500 ? 7
				      : 8;

		by_kind[kind]++;
		if (kind == 0)
			change();
		else if (kind == 1)
			toggle();
		else if (kind == 2)
			use_root(root = roots[draw(&state) % ROOTS]);
		else if (kind == 3)
			give_and_ask(0);
		else if (kind == 4)
			give_and_ask(9);
		else if (kind == 5)
			overlay();
		else if (kind == 6)
			die(roots[draw(&state) % ROOTS]);
		else if (kind == 7) /* what lies in an l4 table's slots that are walked */
			set(at(root) + 8 + draw(&state) % SLOTS, any_table() | P | RW | A);
		else
			access_one(root);
		if (i % 4096 == 0)
			print("ABH test levels at %lu\n", i);
	}
	use_root(address_of(top_table));
	print("ABH test levels accesses %lu faults %lu superpage %lu; changes %lu toggles %lu roots %lu pages %lu "
	      "extents %lu overlays %lu dying %lu\n",
	      accesses, faults, big, by_kind[0] + by_kind[7], by_kind[1], by_kind[2], by_kind[3], by_kind[4],
	      by_kind[5], by_kind[6]);
	check(big > accesses / 20 && faults > accesses / 100, "the draws do not try what they should");
#else
	skip("in 32 bits there are two levels");
#endif
}
