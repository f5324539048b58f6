/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A consumer of DAT 2.0 in this process: a library of its own, linked with libdat2. */
#ifndef DAT12_DAT2_SIDE_H
#define DAT12_DAT2_SIDE_H

/* Opens the adapter, and makes one object of each kind below. Null if that fails. */
void *dat2_adapter(const char *name);
void *dat2_zone(void);
void *dat2_queue(void);
void *dat2_endpoint(void);
/* Whether all objects were still there. */
int dat2_close(void);

/* Calls of DAT 2.0 with this handle: the first that answers anything but DAT_INVALID_HANDLE, or null. */
const char *dat2_accepts(void *handle);

#endif /* DAT12_DAT2_SIDE_H */
