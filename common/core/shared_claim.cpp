// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_claim.hpp"

#include "dapl_debug.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// The number at its end is of the layout: databases of another one have another name.
mrdb database{"dapl-mrdb-1", 4096};

} // namespace

status shared_claim::take(const char *adapter, const char (&cookie)[DAT_LMR_COOKIE_SIZE],
                          DAT_VLEN length)
{
    if (const char *wrong = database.init(); wrong != nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no shared memory can be registered: %s", adapter, wrong);
        return status::error(DAT_INSUFFICIENT_RESOURCES);
    }
    const shared_name name(cookie, adapter);
    const status inserted = database.insert(name, length, record_);
    if (inserted.ok()) {
        std::memcpy(cookie_, cookie, sizeof cookie_);
        return success;
    }
    const mrdb::sharing others = database.query(name);
    dapl_log(DAPL_DBG_TYPE_ERR,
             "%s: %llu bytes of shared memory: the cookie is that of %llu bytes in %u regions",
             adapter, static_cast<unsigned long long>(length),
             static_cast<unsigned long long>(others.length), others.owners);
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
