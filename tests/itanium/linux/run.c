// SPDX-License-Identifier: MIT
// The first process of the machine: runs each program of the lists that its arguments name, and says how those that
// fail have ended. With the start and the calls of tests/itanium/boot.
typedef unsigned long word;

long call(long a, long b, long c, long d, long e, long f, long number);

enum { READ = 1026, WRITE = 1027, OPEN = 1028, EXIT = 1025, EXECVE = 1033, REBOOT = 1096, WAIT = 1126, CLONE = 1128 };
enum { SETITIMER = 1118, CHILD = 17, LONGEST = 100, SECONDS = 5 };

static void say(const char *text)
{
	word n = 0;

	while (text[n])
		n++;
	call(1, (long)text, n, 0, 0, 0, WRITE);
}

static void say_number(word number)
{
	char text[24];
	int at = sizeof(text);

	text[--at] = 0;
	do
		text[--at] = '0' + number % 10;
	while (number /= 10);
	say(text + at);
}

// The next name of the list; 0 at its end.
static int next(long list, char *name)
{
	static char text[65536];
	static long at, size;
	int length = 0;

	for (;;) {
		if (at == size) {
			size = call(list, (long)text, sizeof(text), 0, 0, 0, READ);
			at = 0;
			if (size <= 0) {
				size = 0;
				return 0;
			}
		}
		if (text[at++] == '\n')
			break;
		if (length < LONGEST)
			name[length++] = text[at - 1];
	}
	name[length] = 0;
	return length;
}

static int run(const char *name)
{
	char *const arguments[] = { (char *)name, 0 }, *const environment[] = { 0 };
	int status = -1;
	long child = call(CHILD, 0, 0, 0, 0, 0, CLONE);

	if (!child) {
		/* One that does not end by itself is ended by SIGALRM; a second is 10^9 instructions. */
		const word limit[4] = { 0, 0, SECONDS, 0 };

		call(0, (long)limit, 0, 0, 0, 0, SETITIMER);
		call((long)name, (long)arguments, (long)environment, 0, 0, 0, EXECVE);
		call(127, 0, 0, 0, 0, 0, EXIT);
	}
	call(child, (long)&status, 0, 0, 0, 0, WAIT);
	return status;
}

// Runs a list; the number of programs that failed, or -1.
static long all(const char *path, word *count)
{
	char name[LONGEST + 1];
	long list = call((long)path, 0, 0, 0, 0, 0, OPEN), failed = 0;

	if (list < 0)
		return -1;
	while (next(list, name)) {
		int status = run(name);

		++*count;
		if (!status)
			continue;
		failed++;
		say("torture: ");
		say(name);
		say(status & 127 ? " ended by signal " : " ended with ");
		say_number(status & 127 ? status & 127 : status >> 8 & 255);
		say("\n");
	}
	return failed;
}

// at: the number of arguments, and where they are. Each but the first is a level of optimization.
int main(word *at)
{
	word count = 0, failed = 0;
	int well = at[0] > 1;

	for (word i = 1; i < at[0]; i++) {
		long of_level = all((const char *)at[i + 1], &count);

		well &= of_level >= 0;
		failed += of_level < 0 ? 0 : of_level;
	}
	say("torture: ");
	say_number(count);
	say(" programs, ");
	say_number(failed);
	say(well ? " failed\ninit: all is well\n" : " failed\ninit: something is wrong\n");
	call(0xfee1dead, 672274793, 0x01234567, 0, 0, 0, REBOOT);
	return 1;
}
