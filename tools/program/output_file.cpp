// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/output_file.hpp"

#include "program/failure.hpp"
#include "program/system.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace program {

void check_output(const std::string &path)
{
    if (path == "-")
        return;
    std::error_code ignored;
    const std::filesystem::path file(path);
    int error = 0;
    if (std::filesystem::is_directory(file, ignored))
        error = EISDIR;
    else if (std::filesystem::exists(file, ignored))
        error = write_obstacle(path);
    else
        error = write_obstacle(file.has_parent_path() ? file.parent_path().string() : ".");
    if (error != 0)
        throw failure("cannot write " + path + ": " + std::strerror(error));
}

} // namespace program
