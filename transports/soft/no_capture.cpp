// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture.hpp"

namespace dapl::soft {

std::unique_ptr<soft_hca::packet_observer> open_capture()
{
    return nullptr;
}

} // namespace dapl::soft
