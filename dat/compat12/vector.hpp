// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of DAT 1.2 that libdat exports. Its symbols lead to these functions, and so does the
// vector that the redirection macros of programs go through.
#pragma once

#include "dat12_types.hpp"
#include "osd_annotations.hpp"

#include <type_traits>

// Each has the type of its slot and the symbol of its call. In C++ it has a name of its own,
// because dat2/ declares a function of the symbol's name with other types.
#define DAT12_DECLARE(name)                                                                        \
    extern "C" OSD_EXPORT std::remove_pointer_t<decltype(v1::DAT_PROVIDER::name##_func)>           \
        dat12_##name __asm__("dat_" #name);
DAT12_SLOTS(DAT12_DECLARE)
#undef DAT12_DECLARE

namespace dat12 {

extern const v1::DAT_PROVIDER provider_vector;

} // namespace dat12
