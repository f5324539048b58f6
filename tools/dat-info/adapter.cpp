// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "adapter.hpp"

namespace dat_info {

const char *name_of(state is)
{
    switch (is) {
    case state::opens:
        return "opens";
    case state::refused:
        return "does not open";
    case state::crashed:
        return "crashes";
    case state::ended:
        return "ends the program";
    case state::hangs:
        return "hangs";
    case state::not_ours:
        return "of another DAT version";
    }
    return "";
}

std::string adapter::attribute_of(const std::string &section, const std::string &wanted) const
{
    for (const attribute &each : attributes)
        if (each.section == section && each.name == wanted)
            return each.value;
    return "";
}

const char *safety_of(bool thread_safe)
{
    return thread_safe ? "threadsafe" : "nonthreadsafe";
}

} // namespace dat_info
