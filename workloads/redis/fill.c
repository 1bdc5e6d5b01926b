// SPDX-License-Identifier: MIT
/*
 * Starts a Redis server in the background, fills it over a local socket and checks what it holds.
 *
 * The server is left running, as a service would be: it is the server's memory that the run is about.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKET "/tmp/redis.socket"

/* Arbitrary: values of 32 to 2079 bytes have the server's malloc use many of its size classes. */
enum { VALUE_MIN = 32, VALUE_SPREAD = 2048, TEXT_SIZE = 1 << 16 };
enum { BATCH = 64, TRIES = 1000, TRY_NS = 10 * 1000 * 1000 };

extern char **environ;

/* The finaliser of SplitMix64: one to one. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Values are stretches of one text: what matters is their number and length. */
static char text[TEXT_SIZE];

struct value {
	const char *bytes;
	int length;
};

/* The value of a key after its `round`th writing. */
static struct value value_of(uint64_t seed, uint64_t key, uint64_t round)
{
	uint64_t bits = mix(mix(seed + round) + key * 0x9e3779b97f4a7c15);
	struct value value = { .length = VALUE_MIN + bits % VALUE_SPREAD };

	value.bytes = text + (bits >> 16) % (TEXT_SIZE - value.length);
	return value;
}

/*
 * Nothing is written to a disk. The server would forbid hugepages to itself ("disable-thp"); how many it can get is what
 * is asked here. Redis's malloc is jemalloc, whose threads of its own stay off.
 */
static void start_server(void)
{
	char *const words[] = { "redis-server", "--daemonize", "yes", "--port", "0", "--unixsocket", SOCKET,
				"--save", "", "--appendonly", "no", "--dir", "/tmp", "--logfile", "/tmp/redis.log",
				"--pidfile", "/tmp/redis.pid", "--disable-thp", "no", "--jemalloc-bg-thread", "no",
				"--enable-debug-command", "local", NULL };
	int status, error;
	pid_t child;

	error = posix_spawnp(&child, words[0], NULL, NULL, words, environ);
	if (error)
		errx(1, "%s: %s", words[0], strerror(error));
	if (waitpid(child, &status, 0) != child || status)
		errx(1, "%s: it did not go into the background: status %#x", words[0], status);
}

static FILE *connect_to_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	struct timespec pause = { .tv_nsec = TRY_NS };
	int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FILE *server;

	for (int i = 0; connect(end, (struct sockaddr *)&address, sizeof(address)); i++) {
		if (i == TRIES)
			err(1, "the server does not listen on " SOCKET);
		nanosleep(&pause, NULL);
	}
	server = fdopen(end, "r+");
	if (!server)
		err(1, "fdopen");
	return server;
}

/* The next line of an answer, without its end. */
static char *answer(FILE *server)
{
	static char line[128];

	if (!fgets(line, sizeof(line), server))
		errx(1, "the server went away");
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

static void expect(FILE *server, const char *expected)
{
	const char *got = answer(server);

	if (strcmp(got, expected))
		errx(1, "the server said '%s', expected '%s'", got, expected);
}

static void set_keys(FILE *server, uint64_t seed, uint64_t keys, uint64_t step, uint64_t round)
{
	for (uint64_t key = 0, sent = 0; key < keys; key += step) {
		struct value value = value_of(seed, key, round);

		fprintf(server, "*3\r\n$3\r\nSET\r\n$20\r\nkey:%016" PRIx64 "\r\n$%d\r\n%.*s\r\n", key, value.length,
			value.length, value.bytes);
		if (++sent % BATCH && key + step < keys)
			continue;
		fflush(server);
		for (uint64_t left = sent % BATCH ?: BATCH; left; left--)
			expect(server, "+OK");
	}
}

static void expect_value(FILE *server, struct value value)
{
	static char bytes[VALUE_MIN + VALUE_SPREAD];
	char length[16];

	snprintf(length, sizeof(length), "$%d", value.length);
	expect(server, length);
	if (fread(bytes, 1, value.length, server) != (size_t)value.length || memcmp(bytes, value.bytes, value.length))
		errx(1, "a value is not the one that was set");
	expect(server, "");
}

/* Reads every eighth key, which is to have the value it was last given. */
static uint64_t check_values(FILE *server, uint64_t seed, uint64_t keys)
{
	uint64_t checked = 0;

	for (uint64_t key = 0; key < keys; key += 8, checked++) {
		fprintf(server, "*2\r\n$3\r\nGET\r\n$20\r\nkey:%016" PRIx64 "\r\n", key);
		fflush(server);
		expect_value(server, value_of(seed, key, key % 3 ? 0 : 1));
	}
	return checked;
}

int main(int argc, char **argv)
{
	uint64_t keys, seed;
	char size[32];
	FILE *server;

	if (argc != 5 || strcmp(argv[1], "--keys") || strcmp(argv[3], "--seed"))
		errx(2, "usage: %s --keys N --seed N", argv[0]);
	keys = strtoull(argv[2], NULL, 10);
	seed = strtoull(argv[4], NULL, 10);
	if (!keys)
		errx(2, "--keys: got '%s', expected a whole number above 0", argv[2]);
	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = 'a' + mix(seed + i) % 26;
	start_server();
	server = connect_to_server();
	set_keys(server, seed, keys, 1, 0);
	set_keys(server, seed, keys, 3, 1); /* others take their place: what they leave is to be used again */
	fprintf(server, "DBSIZE\r\n");
	fflush(server);
	snprintf(size, sizeof(size), ":%" PRIu64, keys);
	expect(server, size);
	printf("checked: %" PRIu64 "\nkeys: %" PRIu64 "\n", check_values(server, seed, keys), keys);
	fprintf(server, "DEBUG DIGEST\r\n"); /* the server's own sum of all keys and values, in no order */
	fflush(server);
	printf("answer: %s\n", answer(server) + 1);
	return 0;
}
