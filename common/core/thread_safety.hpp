// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The two promises of a consumer about threads, chosen by the line of dat.conf that opened the
// adapter, and the locks that each needs.
#pragma once

#include "dapls_ib.hpp"

namespace dapl::DAPL_TRANSPORT::core {

struct one_thread_per_object {
    static constexpr bool locks = false;
};
struct any_thread {
    static constexpr bool locks = true;
};

/// Keeps other posts out, on an adapter whose consumer did not promise to do so.
template <class Safety>
class post_guard {
public:
    explicit post_guard(osd::mutex &m) OSD_UNCHECKED : mutex_(m)
    {
        if constexpr (Safety::locks)
            mutex_.lock();
    }
    post_guard(const post_guard &) = delete;
    post_guard &operator=(const post_guard &) = delete;
    ~post_guard() OSD_UNCHECKED
    {
        if constexpr (Safety::locks)
            mutex_.unlock();
    }

private:
    osd::mutex &mutex_;
};

} // namespace dapl::DAPL_TRANSPORT::core
