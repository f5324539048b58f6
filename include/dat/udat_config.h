/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file udat_config.h
 * The build-time choices of a uDAPL consumer: the API version it is written
 * for, and the thread-safety class it asks for.
 *
 * The three values travel in dat_ia_open(): the registry looks for an adapter
 * entry of exactly this version and this thread-safety class.
 */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

/** The DAT version that these headers describe: 1.2. */
#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/**
 * The thread-safety class that dat_ia_open() asks for.
 *
 * DAT_FALSE (the default) finds the `nonthreadsafe` entries of dat.conf: the
 * consumer promises not to use one object from two threads at once. A program
 * that wants the other class defines the macro as DAT_TRUE, before the first
 * DAT header or on the compiler's command line, and finds the `threadsafe`
 * entries.
 *
 * The reference headers overrule such a definition; these honour it, as the
 * DAT specification describes.
 */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

#endif /* _UDAT_CONFIG_H_ */
