// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reports/markup.hpp"

#include "program/json.hpp"

namespace conformance {

std::string escaped(const std::string &text)
{
    using program::json;
    const std::string valid =
        json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
    std::string safe;
    for (const char c : valid) {
        switch (c) {
        case '&':
            safe += "&amp;";
            break;
        case '<':
            safe += "&lt;";
            break;
        case '>':
            safe += "&gt;";
            break;
        case '"':
            safe += "&quot;";
            break;
        default:
            safe += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
        }
    }
    return safe;
}

} // namespace conformance
