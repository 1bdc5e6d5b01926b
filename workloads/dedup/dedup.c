// SPDX-License-Identifier: MIT
/*
 * PARSEC's dedup kernel: a pipeline of threads cuts data into chunks where its content says so, drops chunks
 * already seen, compresses the others and writes an archive, which is then read back and compared.
 *
 *   fragment -> refine -> deduplicate (N threads) -> compress (N threads) -> reorder
 *                               `--------- chunks already seen ----------------^
 *
 * As in PARSEC every chunk is a buffer allocated in one thread and freed in a later one, and zlib's state is
 * made anew for each chunk: the memory pattern behind the paper's dedup rows.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sha1.h>
#include <zlib.h>

/* PARSEC's averages, roughly: coarse fragments of megabytes, chunks of 4 KB beyond a minimum. */
enum { COARSE = 1 << 20, CHUNK_MIN = 1 << 10, CHUNK_MAX = 1 << 16, MASK_BITS = 12, WINDOW = 64 };
enum { QUEUE_SIZE = 256, BUCKETS = 1 << 16, THREADS_MAX = 16 };

struct parameter {
	const char *name;
	uint64_t max, value;
	int given;
};

/* One distinct content. The pipeline shares `digest` and `next`; the rest belongs to the reorder thread. */
struct content {
	uint8_t digest[SHA1_DIGEST_LENGTH];
	struct content *next;
	uint8_t *packed;
	size_t packed_size;
	uint32_t number;
	bool written;
};

/* A fragment at first, then a chunk; `data` goes away when compressed or found to be a repetition. */
struct chunk {
	uint64_t sequence;
	uint8_t *data;
	size_t size;
	struct content *content;
	uint8_t *packed;
	size_t packed_size;
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct chunk *slot[QUEUE_SIZE];
	unsigned head, tail, producers;
};

/* Record of the archive: a content (`packed_size` bytes follow) or, if that is 0, the number of an earlier one. */
struct record {
	uint32_t packed_size, size_or_number;
};

struct pipeline {
	uint8_t *input;
	size_t size;
	uint64_t gear[256];
	struct queue fragments, chunks, fresh, done;
	pthread_mutex_t table_lock;
	struct content *table[BUCKETS];
	FILE *archive;
	uint64_t chunk_count, archive_bytes;
	uint32_t unique;
};

static void parse(struct parameter *table, size_t size, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		struct parameter *p = table;
		char *end;

		while (p < table + size && strcmp(p->name, argv[i]))
			p++;
		if (p == table + size)
			errx(2, "unknown option '%s'; expected --mib N --threads N --seed N", argv[i]);
		errno = 0;
		p->value = argv[i + 1] ? strtoull(argv[i + 1], &end, 10) : 0;
		if (!argv[i + 1] || errno || end == argv[i + 1] || *end || *argv[i + 1] == '-' || p->value > p->max)
			errx(2, "%s: got '%s', expected a whole number up to %" PRIu64, p->name,
			     argv[i + 1] ? argv[i + 1] : "nothing", p->max);
		p->given = 1;
	}
	for (struct parameter *p = table; p < table + size; p++)
		if (!p->given)
			errx(2, "%s is missing; expected --mib N --threads N --seed N", p->name);
}

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void *allocate(size_t size)
{
	void *memory = malloc(size);

	if (!memory)
		err(1, "malloc of %zu bytes", size);
	return memory;
}

static struct chunk *make_chunk(uint64_t sequence, const uint8_t *data, size_t size)
{
	struct chunk *chunk = allocate(sizeof(*chunk));

	*chunk = (struct chunk){ .sequence = sequence, .data = allocate(size), .size = size };
	memcpy(chunk->data, data, size);
	return chunk;
}

static void queue_init(struct queue *queue, unsigned producers)
{
	*queue = (struct queue){ .producers = producers };
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
}

static void push(struct queue *queue, struct chunk *chunk)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->tail - queue->head == QUEUE_SIZE)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->slot[queue->tail++ % QUEUE_SIZE] = chunk;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* Returns NULL when the queue is empty and will stay so. */
static struct chunk *pop(struct queue *queue)
{
	struct chunk *chunk = NULL;

	pthread_mutex_lock(&queue->lock);
	while (queue->tail == queue->head && queue->producers)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->tail != queue->head)
		chunk = queue->slot[queue->head++ % QUEUE_SIZE];
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	return chunk;
}

static void leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->producers--;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/*
 * Length of the piece that starts at `data`: up to where the rolling fingerprint of the last 64 bytes has
 * its top bits clear. A gear hash in place of PARSEC's Rabin polynomial: same role, one table.
 */
static size_t cut(const uint64_t *gear, const uint8_t *data, size_t size, size_t least, size_t most)
{
	uint64_t hash = 0;

	if (size > most)
		size = most;
	for (size_t i = least - WINDOW; i < size; i++) {
		hash = (hash << 1) + gear[data[i]];
		if (i >= least && hash >> (64 - MASK_BITS) == 0)
			return i;
	}
	return size;
}

static void *fragment(void *argument)
{
	struct pipeline *p = argument;

	for (size_t at = 0, size; at < p->size; at += size) {
		size = cut(p->gear, p->input + at, p->size - at, COARSE, 2 * COARSE);
		push(&p->fragments, make_chunk(0, p->input + at, size));
	}
	leave(&p->fragments);
	return NULL;
}

static void *refine(void *argument)
{
	struct pipeline *p = argument;

	for (struct chunk *whole; (whole = pop(&p->fragments)) != NULL;) {
		for (size_t at = 0, size; at < whole->size; at += size) {
			size = cut(p->gear, whole->data + at, whole->size - at, CHUNK_MIN, CHUNK_MAX);
			push(&p->chunks, make_chunk(p->chunk_count++, whole->data + at, size));
		}
		free(whole->data);
		free(whole);
	}
	leave(&p->chunks);
	return NULL;
}

/* Finds the content with this digest or enters it; the return value says which. */
static bool enter(struct pipeline *p, const uint8_t *digest, struct content **content)
{
	struct content **link = &p->table[(digest[0] | digest[1] << 8) % BUCKETS];

	pthread_mutex_lock(&p->table_lock);
	while (*link && memcmp((*link)->digest, digest, SHA1_DIGEST_LENGTH))
		link = &(*link)->next;
	bool fresh = !*link;

	if (fresh) {
		*link = allocate(sizeof(**link));
		**link = (struct content){ 0 };
		memcpy((*link)->digest, digest, SHA1_DIGEST_LENGTH);
	}
	*content = *link;
	pthread_mutex_unlock(&p->table_lock);
	return fresh;
}

static void *deduplicate(void *argument)
{
	struct pipeline *p = argument;

	for (struct chunk *chunk; (chunk = pop(&p->chunks)) != NULL;) {
		uint8_t digest[SHA1_DIGEST_LENGTH];
		SHA1_CTX context;

		SHA1Init(&context);
		SHA1Update(&context, chunk->data, chunk->size);
		SHA1Final(digest, &context);
		if (enter(p, digest, &chunk->content)) {
			push(&p->fresh, chunk);
		} else {
			free(chunk->data);
			push(&p->done, chunk);
		}
	}
	leave(&p->fresh);
	leave(&p->done);
	return NULL;
}

static void *compress_chunks(void *argument)
{
	struct pipeline *p = argument;

	for (struct chunk *chunk; (chunk = pop(&p->fresh)) != NULL;) {
		uLongf size = compressBound(chunk->size);

		chunk->packed = allocate(size);
		if (compress(chunk->packed, &size, chunk->data, chunk->size) != Z_OK)
			errx(1, "zlib: cannot compress chunk %" PRIu64, chunk->sequence);
		chunk->packed = realloc(chunk->packed, size);
		chunk->packed_size = size;
		free(chunk->data);
		push(&p->done, chunk);
	}
	leave(&p->done);
	return NULL;
}

static void write_chunk(struct pipeline *p, const struct chunk *chunk)
{
	struct content *content = chunk->content;
	struct record record = { .size_or_number = content->number };

	if (!content->written) {
		content->number = p->unique++;
		record = (struct record){ content->packed_size, chunk->size };
	}
	if (fwrite(&record, sizeof(record), 1, p->archive) != 1 ||
	    (!content->written && fwrite(content->packed, content->packed_size, 1, p->archive) != 1))
		err(1, "writing the archive");
	p->archive_bytes += sizeof(record) + record.packed_size;
	if (!content->written)
		free(content->packed);
	content->written = true;
}

/*
 * Writes chunks in the order of the input, whatever order they come in. Which of two equal chunks was entered
 * first is a race, so the data goes where the content occurs first, and waits for whichever chunk carries it.
 */
static void *reorder(void *argument)
{
	struct pipeline *p = argument;
	struct chunk **arrived = NULL;
	uint64_t room = 0, next = 0;

	for (struct chunk *chunk; (chunk = pop(&p->done)) != NULL;) {
		while (chunk->sequence >= room) {
			uint64_t larger = room ? 2 * room : 1024;

			arrived = realloc(arrived, larger * sizeof(*arrived));
			if (!arrived)
				err(1, "realloc of %" PRIu64 " slots", larger);
			memset(arrived + room, 0, (larger - room) * sizeof(*arrived));
			room = larger;
		}
		arrived[chunk->sequence] = chunk;
		if (chunk->packed) {
			chunk->content->packed = chunk->packed;
			chunk->content->packed_size = chunk->packed_size;
		}
		for (; next < room && arrived[next] && arrived[next]->content->packed; next++) {
			write_chunk(p, arrived[next]);
			free(arrived[next]);
		}
	}
	free(arrived);
	if (next != p->chunk_count)
		errx(1, "reorder: got %" PRIu64 " chunks, expected %" PRIu64, next, p->chunk_count);
	return NULL;
}

static pthread_t *start(pthread_t *thread, unsigned count, void *(*stage)(void *), struct pipeline *p)
{
	while (count--)
		if ((errno = pthread_create(thread++, NULL, stage, p)))
			err(1, "starting a thread");
	return thread;
}

static void run(struct pipeline *p, unsigned threads)
{
	pthread_t first[3 + 2 * THREADS_MAX], *end = first;

	queue_init(&p->fragments, 1);
	queue_init(&p->chunks, 1);
	queue_init(&p->fresh, threads);
	queue_init(&p->done, 2 * threads);
	pthread_mutex_init(&p->table_lock, NULL);

	end = start(end, 1, fragment, p);
	end = start(end, 1, refine, p);
	end = start(end, threads, deduplicate, p);
	end = start(end, threads, compress_chunks, p);
	end = start(end, 1, reorder, p);
	while (end > first)
		pthread_join(*--end, NULL);
}

/* Reads the archive back and returns the digest of what it holds, put together again. */
static void unpack(struct pipeline *p, SHA1_CTX *context)
{
	struct piece {
		uint8_t *data;
		uLongf size;
	} *piece = calloc(p->unique, sizeof(*piece));
	uint8_t packed[CHUNK_MAX + CHUNK_MAX / 2];
	struct record record;
	uint32_t pieces = 0;

	if (!piece)
		err(1, "calloc of %" PRIu32 " pieces", p->unique);
	rewind(p->archive);
	for (uint64_t i = 0; i < p->chunk_count; i++) {
		if (fread(&record, sizeof(record), 1, p->archive) != 1 || record.packed_size > sizeof(packed) ||
		    (record.packed_size && fread(packed, record.packed_size, 1, p->archive) != 1))
			errx(1, "archive: cannot read record %" PRIu64, i);
		uint32_t number = record.packed_size ? pieces : record.size_or_number;

		if (record.packed_size && pieces < p->unique) {
			piece[pieces] = (struct piece){ allocate(record.size_or_number), record.size_or_number };
			if (uncompress(piece[pieces].data, &piece[pieces].size, packed, record.packed_size) != Z_OK)
				errx(1, "zlib: cannot uncompress record %" PRIu64, i);
			pieces++;
		}
		if (number >= pieces)
			errx(1, "archive: record %" PRIu64 " names content %" PRIu32 " of %" PRIu32, i, number, pieces);
		SHA1Update(context, piece[number].data, piece[number].size);
	}
	while (pieces)
		free(piece[--pieces].data);
	free(piece);
}

/* Text of a small vocabulary, which compresses; then copies of earlier stretches, which repeat. */
static void generate(struct pipeline *p, uint64_t seed)
{
	enum { WORDS = 256, WORD_MAX = 16, STRETCH = 1 << 16, FRESH_OF_8 = 2 };
	char word[WORDS][WORD_MAX];
	size_t at = 0;

	for (int i = 0; i < 256; i++)
		p->gear[i] = draw(&seed);
	for (int i = 0; i < WORDS; i++)
		for (int j = 0; j < WORD_MAX; j++)
			word[i][j] = 'a' + draw(&seed) % 26;
	while (at < p->size) {
		size_t stretch = STRETCH + draw(&seed) % STRETCH, source = at ? draw(&seed) % at : 0;

		if (stretch > p->size - at)
			stretch = p->size - at;
		if (at > STRETCH && draw(&seed) % 8 >= FRESH_OF_8) {
			/* Byte by byte where source and target overlap; memcpy must not see that. */
			for (size_t i = 0; i < stretch; i++)
				p->input[at + i] = p->input[source + i];
			at += stretch;
			continue;
		}
		for (size_t end = at + stretch; at < end;) {
			uint64_t bits = draw(&seed);
			size_t length = 3 + bits % (WORD_MAX - 3);

			if (length > end - at)
				length = end - at;
			memcpy(p->input + at, word[bits >> 8 & (WORDS - 1)], length);
			at += length;
			if (at < end)
				p->input[at++] = ' ';
		}
	}
}

static void digest_archive(FILE *archive, char *text)
{
	static uint8_t buffer[CHUNK_MAX];
	SHA1_CTX context;
	size_t size;

	SHA1Init(&context);
	rewind(archive);
	while ((size = fread(buffer, 1, sizeof(buffer), archive)) > 0)
		SHA1Update(&context, buffer, size);
	if (ferror(archive))
		err(1, "reading the archive");
	SHA1End(&context, text);
}

int main(int argc, char **argv)
{
	struct parameter arguments[] = { { .name = "--mib", .max = 65536 },
					 { .name = "--threads", .max = THREADS_MAX },
					 { .name = "--seed", .max = UINT64_MAX } };
	static struct pipeline pipeline;
	struct pipeline *p = &pipeline;
	char got[SHA1_DIGEST_STRING_LENGTH], expected[SHA1_DIGEST_STRING_LENGTH];
	SHA1_CTX context;

	parse(arguments, 3, argc, argv);
	if (!arguments[0].value || !arguments[1].value)
		errx(2, "--mib, --threads: got 0, expected at least 1");
	p->size = arguments[0].value << 20;
	p->input = allocate(p->size);
	p->archive = tmpfile();
	if (!p->archive)
		err(1, "a temporary file for the archive");
	generate(p, arguments[2].value);
	run(p, arguments[1].value);

	SHA1Data(p->input, p->size, expected);
	free(p->input);
	SHA1Init(&context);
	unpack(p, &context);
	SHA1End(&context, got);
	if (strcmp(got, expected))
		errx(1, "archive: holds data of SHA-1 %s, expected %s", got, expected);
	digest_archive(p->archive, got);
	printf("chunks: %" PRIu64 "\nunique_chunks: %" PRIu32 "\narchive_bytes: %" PRIu64 "\nanswer: %s\n",
	       p->chunk_count, p->unique, p->archive_bytes, got);
	return 0;
}
