/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_vendor_specific.h
 * The place the DAT specification reserves for definitions of single vendors
 * that are common to user-level and kernel-level DAT. There are none: what an
 * adapter can do beyond the standard is announced at run time, by the named
 * attributes of dat_ia_query().
 */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif /* _DAT_VENDOR_SPECIFIC_H_ */
