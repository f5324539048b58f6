// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What became of a segment, and how a connection fails.
#pragma once

#include "interface/request.hpp"
#include "memory_table.hpp"
#include "wire/wire.hpp"

namespace soft_hca {

struct segment_result {
    enum class kind : std::uint8_t {
        taken,
        not_ready,   ///< no receive is posted for it
        not_fetched, ///< its payload could not be copied out of the peer's memory
        fatal,       ///< the peer broke a rule, or a receive failed
    };
    kind outcome = kind::taken;
    fault why = fault::none; ///< fault of a fatal result

    static segment_result not_ready() { return {kind::not_ready, fault::none}; }
    static segment_result not_fetched() { return {kind::not_fetched, fault::none}; }
    static segment_result fatal(fault why) { return {kind::fatal, why}; }
};

inline fault fault_of(access_fault what)
{
    switch (what) {
    case access_fault::other_domain:
        return fault::wrong_stream;
    case access_fault::no_right:
        return fault::access_rights;
    case access_fault::out_of_bounds:
        return fault::base_or_bounds;
    case access_fault::wraps:
        return fault::wrap;
    default:
        return fault::invalid_stag;
    }
}

/// Why this side ends a connection: the close that is sent, and the request that fails.
struct pair_failure {
    close_info closing;
    request *culprit = nullptr; ///< request that failed, if any
    work_status status = work_status::flushed;

    static pair_failure terminate(fault why, std::uint32_t psn, request *culprit = nullptr,
                                  work_status status = work_status::flushed)
    {
        return {{close_code::terminate, why, psn}, culprit, status};
    }
};

} // namespace soft_hca
