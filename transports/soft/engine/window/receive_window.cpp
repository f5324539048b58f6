// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "receive_window.hpp"

#include <algorithm>

namespace soft_hca {

std::uint32_t receive_window::describe(std::uint32_t *words, std::uint32_t max_words) const
{
    std::fill_n(words, max_words, 0u);
    return holds_any() ? budget_->describe(*kept_, next_, words, max_words) : 0;
}

} // namespace soft_hca
