// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An adapter of the registry and the facts found out about it.
#pragma once

#include "registry_file.hpp"

#include <string>
#include <vector>

namespace dat_info {

struct attribute {
    std::string section; ///< "adapter", "provider", "endpoint", or "... named"
    std::string name;    ///< name of the member of the DAT structure
    std::string value;
    std::string kind; ///< "text", "number", "bytes", "address" or "yes/no"
};

enum class state {
    opens,
    refused, ///< a call says no
    crashed, ///< the process died
    ended,   ///< the process was ended
    hangs,
    not_ours, ///< adapter for programs of another DAT version
};

/// "opens", "does not open" ...
const char *name_of(state is);

struct adapter {
    std::string name;
    unsigned api_major, api_minor;
    bool thread_safe;
    std::vector<const line *> lines; ///< lines of dat.conf that offer it

    state is = state::refused;
    std::string step;                 ///< the last call that was begun
    std::string code;                 ///< that it answered, by name
    std::string code_why;             ///< what that means here
    std::vector<std::string> loading; ///< what the loader says of its libraries
    std::vector<attribute> attributes;
    std::string remark;              ///< why a part of the attributes is missing
    std::vector<std::string> output; ///< lines that libdat2 and the provider wrote
    std::string reason;
    std::string advice;

    std::string attribute_of(const std::string &section, const std::string &name) const;
};

const char *safety_of(bool thread_safe);

} // namespace dat_info
