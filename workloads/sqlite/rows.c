// SPDX-License-Identifier: MIT
/* Fills an in-memory SQLite table and its index with seeded rows, then checks what queries say of them. */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

/* Arbitrary: names of 16 to 47 and notes of 64 to 575 bytes give rows of uneven length, as real tables have. */
enum { NAME_MIN = 16, NAME_SPREAD = 32, NAME_SIZE = NAME_MIN + NAME_SPREAD };
enum { NOTE_MIN = 64, NOTE_SPREAD = 512, TEXT_SIZE = 1 << 16, VALUE_LIMIT = 1000000 };

struct parameter {
	const char *name;
	uint64_t max, value;
	int given;
};

struct row {
	char name[NAME_SIZE];
	const char *note;
	int name_length, note_length;
	int64_t value;
};

struct totals {
	int64_t rows, values, bytes;
};

static void parse(struct parameter *table, size_t size, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		struct parameter *p = table;
		char *end;

		while (p < table + size && strcmp(p->name, argv[i]))
			p++;
		if (p == table + size)
			errx(2, "unknown option '%s'; expected --rows N --seed N", argv[i]);
		errno = 0;
		p->value = argv[i + 1] ? strtoull(argv[i + 1], &end, 10) : 0;
		if (!argv[i + 1] || errno || end == argv[i + 1] || *end || *argv[i + 1] == '-' || p->value > p->max)
			errx(2, "%s: got '%s', expected a whole number up to %" PRIu64, p->name,
			     argv[i + 1] ? argv[i + 1] : "nothing", p->max);
		p->given = 1;
	}
	for (struct parameter *p = table; p < table + size; p++)
		if (!p->given)
			errx(2, "%s is missing; expected --rows N --seed N", p->name);
}

/* The finaliser of SplitMix64: one to one, so distinct rows get distinct names. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Notes are stretches of one text: what matters is their number and length, which SQLite copies. */
static char text[TEXT_SIZE];

static void make_text(uint64_t seed)
{
	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = 'a' + mix(seed + i) % 26;
}

static void make_row(struct row *row, uint64_t seed, uint64_t id)
{
	uint64_t bits = mix(mix(seed) + id * 0x9e3779b97f4a7c15), more = mix(bits);

	snprintf(row->name, NAME_MIN + 1, "%016" PRIx64, bits);
	row->name_length = NAME_MIN + bits % NAME_SPREAD;
	for (int i = NAME_MIN; i < row->name_length; i++)
		row->name[i] = 'a' + (bits >> i) % 26;
	row->note_length = NOTE_MIN + more % NOTE_SPREAD;
	row->note = text + (more >> 16) % (TEXT_SIZE - row->note_length);
	row->value = (more >> 32) % VALUE_LIMIT;
}

static void run(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		errx(1, "SQLite: %s; statement: %s", sqlite3_errmsg(db), sql);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
		errx(1, "SQLite: %s; statement: %s", sqlite3_errmsg(db), sql);
	return statement;
}

static void step(sqlite3_stmt *statement, int expected)
{
	int got = sqlite3_step(statement);

	if (got != expected)
		errx(1, "SQLite: got %s, expected %s; statement: %s", sqlite3_errstr(got), sqlite3_errstr(expected),
		     sqlite3_sql(statement));
}

static void expect(const char *what, int64_t got, int64_t expected)
{
	if (got != expected)
		errx(1, "%s: got %" PRId64 ", expected %" PRId64, what, got, expected);
}

static struct totals insert_rows(sqlite3 *db, uint64_t seed, int64_t rows)
{
	sqlite3_stmt *insert = prepare(db, "INSERT INTO item(id, name, value, note) VALUES (?, ?, ?, ?)");
	struct totals totals = { .rows = rows };
	struct row row;

	for (int64_t id = 0; id < rows; id++) {
		make_row(&row, seed, id);
		sqlite3_bind_int64(insert, 1, id);
		sqlite3_bind_text(insert, 2, row.name, row.name_length, SQLITE_STATIC);
		sqlite3_bind_int64(insert, 3, row.value);
		sqlite3_bind_text(insert, 4, row.note, row.note_length, SQLITE_STATIC);
		step(insert, SQLITE_DONE);
		sqlite3_reset(insert);
		totals.values += row.value;
		totals.bytes += row.name_length + row.note_length;
	}
	sqlite3_finalize(insert);
	return totals;
}

static void check_totals(sqlite3 *db, const struct totals *totals)
{
	sqlite3_stmt *query = prepare(db, "SELECT count(*), sum(value), sum(length(name) + length(note)) FROM item");

	step(query, SQLITE_ROW);
	expect("count of rows", sqlite3_column_int64(query, 0), totals->rows);
	expect("sum of values", sqlite3_column_int64(query, 1), totals->values);
	expect("sum of text lengths", sqlite3_column_int64(query, 2), totals->bytes);
	sqlite3_finalize(query);
}

static int64_t check_lookups(sqlite3 *db, uint64_t seed, int64_t rows)
{
	sqlite3_stmt *query = prepare(db, "SELECT id, value, note FROM item WHERE name = ?");
	int64_t lookups = (rows + 7) / 8;
	struct row row;

	for (int64_t i = 0; i < lookups; i++) {
		int64_t id = mix(seed + i) % rows;

		make_row(&row, seed, id);
		sqlite3_bind_text(query, 1, row.name, row.name_length, SQLITE_STATIC);
		step(query, SQLITE_ROW);
		expect("id found by name", sqlite3_column_int64(query, 0), id);
		expect("value found by name", sqlite3_column_int64(query, 1), row.value);
		if (sqlite3_column_bytes(query, 2) != row.note_length ||
		    memcmp(sqlite3_column_text(query, 2), row.note, row.note_length))
			errx(1, "note of row %" PRId64 ": not the text that was inserted", id);
		sqlite3_reset(query);
	}
	sqlite3_finalize(query);
	return lookups;
}

/* Walks the index from end to end: the names must ascend, and the ids seen on the way make the answer. */
static uint64_t walk_index(sqlite3 *db, int64_t rows)
{
	sqlite3_stmt *query = prepare(db, "SELECT id, name FROM item ORDER BY name");
	char previous[NAME_SIZE] = "";
	uint64_t answer = 0;

	for (int64_t i = 0; i < rows; i++) {
		step(query, SQLITE_ROW);
		const char *name = (const char *)sqlite3_column_text(query, 1);

		if (strcmp(previous, name) >= 0)
			errx(1, "index order: '%s' comes after '%s'", name, previous);
		snprintf(previous, sizeof(previous), "%s", name);
		answer = mix(answer + sqlite3_column_int64(query, 0));
	}
	step(query, SQLITE_DONE);
	sqlite3_finalize(query);
	return answer;
}

int main(int argc, char **argv)
{
	struct parameter arguments[] = { { .name = "--rows", .max = 100000000 },
					 { .name = "--seed", .max = UINT64_MAX } };
	parse(arguments, 2, argc, argv);

	int64_t rows = arguments[0].value;
	uint64_t seed = arguments[1].value;
	sqlite3 *db;

	if (!rows)
		errx(2, "--rows: got 0, expected at least 1");
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		errx(1, "SQLite: %s", sqlite3_errmsg(db));
	make_text(seed);
	run(db, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, value INTEGER NOT NULL, note TEXT)");
	run(db, "CREATE INDEX item_name ON item(name)");
	run(db, "BEGIN");
	struct totals totals = insert_rows(db, seed, rows);
	run(db, "COMMIT");

	check_totals(db, &totals);
	int64_t lookups = check_lookups(db, seed, rows);
	uint64_t answer = walk_index(db, rows);

	printf("rows: %" PRId64 "\nlookups: %" PRId64 "\nanswer: %016" PRIx64 "\n", rows, lookups, answer);
	sqlite3_close(db);
	return 0;
}
