// SPDX-License-Identifier: MIT
/*
 * Two domains share a page out of a superpage of each: the owner (argument owner=1, which runs beside) grants one of
 * its superpage, the other maps it over a hole of its own. What one writes the other reads by its superpage, and when
 * the mapping is gone so is the page. What is mapped read-only is only read: with nested paging Xen injects #GP, and
 * under stock shadow paging a guest that writes to it faults for ever. There Xen means to drop the write by emulation,
 * but get_page_from_mfn_and_type() knows no grants, so the emulation fails and the guest tries again. The owner grants
 * to the domain made next, which is told of it (peer=N).
 */
#include "../lib/lib.h"

const char test_name[] = "grants";

#define HYPERVISOR_grant_table_op 20
#define HYPERVISOR_memory_op 12
#define GNTTABOP_map_grant_ref 0
#define GNTTABOP_unmap_grant_ref 1
#define GNTMAP_host_map 2
#define GNTMAP_readonly 4
#define GTF_permit_access 1
#define XENMEM_add_to_physmap 7
#define XENMAPSPACE_grant_table 1
#define DOMID_SELF 0x7ff0
#define REFERENCE 8 /* the first that is not reserved */
#define TABLE UINT64_C(0x10000000)
#define ASKED UINT64_C(0xa5ced)

static void map_window(void)
{
	for (uint64_t extent = 0; extent < EXTENTS; extent++) {
		set(l2_entry(WINDOW + extent * SUPERPAGE), (ARENA + extent * SUPERPAGE) | PS | P | RW | A | D);
		tag_extent(ARENA + extent * SUPERPAGE);
	}
}

/* Answers each number that the other writes into the page with its double, by its own superpage. */
static void __attribute__((noreturn)) own(void)
{
	struct {
		uint16_t domain, size;
		unsigned int space;
		unsigned long index, frame;
	} where = { DOMID_SELF, 0, XENMAPSPACE_grant_table, 0, TABLE / PAGE };
	volatile struct {
		uint16_t flags, domain;
		uint32_t frame;
	} *entry = (void *)at(TABLE);
	uint64_t page = 77, view = WINDOW + page * PAGE, value;

	check(!hypercall(HYPERVISOR_memory_op, XENMEM_add_to_physmap, (uintptr_t)&where, 0), "no grant table");
	map_window();
	entry[REFERENCE].domain = own_domain() + 1;
	entry[REFERENCE].frame = (ARENA + page * PAGE) / PAGE;
	__sync_synchronize();
	entry[REFERENCE].flags = GTF_permit_access;
	for (;;) {
		check(try_read(view, &value) == NONE, "the granted page cannot be read");
		if (value >> 32 == ASKED)
			check(try_write(view, 2 * (value & 0xffffffff)) == NONE, "the granted page cannot be written");
		for (uint64_t i = 0; i < 512; i++)
			check(i == page || (try_read(WINDOW + i * PAGE, &value) == NONE &&
					    value == tag_of(ARENA + i * PAGE)),
			      "owner's page %lu: %lx", i, value);
		yield();
	}
}

struct mapping {
	uint64_t address;
	uint32_t flags, reference;
	uint16_t domain;
	int16_t status;
	uint32_t handle;
	uint64_t bus;
};

static uint32_t map(uint64_t where, bool writable)
{
	struct mapping op = {
		where, GNTMAP_host_map | (writable ? 0 : GNTMAP_readonly), REFERENCE, argument("peer", 0), 0, 0, 0
	};

	for (int tries = 0; tries < 100000; tries++) { /* until the owner has got so far */
		check(!hypercall(HYPERVISOR_grant_table_op, GNTTABOP_map_grant_ref, (uintptr_t)&op, 1), "map");
		if (!op.status)
			return op.handle;
		yield();
	}
	failure("the grant cannot be mapped: %lx", (uint64_t)op.status);
}

static void unmap(uint64_t where, uint32_t handle)
{
	struct {
		uint64_t address, bus;
		uint32_t handle;
		int16_t status;
	} op = { where, 0, handle, 0 };

	check(!hypercall(HYPERVISOR_grant_table_op, GNTTABOP_unmap_grant_ref, (uintptr_t)&op, 1) && !op.status,
	      "unmap: %lx", (uint64_t)op.status);
}

static void look(uint64_t extent, uint64_t except)
{
	uint64_t value;

	for (uint64_t i = 0; i < 512; i++)
		check(i == except || (try_read(WINDOW + extent * SUPERPAGE + i * PAGE, &value) == NONE &&
				      value == tag_of(ARENA + extent * SUPERPAGE + i * PAGE)),
		      "page %lu of extent %lu: %lx", i, extent, value);
}

static void one_round(uint64_t extent, uint64_t page, uint64_t number, bool writable)
{
	uint64_t where = ARENA + extent * SUPERPAGE + page * PAGE, view = where - ARENA + WINDOW, value;
	uint32_t handle;

	look(extent, 512);
	check(give_back(where / PAGE, 0) == 1, "page %lx cannot be given back", where);
	handle = map(where, writable);
	check(try_read(view, &value) == NONE && value != tag_of(where), "the mapping reads %lx", value);
	if (writable) {
		check(try_write(view, ASKED << 32 | number) == NONE, "the mapping cannot be written");
		for (int tries = 0; tries < 100000; tries++) {
			check(try_read(view, &value) == NONE, "the mapping is gone");
			if (value >> 32 != ASKED)
				break;
			yield();
		}
		check(value == 2 * number, "the owner answers %lx", value);
	}
	look(extent, page);
	unmap(where, handle);
	check(try_read(view, &value) != NONE || value == ~UINT64_C(0), "the mapping is still there: %lx", value);
	check(ask_for(where / PAGE, 0) == 1, "page %lx cannot be had again", where);
	check(try_read(view, &value) == NONE && value != 2 * number, "the page that came is not the guest's: %lx",
	      value);
	check(try_write(view, tag_of(where)) == NONE, "the page that came cannot be written");
	look(extent, 512);
}

void test(void)
{
	uint64_t state = 17;

	if (argument("owner", 0))
		own();
	map_window();
	for (uint64_t round = 0; round < 3 * EXTENTS; round++)
		one_round(round % EXTENTS, draw(&state) & 511, 1000 + round, round % 3 != 2);
}
