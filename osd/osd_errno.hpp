// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Includes <cerrno>, and has the error numbers of networks and keys that a system's own lacks.
#pragma once

#include "native_errno.hpp"
