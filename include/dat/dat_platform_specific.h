/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_platform_specific.h
 * What differs by operating system: the widths of the basic types, socket
 * addresses, calling convention.
 *
 * | name                 | meaning                                          |
 * |----------------------|--------------------------------------------------|
 * | DAT_UINT32, _UINT64  | unsigned integers of that width, host byte order |
 * | DAT_UVERYLONG        | the widest unsigned integer of the compiler      |
 * | DAT_PVOID            | an address in this process                       |
 * | DAT_COUNT            | a number of things; signed, negative is invalid  |
 * | DAT_PADDR            | a physical address                               |
 * | DAT_SOCK_ADDR, _ADDR6| the system's `struct sockaddr`, `sockaddr_in6`   |
 * | DAT_API              | calling convention of every DAT call             |
 * | DAT_EXPORT           | linkage of what a provider library exports       |
 * | IN, OUT, INOUT       | nothing; they mark a parameter's direction       |
 */
#ifndef _DAT_PLATFORM_SPECIFIC_H_
#define _DAT_PLATFORM_SPECIFIC_H_

#if defined(_WIN32) || defined(_WIN64) || defined(_MSC_VER)

/* ---- Windows ---------------------------------------------------------- */

#include <stdint.h>
#include <winsock2.h>
#include <ws2tcpip.h>

typedef unsigned __int32 DAT_UINT32;
typedef unsigned __int64 DAT_UINT64;
typedef unsigned long    DAT_UVERYLONG;

#define DAT_API __stdcall
#if defined(EXPORT_DAT_SYMBOLS)
#define DAT_EXPORT __declspec(dllexport)
#else
#define DAT_EXPORT __declspec(dllimport)
#endif

#ifndef __inline__
#define __inline__ __inline
#endif
#ifndef INLINE
#define INLINE __inline
#endif

#else

/* ---- Linux and other Unix systems -------------------------------------- */

#include <sys/types.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

typedef u_int32_t          DAT_UINT32;
typedef u_int64_t          DAT_UINT64;
#if defined(__GNUC__) /* C89 and C++98 do not have the type, but compilers do */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif
typedef unsigned long long DAT_UVERYLONG;
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define DAT_API
#define DAT_EXPORT extern

/* Left to <stdint.h> where a source includes that one first. */
#ifndef UINT64_C
#if defined(__LP64__)
#define UINT64_C(c) c ## UL
#else
#define UINT64_C(c) c ## ULL
#endif
#endif

#endif

/* ---- The same on every system ------------------------------------------ */

typedef void *     DAT_PVOID;
typedef int        DAT_COUNT;
typedef DAT_UINT64 DAT_PADDR;

/**
 * Addresses of adapters are socket addresses. The owner of the storage fills
 * in at least the family and the address, in network byte order; a
 * receiver of an address checks the family first. `DAT_SOCK_ADDR6` is
 * complete only where the source includes the system's header for IPv6.
 */
typedef struct sockaddr     DAT_SOCK_ADDR;
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;

#define DAT_AF_INET  AF_INET
#define DAT_AF_INET6 AF_INET6

/** Buffers aligned to this many bytes move fastest. */
#ifndef DAT_OPTIMAL_ALIGNMENT
#define DAT_OPTIMAL_ALIGNMENT 256
#endif

#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef INOUT
#define INOUT
#endif

#endif /* _DAT_PLATFORM_SPECIFIC_H_ */
