// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>

namespace program {

/// Base of global objects that a process finds by the name that another has told it.
template <class Kind>
class named {
public:
    const char *const name;

    /// Returns null if there is none of this name.
    static const Kind *find(std::string_view wanted)
    {
        const named *found = last_;
        while (found != nullptr && wanted != found->name)
            found = found->before_;
        return static_cast<const Kind *>(found);
    }

protected:
    explicit named(const char *given) : name(given), before_(last_) { last_ = this; }

private:
    const named *const before_;
    static inline const named *last_ = nullptr;
};

} // namespace program
