// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/output_file.hpp"

#include "program/failure.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

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
        error = ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
    else if (const auto folder = file.has_parent_path() ? file.parent_path() : ".";
             ::access(folder.c_str(), W_OK | X_OK) != 0)
        error = errno;
    if (error != 0)
        throw failure("cannot write " + path + ": " + std::strerror(error));
}

} // namespace program
