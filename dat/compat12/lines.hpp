// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The lines of dat.conf that are for DAT 1.2. docs/man/dat.conf.5.md has the rules for users.
#pragma once

#include "config.hpp"
#include "osd_annotations.hpp"
#include "osd_sync.hpp"

namespace dat12 {

/// The lines of dat.conf for one key.
class lines {
public:
    /// The first line of exactly this key that libdat serves, or the next one behind `previous`.
    const dat::config_entry *find(const DAT_PROVIDER_INFO &key, const dat::config_entry *previous)
        OSD_EXCLUDES(lock_);
    /// Explains why find() fails: a code of DAT 1.2, and for the user a line of the log.
    DAT_RETURN explain(const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(lock_);
    DAT_RETURN list(DAT_COUNT max, DAT_COUNT &count, DAT_PROVIDER_INFO **list) OSD_EXCLUDES(lock_);

private:
    void read() OSD_REQUIRES(lock_);
    const dat::config_entry *next(const dat::config_entry *from, const DAT_PROVIDER_INFO &key)
        OSD_REQUIRES(lock_);
    template <typename Visit>
    void each_adapter(Visit visit) OSD_REQUIRES(lock_);

    osd::mutex lock_;
    dat::config config_ OSD_GUARDED_BY(lock_);
    bool is_read_ OSD_GUARDED_BY(lock_) = false;
};

lines &the_lines();

/// The DAT 2.0 adapter that a line stands for.
const char *two_name(const dat::config_entry &line);

} // namespace dat12
