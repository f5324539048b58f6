// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "json.hpp"

#include "failure.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace bench {

namespace {

std::string quoted(std::string_view value)
{
    std::string text = "\"";
    for (const char c : value) {
        if (c == '"' || c == '\\')
            text += '\\';
        if (static_cast<unsigned char>(c) >= 0x20)
            text += c;
        else
            text += ' ';
    }
    return text + '"';
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
    std::string text = "[";
    for (const json_object &value : values) {
        if (text.size() > 1)
            text += ",\n  ";
        text += value.text();
    }
    return add(key, text + "]");
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

} // namespace bench
