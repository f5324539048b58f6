// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_claim.hpp"

#include "dapl_debug.hpp"
#include "dapl_line_limit.hpp"
#include "osd_time.hpp"

#include <cstdio>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

mrdb database{mrdb::file_of_all, mrdb::places_of_all};

line_limit refusals;

/// A program may try again and again.
void tell_refusal(const char *adapter, const char *why)
{
    std::uint32_t left_out = 0;
    if (shows(DAPL_DBG_TYPE_ERR) && refusals.allows(osd::now_ns(), left_out))
        debug_line("%s: no shared memory can be registered: %s; %u such lines were left out before",
                   adapter, why, left_out);
}

void tell_no_record(const char *adapter)
{
    char full[128];
    std::snprintf(full, sizeof full,
                  "the database is full, with %u regions in processes of the user",
                  database.places());
    tell_refusal(adapter, database.is_whole() ? full
                                              : "a process of the user has cut off the file of the "
                                                "database in /dev/shm");
}

} // namespace

status shared_claim::take(const char *adapter, const char (&cookie)[DAT_LMR_COOKIE_SIZE],
                          DAT_VLEN length)
{
    if (const char *wrong = database.init(); wrong != nullptr) {
        tell_refusal(adapter, wrong);
        return status::error(DAT_INSUFFICIENT_RESOURCES);
    }
    const shared_name name(cookie, adapter);
    const status inserted = database.insert(name, length, record_);
    if (inserted.ok()) {
        std::memcpy(cookie_, cookie, sizeof cookie_);
        return success;
    }
    if (inserted == status::error(DAT_LENGTH_ERROR)) {
        const mrdb::sharing others = database.query(name);
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "%s: shared memory of %llu bytes is refused: its cookie names regions of %llu "
                 "bytes, %u of them",
                 adapter, static_cast<unsigned long long>(length),
                 static_cast<unsigned long long>(others.length), others.owners);
    } else
        tell_no_record(adapter);
    database.exit();
    return inserted;
}

void shared_claim::registered()
{
    if (record_.state != 0)
        database.update(record_);
}

shared_claim::~shared_claim()
{
    if (record_.state == 0)
        return;
    database.dec(record_);
    database.exit();
}

} // namespace dapl::DAPL_TRANSPORT::core
