// SPDX-License-Identifier: MIT
/* The library of Xen's test guests. */
#include <stdarg.h>

#include "lib.h"

#define HYPERVISOR_memory_op 12
#define HYPERVISOR_vcpu_op 24
#define HYPERVISOR_event_channel_op 32
#define HYPERVISOR_hvm_op 34
#define HYPERVISOR_sched_op 29
#define VCPUOP_initialise 0
#define VCPUOP_up 1
#define EVTCHNOP_send 4
#define SCHEDOP_yield 0
#define SCHEDOP_shutdown 2
#define HVMOP_get_param 1
#define HVM_PARAM_CONSOLE_PFN 17
#define HVM_PARAM_CONSOLE_EVTCHN 18
#define DOMID_SELF 0x7ff0
#define XENMEM_decrease_reservation 1
#define XENMEM_populate_physmap 6
#define PAGE_FAULT 14
#define OUT_BYTES 2048

extern char hypercall_page[];
extern char stubs[];
extern char try_read_end[], try_write_end[], try_jump_end[], try_jump_fault[];

static volatile struct console {
	char in[1024], out[OUT_BYTES];
	uint32_t in_cons, in_prod, out_cons, out_prod;
} *console;
static const char *command_line = "";
static uint64_t tables = 0x3000000;
uint64_t *window_l2;

long hypercall(unsigned int number, uintptr_t a, uintptr_t b, uintptr_t c)
{
	long result;

#ifndef __x86_64__
	asm volatile("call *%[entry]"
		     : "=a"(result), "+b"(a), "+c"(b), "+d"(c)
		     : [entry] "r"(hypercall_page + 32 * number)
		     : "memory");
	return result;
#else
	asm volatile("call *%[entry]"
		     : "=a"(result), "+D"(a), "+S"(b), "+d"(c)
		     : [entry] "r"(hypercall_page + 32 * number)
		     : "memory", "rcx", "r8", "r9", "r10", "r11");
	return result;
#endif
}

#ifndef __x86_64__
/* What the compiler calls where it has no instruction for it: a bit of the quotient at a time. */
uint64_t __udivmoddi4(uint64_t number, uint64_t by, uint64_t *rest);
uint64_t __udivmoddi4(uint64_t number, uint64_t by, uint64_t *rest)
{
	uint64_t left = 0;

	for (int bit = 0; bit < 64; bit++) {
		left = left << 1 | number >> 63;
		number <<= 1;
		if (left >= by) {
			left -= by;
			number |= 1;
		}
	}
	if (rest)
		*rest = left;
	return number;
}

uint64_t __udivdi3(uint64_t number, uint64_t by);
uint64_t __udivdi3(uint64_t number, uint64_t by)
{
	return __udivmoddi4(number, by, 0);
}

uint64_t __umoddi3(uint64_t number, uint64_t by);
uint64_t __umoddi3(uint64_t number, uint64_t by)
{
	uint64_t rest;

	__udivmoddi4(number, by, &rest);
	return rest;
}
#endif

static void cpuid(uint32_t leaf, uint32_t *out)
{
	asm volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

void yield(void)
{
	hypercall(HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
}

static uint64_t parameter(uint32_t index)
{
	struct {
		uint16_t domain, padding;
		uint32_t index;
		uint64_t value;
	} param = { DOMID_SELF, 0, index, 0 };

	hypercall(HYPERVISOR_hvm_op, HVMOP_get_param, (uintptr_t)&param, 0);
	return param.value;
}

static void put(char letter)
{
	while (console->out_prod - console->out_cons >= OUT_BYTES)
		yield();
	console->out[console->out_prod % OUT_BYTES] = letter;
	__sync_synchronize();
	console->out_prod++;
}

static void put_number(uint64_t number, unsigned int base)
{
	char digits[24];
	int count = 0;

	do {
		digits[count++] = "0123456789abcdef"[number % base];
	} while (number /= base);
	while (count)
		put(digits[--count]);
}

static void vprint(const char *format, va_list list)
{
	uint32_t send;

	for (; *format; format++) {
		if (*format != '%') {
			put(*format);
			continue;
		}
		while (*++format == 'l')
			;
		if (*format == 's')
			for (const char *text = va_arg(list, const char *); *text; text++)
				put(*text);
		else if (*format == 'd' || *format == 'u')
			put_number(va_arg(list, uint64_t), 10);
		else
			put_number(va_arg(list, uint64_t), 16);
	}
	/* Another one after a restore. */
	send = parameter(HVM_PARAM_CONSOLE_EVTCHN);
	hypercall(HYPERVISOR_event_channel_op, EVTCHNOP_send, (uintptr_t)&send, 0);
}

/* Numbers are 64 bits: each is given as uint64_t, and its format has an l. */
void print(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprint(format, list);
	va_end(list);
}

static void __attribute__((noreturn)) end(void)
{
	uint32_t reason = 0; /* poweroff */

	while (console->out_cons != console->out_prod)
		yield();
	for (;;)
		hypercall(HYPERVISOR_sched_op, SCHEDOP_shutdown, (uintptr_t)&reason, 0);
}

void failure(const char *format, ...)
{
	va_list list;

	print("ABH test %s failure ", test_name);
	va_start(list, format);
	vprint(format, list);
	va_end(list);
	print("\n");
	end();
}

void skip(const char *why)
{
	print("ABH test %s skip %s\n", test_name, why);
	end();
}

struct frame {
	uintptr_t vector, code, ip, cs, flags;
};

/* A page fault of one of the three that may: goes on at its end, with the error code as what it returns. */
uintptr_t on_exception(struct frame *frame);
uintptr_t on_exception(struct frame *frame)
{
	static const struct {
		void *start, *end;
	} may[] = {
		{ try_read, try_read_end },
		{ try_write, try_write_end },
		{ try_jump, try_jump_end },
	};
	uintptr_t cr2;

	asm volatile("mov %%cr2, %0" : "=r"(cr2));
	for (int i = 0; i < 3 && frame->vector == PAGE_FAULT; i++)
		if (frame->ip >= (uintptr_t)may[i].start && frame->ip < (uintptr_t)may[i].end) {
			frame->ip = (uintptr_t)may[i].end;
			return frame->code;
		}
	if (frame->vector == PAGE_FAULT && (frame->code & PF_I)) { /* what try_jump() called: back to it */
		frame->ip = (uintptr_t)try_jump_fault;
		return frame->code;
	}
	failure("exception %lu code %lx at %lx, cr2 %lx", (uint64_t)frame->vector, (uint64_t)frame->code,
		(uint64_t)frame->ip, (uint64_t)cr2);
}

static struct {
	uint16_t limit;
	uintptr_t base;
} __attribute__((packed)) idt_pointer;

static void load_handlers(void)
{
	asm volatile("lgdt gdt_pointer");
	asm volatile("lidt %0" ::"m"(idt_pointer));
}

static void set_handlers(void)
{
	static struct {
		uint16_t low, selector, flags, middle;
#ifdef __x86_64__
		uint32_t high, zero;
#endif
	} idt[32];

	for (int i = 0; i < 32; i++) {
		uint64_t stub = address_of(stubs) + 16 * i;

		idt[i].low = stub;
		idt[i].selector = 8;
		idt[i].flags = 0x8e00;
		idt[i].middle = stub >> 16;
#ifdef __x86_64__
		idt[i].high = stub >> 32;
#endif
	}
	idt_pointer.limit = sizeof(idt) - 1;
	idt_pointer.base = (uintptr_t)idt;
	load_handlers();
}

static uint32_t xen_leaf(void)
{
	uint32_t regs[4], leaf;

	for (leaf = 0x40000000; leaf < 0x40010000; leaf += 0x100) {
		cpuid(leaf, regs);
		if (regs[1] == 0x566e6558) /* XenV */
			break;
	}
	return leaf;
}

uint16_t own_domain(void)
{
	uint32_t regs[4];

	cpuid(xen_leaf() + 4, regs);
	return regs[2];
}

static long change(unsigned int op, uint64_t frame, unsigned int order)
{
	unsigned long frames[1] = { frame };
	struct {
		unsigned long *extents, count;
		uint32_t order, flags;
		uint16_t domain;
	} what = { frames, 1, order, 0, DOMID_SELF };

	return hypercall(HYPERVISOR_memory_op, op, (uintptr_t)&what, 0);
}

long give_back(uint64_t frame, unsigned int order)
{
	return change(XENMEM_decrease_reservation, frame, order);
}

long ask_for(uint64_t frame, unsigned int order)
{
	return change(XENMEM_populate_physmap, frame, order);
}

static void find_xen(uint64_t start_info)
{
	uint32_t regs[4];
	uint64_t page = address_of(hypercall_page);

	cpuid(xen_leaf() + 2, regs);
	asm volatile("wrmsr" ::"c"(regs[1]), "a"((uint32_t)page), "d"((uint32_t)(page >> 32)) : "memory");
	console = (void *)at(parameter(HVM_PARAM_CONSOLE_PFN) * PAGE);
	/* struct hvm_start_info: magic, version, flags, nr_modules, modlist, cmdline */
	if (*at(start_info + 24))
		command_line = (const char *)at(*at(start_info + 24));
}

uint64_t argument(const char *name, uint64_t otherwise)
{
	for (const char *word = command_line; *word; word++) {
		const char *a = word, *b = name;
		uint64_t value = 0;

		while (*b && *a == *b)
			a++, b++;
		if (*b || *a != '=')
			continue;
		while (*++a >= '0' && *a <= '9')
			value = value * 10 + *a - '0';
		return value;
	}
	return otherwise;
}

uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

void *new_table(void)
{
	uint64_t *table = at(tables);

	tables += PAGE;
	for (int i = 0; i < 512; i++)
		table[i] = 0;
	return table;
}

uint64_t *l2_entry(uint64_t address)
{
	return window_l2 + (address >> 21 & 511);
}

static void make_window(void)
{
#ifndef __x86_64__
	extern uint64_t l2_identity[];

	window_l2 = l2_identity + 512 * (WINDOW >> 30);
	for (int i = 0; i < 512; i++)
		set(window_l2 + i, 0);
	flush();
#else
	window_l2 = new_table();
	uint64_t *l3 = new_table();

	l3[WINDOW >> 30 & 511] = address_of(window_l2) | P | RW | A;
	top_table[WINDOW >> 39 & 511] = address_of(l3) | P | RW | A;
#endif
}

uint64_t tag_of(uint64_t physical)
{
	return (physical & ~(PAGE - 1)) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

void tag_extent(uint64_t physical)
{
	for (uint64_t page = physical; page < physical + SUPERPAGE; page += PAGE)
		set(at(page), tag_of(page));
}

/* Xen gave a second processor none of the guest's segments, and a fault returns to that of its code by number. */
static void load_code_segment(void)
{
#ifdef __x86_64__
	uint64_t scratch;

	asm volatile("push $8; lea 1f(%%rip), %0; push %0; lretq; 1:" : "=&r"(scratch) : : "memory");
#else
	asm volatile("ljmp $8, $1f; 1:" : : : "memory");
#endif
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

static char stack[4096] __attribute__((aligned(16)));
static void (*second_work)(void);

static void __attribute__((noreturn)) begin_second(void)
{
	load_handlers();
	load_code_segment();
	second_work();
	failure("the second processor has ended");
}

void start_second(void (*work)(void))
{
	uintptr_t cr0, cr3, cr4;

	second_work = work;
	asm volatile("mov %%cr0, %0; mov %%cr3, %1; mov %%cr4, %2" : "=r"(cr0), "=r"(cr3), "=r"(cr4));
	context.cr0 = cr0;
	context.cr3 = cr3;
	context.cr4 = cr4;
	context.sp = address_of(stack + sizeof(stack) - 8); /* as behind a call */
	context.ip = (uintptr_t)begin_second;
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

void lib_main(uintptr_t start_info);
void lib_main(uintptr_t start_info)
{
	find_xen(start_info);
	set_handlers();
	make_window();
	print("ABH test %s begins\n", test_name);
	test();
	print("ABH test %s success\n", test_name);
	end();
}
