// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "mrdb.hpp"

#include <cstring>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

/// What a region of shared memory has in the database. The database is opened for the first of them
/// in the process and closed with the last.
class shared_claim {
public:
    shared_claim() = default;
    shared_claim(shared_claim &&other) noexcept : record_(std::exchange(other.record_, {}))
    {
        std::memcpy(cookie_, other.cookie_, sizeof cookie_);
    }
    shared_claim &operator=(shared_claim &&) = delete;
    ~shared_claim();

    /// Enters the region in the database; called once.
    status take(const char *adapter, const char (&cookie)[DAT_LMR_COOKIE_SIZE], DAT_VLEN length);
    void registered();
    /// A copy: the consumer's may be gone.
    DAT_LMR_COOKIE cookie() const { return const_cast<DAT_LMR_COOKIE>(&cookie_); }

private:
    mrdb::ticket record_;
    char cookie_[DAT_LMR_COOKIE_SIZE] = {};
};

} // namespace dapl::DAPL_TRANSPORT::core
