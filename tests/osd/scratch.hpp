// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Files for the length of a test.
#pragma once

#include "osd_thread.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

/// An empty folder that goes with its contents.
class scratch {
public:
    scratch() { std::filesystem::create_directories(path_); }
    ~scratch() { std::filesystem::remove_all(path_); }
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;

    /// The path of a file in it, in UTF-8.
    std::string in(const std::u8string &name) const
    {
        const std::u8string whole = (path_ / name).u8string();
        return {whole.begin(), whole.end()};
    }
    std::string in(const char *name) const
    {
        return in(std::u8string(name, name + std::strlen(name)));
    }
    void write(const std::string &text) const { write(u8"file", text); }
    void write(const std::u8string &name, const std::string &text) const
    {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / ("osd_test_" + std::to_string(osd::process_id()));
};

struct freed {
    void operator()(char *text) const { std::free(text); }
};
using text = std::unique_ptr<char, freed>;
