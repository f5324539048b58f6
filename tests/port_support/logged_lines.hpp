// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdio>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <unistd.h>

/// Captures the log, in place of standard error.
class logged_lines {
public:
    logged_lines()
    {
        REQUIRE(file_ != nullptr);
        REQUIRE(::dup2(::fileno(file_), STDERR_FILENO) == STDERR_FILENO);
    }
    ~logged_lines()
    {
        (void)::dup2(before_, STDERR_FILENO);
        ::close(before_);
        std::fclose(file_);
    }
    logged_lines(const logged_lines &) = delete;
    logged_lines &operator=(const logged_lines &) = delete;
    /// The number of lines with this text.
    int count(std::string_view what) const
    {
        std::string all(1 << 16, '\0');
        const ssize_t size = ::pread(::fileno(file_), all.data(), all.size(), 0);
        all.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        int lines = 0;
        for (std::size_t at = all.find(what); at != std::string::npos;
             at = all.find(what, at + what.size()))
            ++lines;
        return lines;
    }

private:
    int before_ = ::dup(STDERR_FILENO);
    std::FILE *file_ = std::tmpfile();
};
