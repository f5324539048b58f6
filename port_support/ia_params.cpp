// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ia_params.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace dapl::DAPL_TRANSPORT {

status ia_params::refuse(const char *why) const
{
    dapl_log(DAPL_DBG_TYPE_ERR, "ia_params \"%s\": %s; wanted: %s", text_, why, grammar_);
    return status::error(DAT_INVALID_PARAMETER);
}

bool ia_params::is_of(const char *word, const char *key)
{
    const std::size_t length = std::strlen(key);
    return std::strncmp(word, key, length) == 0 && (word[length] == '=' || word[length] == '\0');
}

/// Returns how much of the list is used then.
std::size_t ia_params::append(char *list, std::size_t size, std::size_t used, const char *key)
{
    const int more = std::snprintf(list + used, size - used, "%s%s", used == 0 ? "" : ", ", key);
    return std::min(used + static_cast<std::size_t>(more), size - 1);
}

status ia_params::refuse_value(const char *word, std::uint32_t least, std::uint32_t most) const
{
    const auto key = static_cast<int>(std::strcspn(word, "="));
    dapl_log(DAPL_DBG_TYPE_ERR, "ia_params \"%s\": \"%s\": %.*s is a number from %u to %u", text_,
             word, key, word, least, most);
    return status::error(DAT_INVALID_PARAMETER);
}

status ia_params::refuse_unknown(const char *word, const char *known) const
{
    dapl_log(DAPL_DBG_TYPE_ERR, "ia_params \"%s\": there is no option \"%s\"; there are %s", text_,
             word, known);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace dapl::DAPL_TRANSPORT
