/* SPDX-License-Identifier: MIT */
/* What the experiments of fragmentation share: files that fill memory, and a program that wants hugepages then. */
#ifndef FILLED_H
#define FILLED_H

/* The files of a Debian system, whose root is /dev/vdb. */
void mount_files(void);
void unmount_files(void);
/* Reads so many bytes of them, from the first on, and pauses so long after each 256 KiB; the KiB that the disk gave. */
long read_files(long bytes, long pause_us);
/* As much as there is memory. */
long fill_memory(void);

/*
 * A process of its own wants 60 hugepages, four times, and keeps them for a minute: how many it gets at once, and how
 * many it has then. A minute takes a moment: the clock of a machine that has nothing to do goes on at once.
 */
void want_hugepages(void);

#endif
