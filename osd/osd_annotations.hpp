// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Annotations of functions and data beyond the language: locks, visibility, inlining.
#pragma once

#include "native_annotations.hpp"

// Annotations for clang's thread-safety analysis (-Wthread-safety); empty for other compilers.

#if defined(__clang__)
#define OSD_ATTRIBUTE(x) __attribute__((x))
#else
#define OSD_ATTRIBUTE(x)
#endif

#define OSD_CAPABILITY(name) OSD_ATTRIBUTE(capability(name))
#define OSD_SCOPED_CAPABILITY OSD_ATTRIBUTE(scoped_lockable)
#define OSD_GUARDED_BY(lock) OSD_ATTRIBUTE(guarded_by(lock))
#define OSD_REQUIRES(...) OSD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define OSD_EXCLUDES(...) OSD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define OSD_ACQUIRE(...) OSD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define OSD_RELEASE(...) OSD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define OSD_TRY_ACQUIRE(...) OSD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define OSD_UNCHECKED OSD_ATTRIBUTE(no_thread_safety_analysis)

/// Inlines a function of the hot path regardless of the compiler's cost estimate.
#define OSD_ALWAYS_INLINE inline __attribute__((always_inline))
#define OSD_COLD __attribute__((noinline, cold))
/// Prevents if-conversion: keeps well-predicted branches as branches (an empty asm barrier).
#define OSD_BRANCHES_APART __asm__ volatile("")
/// Hides the value of a variable from the optimizer, like OPTIMIZER_HIDE_VAR in Linux.
#define OSD_OPAQUE(variable) __asm__("" : "+r"(variable))
/// Keeps a function that is not cold out of line, so that its callers stay small.
#define OSD_NOINLINE __attribute__((noinline))
