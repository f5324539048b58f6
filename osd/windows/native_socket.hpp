// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Includes the headers of the socket address types, and of their texts.
#pragma once

#include <winsock2.h>
#include <ws2tcpip.h>
