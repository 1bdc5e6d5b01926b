// SPDX-License-Identifier: MIT
// The first process of the machine that is tested: does a little of all that a kernel is for, says whether it was
// right, and ends the machine. Without a C library, as there is none for this architecture.
#include "init.h"

static long of(long number, long a, long b, long c)
{
	return call(a, b, c, 0, 0, 0, number);
}

static word length(const char *text)
{
	word n = 0;

	while (text[n])
		n++;
	return n;
}

void say(const char *text)
{
	of(WRITE, 1, (long)text, length(text));
}

void say_number(const char *what, long number)
{
	char text[24];
	int at = sizeof(text);
	word left = number < 0 ? -number : number;

	text[--at] = 0;
	text[--at] = '\n';
	do
		text[--at] = '0' + left % 10;
	while (left /= 10);
	if (number < 0)
		text[--at] = '-';
	say(what);
	say(text + at);
}

static int failed;

static void check(const char *what, int well)
{
	say(well ? "ok " : "FAILED ");
	say(what);
	say("\n");
	failed |= !well;
}

// The first lines of a file.
static void show(const char *path, int lines)
{
	static char text[4096];
	long got, file = of(OPEN, (long)path, 0, 0);

	check(path, file >= 0);
	got = of(READ, file, (long)text, sizeof(text) - 1);
	of(CLOSE, file, 0, 0);
	for (long at = 0; at < got; at++) {
		if (text[at] == '\n' && !--lines)
			got = at + 1;
	}
	of(WRITE, 1, (long)text, got > 0 ? got : 0);
}

static word *map(word bytes)
{
	return (word *)call(0, bytes, 3, 0x22, -1, 0, MMAP);
}

// Each page has a number of its own, before a child has changed its copies and after.
static void memory(word megabytes)
{
	word bytes = megabytes << 20, wrong = 0;
	word *all = map(bytes);
	int status = 0;
	long child;

	for (word at = 0; at < bytes; at += PAGE)
		all[at / 8] = at ^ 0x5a5a;
	child = of(CLONE, CHILD, 0, 0);
	if (!child) {
		for (word at = 0; at < bytes; at += PAGE)
			all[at / 8 + 1] = all[at / 8]++;
		of(EXIT, all[bytes / 16] == ((bytes / 2) ^ 0x5a5a) + 1 ? 42 : 1, 0, 0);
	}
	call(child, (long)&status, 0, 0, 0, 0, WAIT);
	check("a child has memory of its own", child > 0 && status == 42 << 8);
	for (word at = 0; at < bytes; at += PAGE)
		wrong += all[at / 8] != (at ^ 0x5a5a) || all[at / 8 + 1];
	check("memory is what was written", !wrong);
	check("memory goes", !of(MUNMAP, (long)all, bytes, 0));
}

// Parts of a mapping change: their neighbours keep what they have, whatever page they are mapped by.
static void parts(void)
{
	enum { PAGES = 512, GONE = 100, READONLY = 201, MOVED = 302, MOVE = 5, EMPTY = 403 };
	word *all = map((word)PAGES * PAGE), *to = map((word)MOVE * PAGE), wrong = 0;
	int status = 0;
	long child;

	for (word page = 0; page < PAGES; page++)
		all[page * PAGE / 8] = ~page;
	check("a part becomes read-only", !of(MPROTECT, (long)all + READONLY * PAGE, PAGE, 1));
	check("a part goes", !of(MUNMAP, (long)all + GONE * PAGE, PAGE, 0));
	check("a part moves",
	      call((long)all + MOVED * PAGE, MOVE * PAGE, MOVE * PAGE, 3, (long)to, 0, MREMAP) == (long)to);
	check("a part is emptied", !of(MADVISE, (long)all + EMPTY * PAGE, PAGE, 4));
	for (word page = 0; page < PAGES; page++) {
		if (page == GONE || (page >= MOVED && page < MOVED + MOVE))
			continue;
		wrong += all[page * PAGE / 8] != (page == EMPTY ? 0 : ~page);
		if (page != READONLY)
			all[page * PAGE / 8 + 1] = page;
	}
	for (word page = 0; page < MOVE; page++)
		wrong += to[page * PAGE / 8] != ~(page + MOVED);
	check("the other parts are what they were", !wrong);
	child = of(CLONE, CHILD, 0, 0);
	if (!child) {
		all[READONLY * PAGE / 8] = 1;
		of(EXIT, 0, 0, 0);
	}
	call(child, (long)&status, 0, 0, 0, 0, WAIT);
	check("a write to the read-only part is a fault", (status & 127) == 11);
	child = of(CLONE, CHILD, 0, 0);
	if (!child)
		of(EXIT, all[GONE * PAGE / 8], 0, 0);
	call(child, (long)&status, 0, 0, 0, 0, WAIT);
	check("a read of the part that has gone is a fault", (status & 127) == 11);
}

// Deep enough that registers are stored and loaded again, with values that tell.
static long deep(long n, long a, long b, long c)
{
	if (!n)
		return a ^ b ^ c;
	return deep(n - 1, a + n, b * 3, c ^ a) + n - (a & 1);
}

static long deep_again(long n)
{
	long a = 1, b = 7, c = 0, sum = 0, odd[200];

	for (long at = n; at; at--) {
		odd[at] = a & 1;
		c ^= a;
		a += at;
		b *= 3;
	}
	for (long at = 1; at <= n; at++)
		sum += at - odd[at];
	return sum + (a ^ b ^ c);
}

static double volatile thousand = 1000.0, three = 3.0;

// The end of the machine.
static void end(void)
{
	call(0xfee1dead, 672274793, 0x01234567, 0, 0, 0, REBOOT);
}

static word number_of(const char *digits)
{
	word number = 0;

	for (; *digits >= '0' && *digits <= '9'; digits++)
		number = number * 10 + *digits - '0';
	return number;
}

static int is_number(const char *text)
{
	const char *at = text;

	while (*at >= '0' && *at <= '9')
		at++;
	return at > text && !*at;
}

// Why these words ask for no program; 0: they do.
static const char *refusal(word words, char **said)
{
	if (words != 2)
		return "init: no program and its number of rounds, but other words: ";
	if (!is_program(said[0]))
		return "init: no program has this name: ";
	return is_number(said[1]) ? 0 : "init: no number of rounds, in digits alone: ";
}

// Words on the kernel's command line that mean nothing to it: a program of tests/itanium/thesis and the number of its
// rounds, instead.
static void other(word words, char **said)
{
	const char *why = refusal(words, said);

	if (why) {
		say(why);
		for (word at = 0; at < words; at++) {
			say(at ? " " : "");
			say(said[at]);
		}
		say("\ninit: programs:");
		say_programs();
		say("\n");
		failed = 1;
	} else {
		check(said[0], perform(said[0], number_of(said[1])));
	}
	of(MKDIR, (long)"/proc", 0755, 0);
	call((long)"proc", (long)"/proc", (long)"proc", 0, 0, 0, MOUNT);
	show("/proc/superpages", 6);
	show("/proc/vhpt", 7);
	say(failed ? "init: something is wrong\n" : "init: all is well\n");
	end();
}

// at: the number of arguments, and where they are.
int main(word *at)
{
	long pause[2] = { 0, 30000000 };

	if (at[0] == 2 && !at[4]) { // not the first process: start() in programs.c leaves it no environment
		word bytes = number_of((const char *)at[2]) << 20;

		if (bytes)
			touch(reserve(bytes), bytes);
		return 0;
	}
	say("\ninit: here\n");
	if (at[0] > 1)
		other(at[0] - 1, (char **)at + 2);
	check("it is the first process", of(GETPID, 0, 0, 0) == 1);
	of(MKDIR, (long)"/proc", 0755, 0);
	check("/proc is mounted", !call((long)"proc", (long)"/proc", (long)"proc", 0, 0, 0, MOUNT));
	show("/proc/cpuinfo", 13);
	show("/proc/meminfo", 2);
	check("registers come back from memory", deep(150, 1, 7, 0) == deep_again(150));
	check("divisions are right", (long)(thousand / three * 3e6) == 1000000000 && 1000000007L % (word)thousand == 7);
	memory(32);
	parts();
	check("time goes on", !of(SLEEP, (long)pause, 0, 0));
	show("/proc/interrupts", 8);
	say_number("init: failed ", failed);
	say(failed ? "init: something is wrong\n" : "init: all is well\n");
	end();
	return 1;
}
