// SPDX-License-Identifier: MIT
/* A heap and mappings with known contents, for a debugger to keep and to read again. */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BLOCKS = 20000, MAPPINGS = 4 };
static const size_t MAPPING = 3584 * 1024;

uint32_t *blocks[BLOCKS];
uint32_t *mappings[MAPPINGS];
uint64_t sum;

/* The debugger stops here; noinline and a side effect, so that there is a place to stop at. */
__attribute__((noinline)) void filled(void)
{
	__asm__ volatile("" : : : "memory");
}

int main(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(1000);
		if (!blocks[i])
			err(1, "malloc");
		blocks[i][0] = i * 2654435761u;
		blocks[i][249] = i;
		sum += blocks[i][0];
	}
	for (uint32_t i = 0; i < MAPPINGS; i++) {
		mappings[i] = mmap(NULL, MAPPING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mappings[i] == MAP_FAILED)
			err(1, "mmap");
		for (size_t at = 0; at < MAPPING / 4; at += 1024)
			mappings[i][at] = i + 1;
	}
	filled();
	printf("sum: %lu\n", (unsigned long)sum);
	return 0;
}
