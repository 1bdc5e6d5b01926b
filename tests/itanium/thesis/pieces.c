// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(pieces)
{
	enum { BYTES = 384 << 20, PIECE = 4 << 20, MORE = 64 << 20 };
	int well = 1;

	for (; rounds; rounds--) {
		char *all = reserve(BYTES), *more;

		touch(all, BYTES);
		for (word at = 0; at < BYTES; at += 2 * PIECE)
			well &= !call((long)all + at, PIECE, 0, 0, 0, 0, MUNMAP);
		more = reserve(MORE);
		touch(more, MORE);
		for (word at = PIECE; at < BYTES; at += 2 * PIECE)
			well &= all[at] == 1 && all[at + PIECE - PAGE] == 1;
		for (word at = 0; at < MORE; at += PAGE)
			well &= more[at] == 1 && !more[at + 1];
		well &= !call((long)all, BYTES, 0, 0, 0, 0, MUNMAP);
		well &= !call((long)more, MORE, 0, 0, 0, 0, MUNMAP);
	}
	return well;
}
