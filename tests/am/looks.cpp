// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counts the looks of the library into EVDs: this program's dat_evd_dequeue() comes before
// libdat2's.
#include "looks.hpp"

#include <dat2/udat.h>
#include <dlfcn.h>

namespace {

thread_local std::uint64_t in_vain = 0;

} // namespace

extern "C" DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
    static const auto next =
        reinterpret_cast<decltype(&dat_evd_dequeue)>(dlsym(RTLD_NEXT, "dat_evd_dequeue"));
    const DAT_RETURN code = next(evd, event);
    in_vain = code == DAT_SUCCESS ? 0 : in_vain + 1;
    return code;
}

std::uint64_t ranks::looks_in_vain()
{
    return in_vain;
}
