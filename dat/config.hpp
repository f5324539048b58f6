// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finds the dat.conf that is in use, and evaluates its lines.
#pragma once

#include "config_reader.hpp"

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace dat {

/// Why a well-formed line is not for this library.
enum class verdict { usable, for_the_kernel, not_default };

/// One line of dat.conf and the library it has loaded. Lines are kept until the registry is
/// destroyed, in the order of the file.
struct config_entry {
    config_entry *next;
    DAT_PROVIDER_INFO key;
    const char *library_path;
    const char *ia_params;
    unsigned line;
    verdict use;

    // Guarded by the registry's transition lock.
    enum class stage { unloaded, changing, loaded } loaded_stage;
    void *library;
    void (*fini)(const DAT_PROVIDER_INFO *);
    DAT_HANDLE_EXTENDEDOP_FUNC extensions;
    unsigned references;
};

struct config {
    config_entry *first = nullptr;
    char *text = nullptr; ///< what the entries' strings point into
    char path[512] = "";  ///< empty when there is no file
};

/// Finds the file, reads it and reports mistakes in it. False when there is none to read.
bool load(config &loaded);
void unload(config &loaded);

} // namespace dat
