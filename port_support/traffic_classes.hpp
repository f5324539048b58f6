// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The traffic classes that stand for the qualities of service of DAT on an IP network.
#pragma once

#include <dat2/udat.h>

#include <cstdint>
#include <initializer_list>

namespace dapl::port_support {

/// For each quality the byte of the IP header, of which the lowest two bits belong to ECN. The
/// defaults are the recommendations of RFC 4594 and RFC 8622; networks have their own, so
/// parameters change them. The parameters of a port derive from this struct.
struct traffic_classes {
    std::uint32_t high_throughput = 0x28; ///< AF11
    std::uint32_t low_latency = 0x48;     ///< AF21
    std::uint32_t economy = 0x04;         ///< LE
    std::uint32_t premium = 0xb8;         ///< EF

    /// The class of a quality other than best effort.
    std::uint32_t class_of(DAT_QOS quality) const
    {
        return quality == DAT_QOS_HIGH_THROUGHPUT ? high_throughput
               : quality == DAT_QOS_LOW_LATENCY   ? low_latency
               : quality == DAT_QOS_ECONOMY       ? economy
                                                  : premium;
    }
    /// A quality that has this class; best effort if there is none.
    DAT_QOS quality_of(std::uint32_t tos) const
    {
        for (DAT_QOS each :
             {DAT_QOS_HIGH_THROUGHPUT, DAT_QOS_LOW_LATENCY, DAT_QOS_ECONOMY, DAT_QOS_PREMIUM})
            if (tos != 0 && (class_of(each) & 0xfc) == (tos & 0xfc))
                return each;
        return DAT_QOS_BEST_EFFORT;
    }
    /// All but best effort, as bits.
    static constexpr auto all_qualities = static_cast<DAT_QOS>(
        DAT_QOS_HIGH_THROUGHPUT | DAT_QOS_LOW_LATENCY | DAT_QOS_ECONOMY | DAT_QOS_PREMIUM);
};

} // namespace dapl::port_support
