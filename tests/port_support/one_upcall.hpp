// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A common layer of one upcall.
#pragma once

#include "dapls_ib.hpp"

#include <atomic>
#include <string>

namespace dapl::DAPL_TRANSPORT::core {

class endpoint {
public:
    std::atomic<int> events{0};
    std::atomic<int> last{0};
    std::string data;
    std::atomic<bool> hold{false};
    std::atomic<bool> inside{false};
};

} // namespace dapl::DAPL_TRANSPORT::core
