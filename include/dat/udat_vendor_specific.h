/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file udat_vendor_specific.h
 * The place the DAT specification reserves for definitions of single vendors
 * in user-level DAT. There are none; see dat_vendor_specific.h.
 */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

#include <dat/dat_vendor_specific.h>

#endif /* _UDAT_VENDOR_SPECIFIC_H_ */
