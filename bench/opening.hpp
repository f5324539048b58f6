// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The time that the first dat_ia_open of a program takes, beside what the transport itself takes.
#pragma once

#include <string>
#include <vector>

namespace bench {

struct opening {
    std::string name;  ///< an adapter, or what the transport does
    double us;         ///< median over processes, each of which did it once
    double ratio = 0;  ///< part of the time that the transport takes itself; 0: not known
    bool self = false; ///< the transport itself
};

/// Opens an adapter, its transport, and soft-lo where dat.conf has it, each in a process of its
/// own, in turn, for so many seconds.
std::vector<opening> measure_openings(const std::string &adapter, double duration_s,
                                      double limit_s);

} // namespace bench
