// SPDX-License-Identifier: MIT
/* The library of Xen's test guests. */
#include <stdarg.h>

#include "lib.h"

#define HYPERVISOR_event_channel_op 32
#define HYPERVISOR_hvm_op 34
#define HYPERVISOR_sched_op 29
#define EVTCHNOP_send 4
#define SCHEDOP_yield 0
#define SCHEDOP_shutdown 2
#define HVMOP_get_param 1
#define HVM_PARAM_CONSOLE_PFN 17
#define HVM_PARAM_CONSOLE_EVTCHN 18
#define DOMID_SELF 0x7ff0
#define PAGE_FAULT 14
#define OUT_BYTES 2048

extern char hypercall_page[];
extern char stubs[];
extern char try_read_end[], try_write_end[], try_jump_end[];
extern uint64_t l4_table[];

static volatile struct console {
	char in[1024], out[OUT_BYTES];
	uint32_t in_cons, in_prod, out_cons, out_prod;
} *console;
static uint32_t console_port;
static const char *command_line = "";
static uint64_t tables = 0x3000000;
uint64_t *window_l2;

long hypercall(unsigned int number, uint64_t a, uint64_t b, uint64_t c)
{
	long result;

	asm volatile("call *%[entry]"
		     : "=a"(result), "+D"(a), "+S"(b), "+d"(c)
		     : [entry] "r"(hypercall_page + 32 * number)
		     : "memory", "rcx", "r8", "r9", "r10", "r11");
	return result;
}

static void cpuid(uint32_t leaf, uint32_t *out)
{
	asm volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

static void put(char letter)
{
	while (console->out_prod - console->out_cons >= OUT_BYTES)
		hypercall(HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
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
	uint32_t send = console_port;

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
	hypercall(HYPERVISOR_event_channel_op, EVTCHNOP_send, (uint64_t)&send, 0);
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
		hypercall(HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
	for (;;)
		hypercall(HYPERVISOR_sched_op, SCHEDOP_shutdown, (uint64_t)&reason, 0);
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
	uint64_t vector, code, rip, cs, flags, rsp, ss;
};

/* A page fault of one of the three that may: goes on at its end, with the error code as what it returns. */
uint64_t on_exception(struct frame *frame);
uint64_t on_exception(struct frame *frame)
{
	static const struct {
		void *start, *end;
	} may[] = {
		{ try_read, try_read_end },
		{ try_write, try_write_end },
		{ try_jump, try_jump_end },
	};
	uint64_t cr2;

	asm volatile("mov %%cr2, %0" : "=r"(cr2));
	for (int i = 0; i < 3 && frame->vector == PAGE_FAULT; i++)
		if (frame->rip >= (uint64_t)may[i].start && frame->rip < (uint64_t)may[i].end) {
			frame->rip = (uint64_t)may[i].end;
			return frame->code;
		}
	if (frame->vector == PAGE_FAULT && (frame->code & PF_I)) { /* what try_jump() called: back to it */
		frame->rsp += 8;
		frame->rip = (uint64_t)try_jump_end;
		return frame->code;
	}
	failure("exception %lu code %lx at %lx, cr2 %lx", frame->vector, frame->code, frame->rip, cr2);
}

static void set_handlers(void)
{
	static struct {
		uint16_t low, selector, flags, middle;
		uint32_t high, zero;
	} idt[32];
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) pointer = { sizeof(idt) - 1, (uint64_t)idt };

	for (int i = 0; i < 32; i++) {
		uint64_t stub = (uint64_t)stubs + 16 * i;

		idt[i].low = stub;
		idt[i].selector = 8;
		idt[i].flags = 0x8e00;
		idt[i].middle = stub >> 16;
		idt[i].high = stub >> 32;
	}
	asm volatile("lidt %0" ::"m"(pointer));
}

static uint64_t parameter(uint32_t index)
{
	struct {
		uint16_t domain, padding;
		uint32_t index;
		uint64_t value;
	} param = { DOMID_SELF, 0, index, 0 };

	hypercall(HYPERVISOR_hvm_op, HVMOP_get_param, (uint64_t)&param, 0);
	return param.value;
}

static void find_xen(uint64_t start_info)
{
	uint32_t regs[4], leaf;
	uint64_t page = (uint64_t)hypercall_page;

	for (leaf = 0x40000000; leaf < 0x40010000; leaf += 0x100) {
		cpuid(leaf, regs);
		if (regs[1] == 0x566e6558) /* XenV */
			break;
	}
	cpuid(leaf + 2, regs);
	asm volatile("wrmsr" ::"c"(regs[1]), "a"((uint32_t)page), "d"((uint32_t)(page >> 32)) : "memory");
	console = (void *)(parameter(HVM_PARAM_CONSOLE_PFN) * PAGE);
	console_port = parameter(HVM_PARAM_CONSOLE_EVTCHN);
	/* struct hvm_start_info: magic, version, flags, nr_modules, modlist, cmdline */
	if (*at(start_info + 24))
		command_line = (const char *)*at(start_info + 24);
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
	uint64_t *l3 = new_table();

	window_l2 = new_table();
	l3[WINDOW >> 30 & 511] = (uint64_t)window_l2 | P | RW | A;
	l4_table[WINDOW >> 39 & 511] = (uint64_t)l3 | P | RW | A;
}

uint64_t tag_of(uint64_t physical)
{
	return (physical & ~(PAGE - 1)) * 0x9e3779b97f4a7c15UL | 1;
}

void tag_extent(uint64_t physical)
{
	for (uint64_t page = physical; page < physical + SUPERPAGE; page += PAGE)
		*(volatile uint64_t *)page = tag_of(page);
}

void lib_main(uint64_t start_info);
void lib_main(uint64_t start_info)
{
	find_xen(start_info);
	set_handlers();
	make_window();
	print("ABH test %s begins\n", test_name);
	test();
	print("ABH test %s success\n", test_name);
	end();
}
