/* SPDX-License-Identifier: MIT */
/* /proc/self/maps against the model. */
#ifndef MAPS_H
#define MAPS_H

void mark_foreign(void); /* everything that is mapped now belongs to somebody else */
void check_maps(void);   /* the kernel has mapped what the model has, with its protections, and no more than it may */
void print_maps(void);

#endif
