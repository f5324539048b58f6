// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Just enough JSON to write results: objects and lists, in the order they are filled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace program {

class json_object {
public:
    json_object &set(std::string_view key, double value);
    json_object &set(std::string_view key, bool value);
    json_object &set(std::string_view key, std::uint64_t value);
    json_object &set(std::string_view key, std::int64_t value);
    json_object &set(std::string_view key, int value) { return set(key, std::int64_t{value}); }
    json_object &set(std::string_view key, std::uint32_t value)
    {
        return set(key, std::uint64_t{value});
    }
    json_object &set(std::string_view key, std::string_view value);
    json_object &set(std::string_view key, const char *value)
    {
        return set(key, std::string_view(value));
    }
    json_object &set(std::string_view key, const json_object &value);
    json_object &set(std::string_view key, const std::vector<json_object> &values);
    json_object &set(std::string_view key, const std::vector<std::string> &values);
    json_object &set_null(std::string_view key);

    std::string text() const { return "{" + members_ + "}"; }

private:
    json_object &add(std::string_view key, const std::string &text);
    std::string members_;
};

/// Writes to `path`, or to standard output when it is "-". Throws a failure.
void write_json(const std::string &path, const json_object &result);

} // namespace program
