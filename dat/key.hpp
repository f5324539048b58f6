// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The key by which an adapter is found: name, version and thread safety, all three.
#pragma once

#include <cstring>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace dat {

/// Makes the key of a request. False when `name` does not fit a DAT_PROVIDER_INFO.
inline bool make_key(const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                     DAT_BOOLEAN is_thread_safe, DAT_PROVIDER_INFO &key)
{
    const std::size_t length = name != nullptr ? strnlen(name, sizeof key.ia_name) : 0;
    if (name == nullptr || length == sizeof key.ia_name)
        return false;
    std::memcpy(key.ia_name, name, length + 1);
    key.dapl_version_major = major;
    key.dapl_version_minor = minor;
    key.is_thread_safe = is_thread_safe;
    return true;
}

inline bool same_name(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b)
{
    return std::strncmp(a.ia_name, b.ia_name, sizeof a.ia_name) == 0;
}

inline bool same_safety(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b)
{
    return (a.is_thread_safe != DAT_FALSE) == (b.is_thread_safe != DAT_FALSE);
}

inline bool same_key(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b)
{
    return a.dapl_version_major == b.dapl_version_major &&
           a.dapl_version_minor == b.dapl_version_minor && same_safety(a, b) && same_name(a, b);
}

} // namespace dat
