// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where the socket address types are.
#pragma once

#include <winsock2.h>
#include <ws2tcpip.h>
