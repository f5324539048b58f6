// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A database that no other run of the tests has.
#pragma once

#include "mrdb.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace test {

using namespace dapl::tested;
using namespace dapl::tested::core;

inline shared_name name_of(const char *text, const char *adapter = "lo")
{
    char cookie[DAT_LMR_COOKIE_SIZE] = {};
    std::snprintf(cookie, sizeof cookie, "%s", text);
    return shared_name(cookie, adapter);
}

/// Its name, and the end of its file.
struct fresh_database {
    fresh_database() : name("dapl-mrdb-test-" + std::to_string(getpid()) + "-" + next()) {}
    fresh_database(const fresh_database &) = delete;
    fresh_database &operator=(const fresh_database &) = delete;
    ~fresh_database()
    {
        if (getpid() == maker) // not in a child of a test
            for (const auto &each : std::filesystem::directory_iterator("/dev/shm"))
                if (each.path().filename().string().rfind(name + ".", 0) == 0)
                    std::filesystem::remove(each.path());
    }
    static std::string next()
    {
        static int number = 0;
        return std::to_string(number++);
    }
    std::string name;
    pid_t maker = getpid();
};

inline bool same(const mrdb::sharing &one, DAT_VLEN length, unsigned owners)
{
    return one.length == length && one.owners == owners;
}

} // namespace test
