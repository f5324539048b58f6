// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Includes the headers of the socket address types, and of their texts.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
