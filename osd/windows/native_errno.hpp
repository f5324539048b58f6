// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Gives names to error numbers that Microsoft's <errno.h> has none for: Winsock's numbers, and for
// the one that no part of Windows has, a number beyond them.
#pragma once

#include <cerrno>

#define ESHUTDOWN 10058
#define EHOSTDOWN 10064
#define EKEYREJECTED 11999
