/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCG plugin: counts the instructions and the VMRUNs of the whole machine between a guest's region marks.
 *
 * The marks are the NOPs of agent/region.h. Each region's end appends one line to the file out=PATH:
 *     {"region": 1, "instructions": 2001, "vmrun": 0}
 * and each mark that does not fit, with the number the region has or would have had, and no count:
 *     {"region": 2, "error": "begin inside a region"}
 *
 * What is counted. Every instruction that begins between the two marks, neither mark included, on every vCPU: the
 * host's, the hypervisor's and the guest's. So
 *   - an instruction that faults or is intercepted counts, and counts again when it is restarted;
 *   - under -icount a repeated string instruction counts once a repetition and once to find there is none left, as
 *     in QEMU's virtual time; without -icount QEMU runs up to 65,536 repetitions as one;
 *   - vmrun counts VMRUN instructions, which are VM entries, and thus VM exits, unless one of them faults.
 *
 * With -accel tcg,thread=multi the other vCPUs run on while a mark is handled: their share is then as sharp as the
 * threads' timing, that of the marking vCPU stays exact. With -icount vCPUs take turns and all counts are exact; but
 * QEMU 10.0.13 as released then miscompiles every plugin's additions on the second and later vCPU, and crashes
 * (gen_plugin_u64_ptr() in accel/tcg/plugin-gen.c multiplies a shared constant in place).
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <qemu-plugin.h>

#include "region.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define MAX_INSN 15 /* bytes; AMD APM vol. 3, 1.1 */

/* What one vCPU did since QEMU started; never reset, so a region is a difference of two sums. */
struct counts {
	uint64_t instructions;
	uint64_t vmrun;
};

static struct qemu_plugin_scoreboard *per_vcpu;
static qemu_plugin_u64 instructions;
static qemu_plugin_u64 vmrun;

static int out = -1;
static const char *out_path;

/* The region is the machine's, not a vCPU's: a task may begin it on one vCPU and end it on another. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int region; /* number of the region that is open, or was last */
static bool is_open;
static struct counts at_begin;

static struct counts now(void)
{
	return (struct counts){ qemu_plugin_u64_sum(instructions), qemu_plugin_u64_sum(vmrun) };
}

/* One write() to a file opened for appending: a reader, or a killed QEMU, never leaves half a line behind. */
__attribute__((format(printf, 1, 2))) static void put_line(const char *format, ...)
{
	char line[160];
	va_list args;

	va_start(args, format);
	int length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);

	ssize_t written = write(out, line, length);
	if (written != length) {
		fprintf(stderr,
			"region plugin: %s: wrote %zd of %d bytes (%s); the counts of region %u are lost; "
			"free space there and run again\n",
			out_path, written, length, written < 0 ? strerror(errno) : "short write", region);
	}
}

static void on_begin(unsigned int vcpu, void *unused)
{
	(void)vcpu;
	(void)unused;
	pthread_mutex_lock(&lock);
	region++;
	if (is_open) {
		/* Neither begin can be trusted, so both regions end here, uncounted. */
		is_open = false;
		put_line("{\"region\": %u, \"error\": \"begin inside a region\"}\n", region);
	} else {
		is_open = true;
		at_begin = now();
	}
	pthread_mutex_unlock(&lock);
}

static void on_end(unsigned int vcpu, void *unused)
{
	(void)vcpu;
	(void)unused;
	pthread_mutex_lock(&lock);
	if (is_open) {
		struct counts at_end = now();
		is_open = false;
		put_line("{\"region\": %u, \"instructions\": %" PRIu64 ", \"vmrun\": %" PRIu64 "}\n", region,
			 at_end.instructions - at_begin.instructions, at_end.vmrun - at_begin.vmrun);
	} else {
		put_line("{\"region\": %u, \"error\": \"end without a begin\"}\n", ++region);
	}
	pthread_mutex_unlock(&lock);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
	(void)id;
	(void)unused;
	pthread_mutex_lock(&lock);
	if (is_open) {
		is_open = false;
		put_line("{\"region\": %u, \"error\": \"begin without an end\"}\n", region);
	}
	pthread_mutex_unlock(&lock);
}

static bool is_mark(const uint8_t *code, size_t size, uint32_t number)
{
	const uint8_t mark[] = { 0x0f, 0x1f, 0x80, number, number >> 8, number >> 16, number >> 24 };

	return size == sizeof(mark) && memcmp(code, mark, size) == 0;
}

static bool is_vmrun(const uint8_t *code, size_t size)
{
	/* Linux and Xen write none, but these prefixes are legal: operand size, address size, REX. */
	while (size > 3 && (code[0] == 0x66 || code[0] == 0x67 || (code[0] & 0xf0) == 0x40)) {
		code++;
		size--;
	}
	return size == 3 && memcmp(code, "\x0f\x01\xd8", 3) == 0;
}

/*
 * One addition an instruction, not one a translated block: a block is left in its middle by every page fault and
 * many VM exits, and those are what this bench is about. It costs 9 % of the time of a Linux boot under -icount, one
 * a block less than 1 %. The additions stay in place outside regions, since adding them at a mark would mean throwing
 * away all translated code there.
 */
static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t code[MAX_INSN];
		size_t size = qemu_plugin_insn_data(insn, code, sizeof(code));

		/* Operations run in the order of registration: read before the end is added, and after the begin is. */
		if (is_mark(code, size, ABH_REGION_END)) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
		}
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, instructions, 1);
		if (is_mark(code, size, ABH_REGION_BEGIN)) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
		}
		if (is_vmrun(code, size)) {
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, vmrun, 1);
		}
	}
}

static int parse_arguments(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "out=", 4) != 0 || argv[i][4] == '\0') {
			fprintf(stderr, "region plugin: unknown argument \"%s\"; it takes out=PATH only\n", argv[i]);
			return -1;
		}
		if (out_path) {
			fprintf(stderr, "region plugin: out= given twice, \"%s\" and \"%s\"; give it once\n", out_path,
				argv[i] + 4);
			return -1;
		}
		out_path = argv[i] + 4;
	}
	if (!out_path) {
		fprintf(stderr, "region plugin: no output file; add out=PATH to -plugin\n");
		return -1;
	}
	return 0;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (strcmp(info->target_name, "x86_64") != 0 || !info->system_emulation) {
		fprintf(stderr,
			"region plugin: target is %s %s, marks are known for x86_64 system emulation only; "
			"run qemu-system-x86_64\n",
			info->target_name, info->system_emulation ? "system" : "user");
		return -1;
	}
	if (parse_arguments(argc, argv) != 0) {
		return -1;
	}
	out = open(out_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (out < 0) {
		fprintf(stderr, "region plugin: cannot open %s to append: %s; name a file in a writable folder\n",
			out_path, strerror(errno));
		return -1;
	}

	per_vcpu = qemu_plugin_scoreboard_new(sizeof(struct counts));
	instructions = qemu_plugin_scoreboard_u64_in_struct(per_vcpu, struct counts, instructions);
	vmrun = qemu_plugin_scoreboard_u64_in_struct(per_vcpu, struct counts, vmrun);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
