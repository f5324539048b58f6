// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "settings.hpp"

#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace am {

namespace {

struct number {
    const char *variable;
    unsigned least;
    unsigned most;

    /// Takes the option, or else the variable. False if the value is out of its range.
    bool take(unsigned option, unsigned &value) const
    {
        const char *text = secure_getenv(variable);
        if (option != 0)
            value = option;
        else if (text == nullptr || *text == '\0')
            return true;
        else if (!parse(text, value))
            return refuse(text);
        char digits[16];
        std::snprintf(digits, sizeof digits, "%u", value);
        return (value >= least && value <= most) || refuse(digits);
    }

private:
    static bool parse(const char *text, unsigned &value)
    {
        char *end = nullptr;
        errno = 0;
        const unsigned long parsed = std::strtoul(text, &end, 10);
        value = static_cast<unsigned>(parsed);
        return errno == 0 && *end == '\0' && *text != '-' && parsed <= ~0U;
    }
    bool refuse(const char *text) const
    {
        report("%s, or the option of that name: %s is not a number from %u to %u", variable, text,
               least, most);
        return false;
    }
};

} // namespace

int settings::load(const DAPL_AM_OPTIONS *options)
{
    DAPL_AM_OPTIONS given{};
    if (options != nullptr) {
        if (options->size < sizeof(std::size_t) || options->size > sizeof given) {
            report("the size in the options is %zu; set it to sizeof(DAPL_AM_OPTIONS)",
                   options->size);
            return DAPL_AM_ERR_ARGUMENT;
        }
        std::memcpy(&given, options, options->size);
    }
    const char *name = given.adapter != nullptr ? given.adapter : secure_getenv("DAPL_AM_ADAPTER");
    adapter = name != nullptr ? name : "";
    constexpr unsigned longest = 24 * 3600 * 1000;
    unsigned all = 0, thread = 0, puts = 0, uncached = 0;
    const bool good =
        number{"DAPL_AM_CREDITS", 1, 128}.take(given.credits, credits) &&
        number{"DAPL_AM_CONNECT_ALL", 0, 1}.take(given.connect_all, all) &&
        number{"DAPL_AM_RECEIVE_THREAD", 0, 1}.take(given.receive_thread, thread) &&
        number{"DAPL_AM_PUT_BARRIER", 0, 1}.take(given.put_barrier, puts) &&
        number{"DAPL_AM_NO_REGISTRATION_CACHE", 0, 1}.take(given.no_registration_cache, uncached) &&
        number{"DAPL_AM_CONNECT_TIMEOUT", 1, longest}.take(given.connect_timeout,
                                                           connect_timeout) &&
        number{"DAPL_AM_SETUP_TIMEOUT", 1, longest}.take(given.setup_timeout, setup_timeout) &&
        number{"DAPL_AM_EXIT_TIMEOUT", 1, longest}.take(given.exit_timeout, exit_timeout);
    connect_all = all != 0;
    receive_thread = thread != 0;
    put_barrier = puts != 0;
    registration_cache = uncached == 0;
    return good ? DAPL_AM_OK : DAPL_AM_ERR_ARGUMENT;
}

unsigned settings::exit_limit(int size) const
{
    if (exit_timeout != 0)
        return exit_timeout;
    return static_cast<unsigned>(std::min(60'000L, 5'000L + 20L * size));
}

} // namespace am
