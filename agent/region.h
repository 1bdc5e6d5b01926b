/* SPDX-License-Identifier: MIT */
/* Marks of the region of interest: the bench's QEMU plugin counts what the machine does between them. */

#ifndef ABH_REGION_H
#define ABH_REGION_H

/*
 * A mark is the seven-byte instruction NOPL disp32(%rax): 0F 1F 80 and one of these numbers, little-endian.
 *
 * Why a NOP: it needs no privilege and no hypervisor can intercept it (AMD APM vol. 2, 15.9: there is no intercept
 * for it), so marking costs no VM exit and the counts do not hold the marks' own work. CPUID and VMMCALL, the usual
 * ways to call out, leave the guest in every environment under test; a port or an MSR needs ring 0. Its operand is
 * decoded but never read, so the address cannot fault. On real hardware, or without the plugin, it does nothing.
 *
 * The numbers are arbitrary: "abh" in ASCII, then which mark. A compiler pads with displacement 0 only. They are
 * positive as signed 32-bit numbers, as an assembler wants of a displacement.
 */
#define ABH_REGION_BEGIN 0x61626801
#define ABH_REGION_END 0x61626802

#if defined(__x86_64__) && !defined(__ASSEMBLER__)
/* "memory" keeps the compiler from moving loads and stores of the measured work across a mark. */
static inline void abh_region_begin(void)
{
	__asm__ volatile("nopl %c0(%%rax)" : : "i"(ABH_REGION_BEGIN) : "memory");
}

static inline void abh_region_end(void)
{
	__asm__ volatile("nopl %c0(%%rax)" : : "i"(ABH_REGION_END) : "memory");
}
#endif

#endif
