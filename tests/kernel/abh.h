/* SPDX-License-Identifier: MIT */
/* Of the patched linux/prctl.h: a program's choice, for those that it runs. */
#ifndef ABH_H
#define ABH_H

#ifndef PR_SET_ABH
#define PR_SET_ABH 0x41424800
#define PR_ABH_DEFAULT 0
#define PR_ABH_ON 1
#define PR_ABH_OFF 2
#define PR_GET_ABH 0x41424801
#endif

#endif
