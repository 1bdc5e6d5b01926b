// SPDX-License-Identifier: MIT
// What the kernel's own tests of memory ask of a C library beyond what the bench's workloads do (agent/ia64/libc.c).
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

long call(long a, long b, long c, long d, long e, long f, long number);

long syscall(long number, ...)
{
	va_list more;
	long of[6], got;

	va_start(more, number);
	for (int i = 0; i < 6; i++)
		of[i] = va_arg(more, long);
	va_end(more);
	got = call(of[0], of[1], of[2], of[3], of[4], of[5], number);
	if (got >= 0 || got < -4095)
		return got;
	errno = (int)-got;
	return -1;
}

// --- calls -------------------------------------------------------------------------------------------------------

#define CALL(number, ...) syscall(number, ##__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)

void *mremap(void *at, size_t size, size_t becomes, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = va_arg(more, void *);
	va_end(more);
	return (void *)CALL(__NR_mremap, (long)at, size, becomes, (long)flags, (long)to);
}

int mprotect(void *at, size_t size, int rights)
{
	return (int)CALL(__NR_mprotect, (long)at, size, (long)rights);
}

int madvise(void *at, size_t size, int advice)
{
	return (int)CALL(__NR_madvise, (long)at, size, (long)advice);
}

int msync(void *at, size_t size, int flags)
{
	return (int)CALL(__NR_msync, (long)at, size, (long)flags);
}

int mlock(const void *at, size_t size)
{
	return (int)CALL(__NR_mlock, (long)at, size);
}

int munlock(const void *at, size_t size)
{
	return (int)CALL(__NR_munlock, (long)at, size);
}

int mlockall(int flags)
{
	return (int)CALL(__NR_mlockall, (long)flags);
}

int munlockall(void)
{
	return (int)CALL(__NR_munlockall);
}

int memfd_create(const char *name, unsigned flags)
{
	return (int)CALL(__NR_memfd_create, (long)name, (long)flags);
}

int open(const char *path, int flags, ...)
{
	return (int)CALL(__NR_open, (long)path, (long)flags, 0755L);
}

int close(int file)
{
	return (int)CALL(__NR_close, (long)file);
}

ssize_t read(int file, void *to, size_t size)
{
	return CALL(__NR_read, (long)file, (long)to, size);
}

ssize_t write(int file, const void *from, size_t size)
{
	return CALL(__NR_write, (long)file, (long)from, size);
}

ssize_t pread(int file, void *to, size_t size, off_t at)
{
	return CALL(__NR_pread64, (long)file, (long)to, size, at);
}

int ftruncate(int file, off_t size)
{
	return (int)CALL(__NR_ftruncate, (long)file, size);
}

int unlink(const char *path)
{
	return (int)CALL(__NR_unlink, (long)path);
}

int pipe(int ends[2])
{
	return (int)CALL(__NR_pipe2, (long)ends);
}

pid_t getpid(void)
{
	return (pid_t)CALL(__NR_getpid);
}

pid_t getppid(void)
{
	return (pid_t)CALL(__NR_getppid);
}

pid_t fork(void)
{
	return (pid_t)CALL(__NR_clone, (long)SIGCHLD);
}

pid_t waitpid(pid_t child, int *status, int options)
{
	return (pid_t)CALL(__NR_wait4, (long)child, (long)status, (long)options);
}

int kill(pid_t process, int signal)
{
	return (int)CALL(__NR_kill, (long)process, (long)signal);
}

int getrlimit(int of, struct rlimit *limits)
{
	return (int)CALL(__NR_getrlimit, (long)of, (long)limits);
}

int clock_gettime(int clock, struct timespec *now)
{
	return (int)CALL(__NR_clock_gettime, (long)clock, (long)now);
}

time_t time(time_t *at)
{
	struct timespec now = { 0 };

	clock_gettime(0, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}

unsigned sleep(unsigned seconds)
{
	struct timespec left = { seconds, 0 };

	CALL(__NR_nanosleep, (long)&left, (long)&left);
	return (unsigned)left.tv_sec;
}

int getpagesize(void)
{
	return (int)CALL(__NR_old_getpagesize);
}

long sysconf(int what)
{
	return what == _SC_PAGESIZE ? getpagesize() : -1;
}

void _exit(int status)
{
	exit(status);
}

// There is no shell.
int system(const char *command)
{
	return -1;
}

char *getenv(const char *name)
{
	return NULL;
}

// No test gets an option.
char *optarg;
int optind = 1;

int getopt(int count, char *const *words, const char *options)
{
	return -1;
}

// --- text --------------------------------------------------------------------------------------------------------

static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 99;
}

unsigned long strtoul(const char *text, char **end, int base)
{
	unsigned long value = 0;
	const char *at = text + strspn(text, " \t\n");

	for (; digit(*at) < (unsigned)base; at++)
		value = value * (unsigned)base + digit(*at);
	if (end)
		*end = (char *)at;
	return value;
}

long strtol(const char *text, char **end, int base)
{
	return (long)strtoul(text, end, base);
}

long atol(const char *text)
{
	return strtol(text, NULL, 10);
}

int atoi(const char *text)
{
	return (int)atol(text);
}

int ffsl(long value)
{
	return __builtin_ffsl(value);
}

char *strstr(const char *in, const char *text)
{
	for (; *in; in++)
		if (!strncmp(in, text, strlen(text)))
			return (char *)in;
	return NULL;
}

char *strtok(char *text, const char *between)
{
	static char *rest;
	char *begin;

	if (text)
		rest = text;
	begin = rest + strspn(rest, between);
	if (!*begin)
		return NULL;
	rest = begin + strcspn(begin, between);
	if (*rest)
		*rest++ = '\0';
	return begin;
}

char *strerror(int number)
{
	static char text[24];

	snprintf(text, sizeof(text), "error %d", number);
	return text;
}

static unsigned long drawn;

void srand(unsigned seed)
{
	drawn = seed;
}

int rand(void)
{
	drawn = drawn * 6364136223846793005 + 1442695040888963407;
	return (int)(drawn >> 33);
}

// Conversions %lx, %lu and their like, %ld, %s, with a width that is passed over.
int vsscanf(const char *text, const char *format, va_list args)
{
	int done = 0, longs;

	for (; *format; format++) {
		if (*format == ' ' || *format == '\n') {
			text += strspn(text, " \t\n");
			continue;
		}
		if (*format != '%') {
			if (*text++ != *format)
				return done;
			continue;
		}
		for (format++; *format >= '0' && *format <= '9'; format++)
			;
		for (longs = 0; *format == 'l'; format++)
			longs = 1;
		text += strspn(text, " \t\n");
		if (!*text)
			return done ? done : EOF;
		if (*format == 's') {
			size_t size = strcspn(text, " \t\n");
			char *to = va_arg(args, char *);

			memcpy(to, text, size);
			to[size] = '\0';
			text += size;
		} else {
			int base = *format == 'x' ? 16 : 10;
			char *end;
			unsigned long value = strtoul(text, &end, base);

			if (end == text)
				return done;
			if (longs)
				*va_arg(args, unsigned long *) = value;
			else
				*va_arg(args, unsigned *) = (unsigned)value;
			text = end;
		}
		done++;
	}
	return done;
}

int sscanf(const char *text, const char *format, ...)
{
	va_list args;
	int done;

	va_start(args, format);
	done = vsscanf(text, format, args);
	va_end(args);
	return done;
}

// --- files -------------------------------------------------------------------------------------------------------

struct file {
	int number;
	size_t at, filled;
	char text[4096];
};

FILE *const stdout, *const stderr;

static FILE *file_of(int number)
{
	FILE *file = number < 0 ? NULL : malloc(sizeof(*file));

	if (file)
		*file = (FILE){ .number = number };
	return file;
}

FILE *fopen(const char *path, const char *how)
{
	return file_of(open(path, O_RDONLY));
}

FILE *tmpfile(void)
{
	return file_of(memfd_create("tmpfile", 0));
}

int fclose(FILE *file)
{
	int well = close(file->number);

	free(file);
	return well;
}

int fileno(FILE *file)
{
	return file->number;
}

char *fgets(char *line, int size, FILE *file)
{
	int length = 0;

	while (length < size - 1) {
		if (file->at == file->filled) {
			ssize_t got = read(file->number, file->text, sizeof(file->text));

			file->at = 0;
			file->filled = got > 0 ? (size_t)got : 0;
			if (!file->filled)
				break;
		}
		line[length++] = file->text[file->at++];
		if (line[length - 1] == '\n')
			break;
	}
	line[length] = '\0';
	return length ? line : NULL;
}

ssize_t getline(char **line, size_t *size, FILE *file)
{
	enum { LONGEST = 1024 };

	if (!*line || *size < LONGEST) {
		*line = realloc(*line, LONGEST);
		*size = LONGEST;
	}
	return fgets(*line, LONGEST, file) ? (ssize_t)strlen(*line) : -1;
}

int fscanf(FILE *file, const char *format, ...)
{
	char line[256];
	va_list args;
	int done;

	if (!fgets(line, sizeof(line), file))
		return EOF;
	va_start(args, format);
	done = vsscanf(line, format, args);
	va_end(args);
	return done;
}

// Whatever the file, to the standard output.
int fprintf(FILE *file, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	return 0;
}

void perror(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
}
