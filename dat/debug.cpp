// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "debug.hpp"

#include "osd_system.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace dat {
namespace {

constexpr unsigned default_topics = static_cast<unsigned>(topic::error);
constexpr std::uint64_t unread = ~std::uint64_t{0};

/// A number from the environment, read once; two threads that read it at once find one value.
class setting {
public:
    constexpr setting(const char *name, unsigned fallback) : name_(name), fallback_(fallback) {}
    unsigned value()
    {
        std::uint64_t known = value_.load(std::memory_order_relaxed);
        if (known == unread) {
            known = static_cast<std::uint32_t>(osd::environment_number(name_, fallback_));
            value_.store(known, std::memory_order_relaxed);
        }
        return static_cast<unsigned>(known);
    }

private:
    std::atomic<std::uint64_t> value_{unread};
    const char *name_;
    unsigned fallback_;
};

constinit setting topics("DAT_DBG_TYPE", default_topics);
// Standard output is no default: many a program's data go there.
constinit setting destinations("DAT_DBG_DEST", osd::log_stderr);

} // namespace

bool logging(topic about)
{
    return (topics.value() & static_cast<unsigned>(about)) != 0;
}

void log(topic about, const char *format, ...)
{
    if (!logging(about))
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    osd::log_line(destinations.value(), DAT_LIBRARY, text);
}

} // namespace dat
