// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/json.hpp"

#include "program/failure.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace program {

namespace {

/// How many bytes the character at the front has; 0 where that is no UTF-8.
std::size_t character_length(std::string_view text)
{
    struct form {
        unsigned char first, last; // of the first byte
        unsigned char least, most; // of the second one
        std::size_t length;
    };
    constexpr form forms[] = {
        {0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (const form &each : forms) {
        if (byte(0) < each.first || byte(0) > each.last)
            continue;
        if (text.size() < each.length)
            return 0;
        if (each.length > 1 && (byte(1) < each.least || byte(1) > each.most))
            return 0;
        for (std::size_t i = 2; i < each.length; ++i)
            if ((byte(i) & 0xc0) != 0x80)
                return 0;
        return each.length;
    }
    return 0;
}

/// Whatever a provider says of itself becomes a string of JSON.
std::string quoted(std::string_view value)
{
    std::string text = "\"";
    while (!value.empty()) {
        const std::size_t length = character_length(value);
        char escape[8];
        if (length == 0) {
            text += "\\ufffd";
        } else if (static_cast<unsigned char>(value[0]) < 0x20) {
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(value[0]));
            text += escape;
        } else {
            if (value[0] == '"' || value[0] == '\\')
                text += '\\';
            text += value.substr(0, length);
        }
        value.remove_prefix(length == 0 ? 1 : length);
    }
    return text + '"';
}

template <class Value, class ToText>
std::string list_of(const std::vector<Value> &values, const char *separator, ToText to_text)
{
    std::string text = "[";
    for (const Value &value : values) {
        if (text.size() > 1)
            text += separator;
        text += to_text(value);
    }
    return text + "]";
}

} // namespace

json_object &json_object::add(std::string_view key, const std::string &text)
{
    if (!members_.empty())
        members_ += ", ";
    members_ += quoted(key) + ": " + text;
    return *this;
}

json_object &json_object::set(std::string_view key, double value)
{
    char text[32] = "null";
    if (std::isfinite(value))
        std::snprintf(text, sizeof text, "%.6g", value);
    return add(key, text);
}

json_object &json_object::set(std::string_view key, std::string_view value)
{
    return add(key, quoted(value));
}

json_object &json_object::set(std::string_view key, const json_object &value)
{
    return add(key, value.text());
}

json_object &json_object::set(std::string_view key, const std::vector<json_object> &values)
{
    return add(key, list_of(values, ",\n  ", [](const json_object &each) { return each.text(); }));
}

json_object &json_object::set(std::string_view key, const std::vector<std::string> &values)
{
    return add(key, list_of(values, ", ", quoted));
}

json_object &json_object::set(std::string_view key, bool value)
{
    return add(key, value ? "true" : "false");
}

json_object &json_object::set(std::string_view key, std::uint64_t value)
{
    return add(key, std::to_string(value));
}

json_object &json_object::set(std::string_view key, std::int64_t value)
{
    return add(key, std::to_string(value));
}

json_object &json_object::set_null(std::string_view key)
{
    return add(key, "null");
}

void write_json(const std::string &path, const json_object &result)
{
    struct closer {
        void operator()(std::FILE *f) const
        {
            if (f != stdout)
                std::fclose(f);
        }
    };
    std::unique_ptr<std::FILE, closer> file(path == "-" ? stdout : std::fopen(path.c_str(), "w"));
    if (!file || std::fprintf(file.get(), "%s\n", result.text().c_str()) < 0 ||
        std::fflush(file.get()) != 0)
        throw failure(path + ": " + std::strerror(errno));
}

} // namespace program
