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

/// A number from the environment, read once; two threads reading it at once find the same.
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
// Not standard output by default: programs parse what consumers print there.
constinit setting destinations("DAT_DBG_DEST", 0);

void write_line(const char *text)
{
    const unsigned chosen = destinations.value() & (osd::log_stdout | osd::log_syslog);
    osd::log_line(chosen != 0 ? chosen : osd::log_stderr, DAT_LIBRARY, text);
}

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
    write_line(text);
}

} // namespace dat
