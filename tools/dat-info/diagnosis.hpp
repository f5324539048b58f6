// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Derives the state of an adapter, the reason and a remedy from the report and the end of its
// child.
#pragma once

#include "adapter.hpp"
#include "child.hpp"

namespace dat_info {

/// Fills in the verdict on an adapter. `common_output` are lines that every child writes, about
/// dat.conf.
void judge(adapter &found, child_end end, const std::vector<std::string> &common_output,
           double seconds);

/// Remarks on adapters that open, but that an ordinary program does not find.
void remark_on_safety(std::vector<adapter> &all);
/// Says of each that opens on an RDMA device how much memory may be locked, if there is a limit.
void remark_on_memory(std::vector<adapter> &all);

/// Why there is no adapter `name`, in lines.
std::vector<std::string> explain_unknown(const std::string &name, const registry_file &file,
                                         const std::vector<adapter> &known);

/// Why there is none at all.
std::vector<std::string> explain_empty(const registry_file &file, bool is_ours);

} // namespace dat_info
