// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connect_attempt.hpp"

#include "deadline_list.hpp"
#include "osd_address.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace dapl::DAPL_TRANSPORT {

connect_attempt::connect_attempt(const connect_params &params, std::uint32_t retry_ms)
    : qualifier_(params.qualifier), size_(std::min(params.data.size, sizeof(bytes_)))
{
    std::memcpy(&peer_, params.address, osd::address::size_of(params.address));
    port_support::set_port(peer(), port_support::port_of(qualifier_));
    const std::uint64_t patience_us =
        std::min<std::uint64_t>(params.timeout_us, std::uint64_t{retry_ms} * 1000);
    give_up_ns_ = osd::now_ns() + static_cast<std::int64_t>(patience_us) * 1000;
    if (size_ != 0)
        std::memcpy(bytes_, params.data.bytes, size_);
}

status connect_attempt::make(const connect_params &params, const limits &most,
                             std::unique_ptr<connect_attempt> &made)
{
    if (params.address->sa_family != most.family)
        return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    if (port_support::port_of(params.qualifier) == 0)
        return invalid_parameter(3);
    if (params.data.size > most.data_size)
        return invalid_parameter(5);
    made.reset(new (std::nothrow) connect_attempt(params, most.retry_ms));
    return made != nullptr ? success : out_of_memory;
}

std::int64_t connect_attempt::next_try()
{
    const std::int64_t next = ns_from_now(delay_ms_);
    if (next > give_up_ns_)
        return never;
    delay_ms_ = std::min(2 * delay_ms_, longest_delay_ms);
    return next;
}

std::int64_t connect_attempt::next_try_later()
{
    const std::int64_t next = ns_from_now(delay_ms_);
    delay_ms_ = std::min(2 * delay_ms_, longest_put_off_ms);
    return next;
}

} // namespace dapl::DAPL_TRANSPORT
