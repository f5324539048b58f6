// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lines for devices of this machine of which dat.conf has none, made after its lines for others.
#pragma once

#include "registry_file.hpp"

#include <string>
#include <vector>

namespace dat_info {

struct suggestion {
    std::string line;
    std::string device;
    std::string like; ///< the adapter whose line it was made after
};

struct suggestions {
    std::vector<suggestion> lines;
    std::vector<std::string> left_out; ///< "eth1 is down" ...
    bool has_examples = false;         ///< the file has lines to go by
};

/// A line is an example where its name ends in a dash and the name of a device, and its parameters
/// hold that name as a word: soft-lo with "lo", verbs-mlx5_0 with "mlx5_0 1".
suggestions suggest(const registry_file &file);

/// Prints lines that can be appended to dat.conf, and the rest as comments.
void print_suggestions(const suggestions &found, const registry_file &file);
void print_suggestions_json(const suggestions &found, const registry_file &file);

} // namespace dat_info
