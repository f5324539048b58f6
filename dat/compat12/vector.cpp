// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "vector.hpp"

#include "open.hpp"

namespace dat12 {
namespace {

#define DAT12_COUNT(name) +1
static_assert(3 DAT12_SLOTS(DAT12_COUNT) == 70);
static_assert(sizeof(v1::DAT_PROVIDER) == 70 * sizeof(void *));
#undef DAT12_COUNT

/// No program goes through this slot: dat_ia_open() is a call of the registry.
DAT_RETURN open_from_slot(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                          DAT_IA_HANDLE *ia)
{
    return open(name, async_qlen, async_evd, ia, 1, 2, DAT_FALSE);
}

} // namespace

#define DAT12_SLOT(name) dat12_##name,
constinit const v1::DAT_PROVIDER provider_vector = {"libdat", nullptr, open_from_slot,
                                                    DAT12_SLOTS(DAT12_SLOT)};
#undef DAT12_SLOT

} // namespace dat12
