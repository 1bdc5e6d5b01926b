// SPDX-License-Identifier: MIT
/*
 * An adversary: writes its own page tables at random, in pages that superpages map writable at the same time, and asks
 * of each access what a walk of the tables by the processor's rules says: the value, or the error code; and that the
 * walk left the accessed and dirty bits that it should. Entries also name frames that are not the guest's, which
 * nothing may come of. Page tables are written by way of the identity map and by way of the window itself.
 *
 * What is known of an address is forgotten where a table was written since, and only there: each time is an exit.
 */
#include "../lib/lib.h"

const char test_name[] = "fuzz";

#define SLOTS 16                 /* of 2 MiB in the window */
#define LOW UINT64_C(0x10000000) /* all of the guest's memory is below */
#define ARENA_END (ARENA + EXTENTS * SUPERPAGE)
#define RESERVED UINT64_C(0x1fe000) /* in an entry that maps a superpage; bit 12 is of its cache attributes */

static uint64_t state, accesses, faults, strange, by_superpage, changes, forgotten;
static bool stale; /* tables were written since all translations were forgotten */

/* What an access should do. */
struct expected {
	long code;
	uint64_t physical;
	uint64_t *leaf, *upper; /* entries whose bits the walk sets */
	bool nowhere;           /* its frame is not the guest's memory */
};

static bool own(uint64_t physical)
{
	return physical >= ARENA && physical < ARENA_END;
}

static struct expected walk(uint64_t where, bool write)
{
	struct expected found = { .code = write ? PF_W : 0 };
	uint64_t *l2 = l2_entry(where), *l1;

	if (!(*l2 & P))
		return found;
	if (*l2 & PS) {
		found.leaf = l2;
		found.physical = (*l2 & ADDRESS & ~(SUPERPAGE - 1)) | (where & (SUPERPAGE - 1));
		if (*l2 & RESERVED) {
			found.code |= PF_P | PF_RSVD;
			return found;
		}
	} else {
		if (!own(*l2 & ADDRESS)) {
			found.physical = *l2 & ADDRESS;
			found.nowhere = true;
			return found;
		}
		l1 = at(*l2 & ADDRESS) + (where >> 12 & 511);
		found.upper = l2;
		found.leaf = l1;
		found.physical = (*l1 & ADDRESS) | (where & (PAGE - 1));
		if (!(*l1 & P))
			return found;
	}
	if ((*l2 | *found.leaf) >> 36 & 0xffff) /* beyond what the processor or the guest has */
		found.nowhere = true;
	else if (write && !(*l2 & *found.leaf & RW))
		found.code |= PF_P;
	else if (!own(found.physical))
		found.nowhere = true;
	else
		found.code = NONE;
	return found;
}

static uint64_t any_flags(void)
{
	uint64_t r = draw(&state);

	/* Mostly present and writable; accessed and dirty set or not. */
	return (r & 7 ? P : 0) | (r & 0x18 ? RW : 0) | (r & 0x20 ? A : 0) | (r & 0x40 ? D : 0) | (r & 0x700 ? 0 : NX);
}

/* Of an entry in a table. Mostly one of few, so that what is changed has often been read, and is read again. */
static uint64_t any_index(void)
{
	uint64_t r = draw(&state);

	return r & 3 ? r / 4 % 16 * 32 : r / 4 % 512;
}

static uint64_t any_page(void)
{
	return ARENA + draw(&state) % (EXTENTS * 512) * PAGE;
}

static uint64_t any_address(void)
{
	uint64_t r = draw(&state);

	strange++;
	switch (r % 6) {
	case 0:
		return draw(&state) & UINT64_C(0xfffffff000) & ADDRESS;
	case 1:
		return UINT64_C(0xfee00000);
	case 2:
		return any_page() | UINT64_C(1) << (36 + r / 8 % 12);
	case 3:
		return UINT64_C(0xfffffff000);
	case 4:
		return UINT64_C(0xa0000);
	default:
		return UINT64_C(0x40000000) + (r & UINT64_C(0xfffff000));
	}
}

/* Of the domain's, and memory: its ACPI tables, and pages that Xen and dom0 speak to it through. */
static bool special(uint64_t address)
{
	address &= UINT64_C(0xfffffffff);
	return (address >= UINT64_C(0xfc000000) && address < UINT64_C(0xfd000000)) ||
	       (address >= UINT64_C(0xfeff0000) && address < UINT64_C(0xff000000));
}

static void forget_all(void)
{
	flush();
	stale = false;
	forgotten++;
}

/* Does a slot name this page as its table? */
static bool is_table(uint64_t physical)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if ((window_l2[slot] & (P | PS)) == P && (window_l2[slot] & ADDRESS) == (physical & ~(PAGE - 1)))
			return true;
	return false;
}

/* Writes an entry: by the identity map, or through the window where it happens to map that page writable. */
static void write_entry(uint64_t *entry, uint64_t value)
{
	uint64_t through = WINDOW + (draw(&state) % SLOTS) * SUPERPAGE + (address_of(entry) & (SUPERPAGE - 1));
	uint64_t l2 = *l2_entry(through);

	if ((l2 & (P | PS | RW)) == (P | PS | RW) && (l2 & ADDRESS) == (address_of(entry) & ~(SUPERPAGE - 1))) {
		if (stale)
			forget_all();
		stale = true;
		check(try_write(through, value) == NONE, "an entry at %lx cannot be written through %lx (%lx)",
		      address_of(entry), through, l2);
		check(*(volatile uint64_t *)entry == value, "an entry at %lx written through %lx did not arrive",
		      address_of(entry), through);
		return;
	}
	set(entry, value);
	stale = true;
}

static void change_slot(void)
{
	uint64_t *entry = window_l2 + draw(&state) % SLOTS, r = draw(&state);

	changes++;
	stale = true;
	if (r % 32 == 0)
		set(entry, any_address() | any_flags() | (r & 0x1000 ? PS : 0));
	else if (r % 32 == 1)
		set(entry, (any_page() & ~(SUPERPAGE - 1)) | UINT64_C(1) << (13 + r / 32 % 8) | PS | any_flags());
	else if (r % 4)
		set(entry, (ARENA + r / 32 % EXTENTS * SUPERPAGE) | PS | any_flags());
	else
		set(entry, any_page() | any_flags());
}

static void change_table(void)
{
	uint64_t slot = draw(&state) % SLOTS, l2 = window_l2[slot], r = draw(&state);

	if (!(l2 & P) || (l2 & PS) || !own(l2 & ADDRESS))
		return;
	changes++;
	for (uint64_t i = 0, n = 1 + (r & 15); i < n; i++)
		write_entry(at(l2 & ADDRESS) + any_index(),
			    (draw(&state) % 64 ? any_page() : any_address()) | any_flags());
}

static void access_one(void)
{
	uint64_t slot = draw(&state) % SLOTS, page = any_index(), word = draw(&state) % (PAGE / 8);
	uint64_t where = WINDOW + slot * SUPERPAGE + page * PAGE + 8 * word, value = 0, mark = draw(&state) & 0x3ff;
	bool write = draw(&state) & 1;
	struct expected want = walk(where, write);
	uint64_t before = want.code == NONE ? *at(want.physical) : 0;
	long got;

	/* Not its own code and stack, which tables of any content may name, nor what the walk itself changes. */
	if ((want.code == NONE || want.nowhere) && !own(want.physical) && want.physical < LOW)
		return;
	/* Nor those of the domain's that are memory: the superpage that begins at its local APIC has them, too. */
	if (want.nowhere && special(want.physical))
		return;
	if (want.code == NONE && (address_of(want.leaf) & ~(PAGE - 1)) == (want.physical & ~(PAGE - 1)))
		return;
	/* Either forgets what is known of this address. */
	if (stale && draw(&state) & 1)
		invlpg(where);
	else if (stale)
		forget_all();
	got = write ? try_write(where, mark) : try_read(where, &value);
	accesses++;
	if (want.nowhere) {
		/* A fault, or all-ones where no device answers: never memory. The local APIC is a device. */
		check(got != NONE || write || value == ~UINT64_C(0) || want.physical >> 12 == 0xfee00,
		      "%lx (%lx): %lx from a frame that is not there", where, want.physical, value);
		return;
	}
	check(got == want.code, "%s of %lx (%lx, entry %lx): %lx, not %lx", write ? "write" : "read", where,
	      want.physical, want.leaf ? *want.leaf : UINT64_C(0), (uint64_t)got, (uint64_t)want.code);
	faults += got != NONE;
	if (got != NONE)
		return;
	stale |= write && is_table(want.physical);
	by_superpage += *want.leaf >> 7 & 1 && !want.upper;
	check((write ? *at(want.physical) == mark : value == before), "%s of %lx (%lx): %lx, not %lx",
	      write ? "write" : "read", where, want.physical, write ? *at(want.physical) : value,
	      write ? mark : before);
	check(*want.leaf & A && (!write || *want.leaf & D), "%lx after the access: %lx", where, *want.leaf);
	check(!want.upper || *want.upper & A, "%lx: upper entry after the access: %lx", where, *want.upper);
}

void test(void)
{
	uint64_t operations = argument("operations", 20000);

	state = argument("seed", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (uint64_t extent = 0; extent < EXTENTS; extent++)
		tag_extent(ARENA + extent * SUPERPAGE);
	for (uint64_t i = 0; i < operations; i++) {
		uint64_t r = draw(&state) % 16;

		if (r == 0)
			change_slot();
		else if (r < 3)
			change_table();
		else
			access_one();
		if (i % 4096 == 0)
			print("ABH test fuzz at %lu\n", i);
	}
	print("ABH test fuzz changes %lu accesses %lu faults %lu strange %lu superpage %lu flushes %lu\n", changes,
	      accesses, faults, strange, by_superpage, forgotten);
	check(by_superpage > accesses / 10 && faults > accesses / 100, "the draws do not try what they should");
}
