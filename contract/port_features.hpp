// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `port_features`: what the port.toml of this port claims, less what the build switched off.
#pragma once

#include DAPL_PORT_FEATURES // written by gen/port_features.py, one per library
