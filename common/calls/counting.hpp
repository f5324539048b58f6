// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counting, for dat_ib_query_counters. Hot calls are counted by wrappers, which are in the vector
// only if DAPL_COUNTERS asks for it: a consumer that does not count pays nothing.
#pragma once

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

#include <cstdarg>

namespace dapl::DAPL_TRANSPORT::core {

class endpoint;

/// Reads DAPL_COUNTERS; before the first adapter.
void counters_init();
/// Whether that asks for counters.
bool counting();
/// Puts calls that count into the vector of a provider.
template <class Safety>
void count_calls(DAT_PROVIDER &vector);

/// Where counting() is, the age of what was just posted counts from now. Counted calls do this by
/// themselves.
void note_time_of_post(endpoint &);

/// dat_ib_query_counters and dat_ib_print_counters, without their first two arguments.
DAT_RETURN query_counters(DAT_HANDLE handle, va_list &from);
DAT_RETURN print_counters(DAT_HANDLE handle, va_list &from);
/// dat_ib_start_counter, or dat_ib_stop_counter where `wanted` is false, likewise.
DAT_RETURN sample_counters(DAT_HANDLE handle, bool wanted, va_list &from);

} // namespace dapl::DAPL_TRANSPORT::core
