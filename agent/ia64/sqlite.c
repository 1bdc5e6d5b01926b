// SPDX-License-Identifier: MIT
/*
 * The system that SQLite has on the Itanium machine: no files, no clock and no chance. A database in memory asks for
 * none of them; SQLite is not opened without a file system all the same.
 */
#include <string.h>

#include <sqlite3.h>

/* The begin of 1970, in days and fractions of a day as SQLite counts them, and in milliseconds. */
static const double EPOCH_DAYS = 2440587.5;
static const sqlite3_int64 EPOCH_MS = 210866760000000;

enum { PATH_MAX = 512 };

static int open_file(sqlite3_vfs *system, const char *name, sqlite3_file *file, int flags, int *got)
{
	(void)system, (void)name, (void)flags, (void)got;
	file->pMethods = NULL;
	return SQLITE_CANTOPEN;
}

static int delete_file(sqlite3_vfs *system, const char *name, int sync)
{
	(void)system, (void)name, (void)sync;
	return SQLITE_IOERR_DELETE_NOENT;
}

static int access_file(sqlite3_vfs *system, const char *name, int flags, int *may)
{
	(void)system, (void)name, (void)flags;
	*may = 0;
	return SQLITE_OK;
}

static int full_name(sqlite3_vfs *system, const char *name, int size, char *full)
{
	(void)system;
	sqlite3_snprintf(size, full, "%s", name);
	return SQLITE_OK;
}

static int random_bytes(sqlite3_vfs *system, int size, char *bytes)
{
	(void)system;
	memset(bytes, 0, (size_t)size);
	return size;
}

static int no_time_passes(sqlite3_vfs *system, int microseconds)
{
	(void)system;
	return microseconds;
}

static int now_in_days(sqlite3_vfs *system, double *days)
{
	(void)system;
	*days = EPOCH_DAYS;
	return SQLITE_OK;
}

static int now(sqlite3_vfs *system, sqlite3_int64 *milliseconds)
{
	(void)system;
	*milliseconds = EPOCH_MS;
	return SQLITE_OK;
}

static int last_error(sqlite3_vfs *system, int size, char *text)
{
	(void)system, (void)size, (void)text;
	return 0;
}

int sqlite3_os_init(void)
{
	static sqlite3_vfs nothing = {
		.iVersion = 2,
		.szOsFile = sizeof(sqlite3_file),
		.mxPathname = PATH_MAX,
		.zName = "nothing",
		.xOpen = open_file,
		.xDelete = delete_file,
		.xAccess = access_file,
		.xFullPathname = full_name,
		.xRandomness = random_bytes,
		.xSleep = no_time_passes,
		.xCurrentTime = now_in_days,
		.xGetLastError = last_error,
		.xCurrentTimeInt64 = now,
	};

	return sqlite3_vfs_register(&nothing, 1);
}

int sqlite3_os_end(void)
{
	return SQLITE_OK;
}
