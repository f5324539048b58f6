// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The key of an adapter, read from a file that only its owner may access.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dapl::soft {

class key_file {
public:
    enum class trouble : std::uint8_t {
        none,
        not_readable,
        not_a_file,
        a_link,
        of_another, ///< owned by neither this user nor root
        open_to_others,
        too_short,
        too_long
    };

    key_file() = default;
    key_file(const key_file &) = delete;
    key_file &operator=(const key_file &) = delete;
    /// Wipes the key.
    ~key_file();
    /// Reads the file. If it is not readable, errno is the system's error number.
    trouble read(const char *path);

    const std::uint8_t *bytes() const { return bytes_; }
    std::size_t size() const { return size_; }

private:
    static constexpr std::size_t shortest = 32;
    static constexpr std::size_t longest = 4096;

    trouble read_from(int file);
    bool take_hex();

    std::uint8_t bytes_[longest + 1];
    std::size_t size_ = 0;
};

/// The text of a trouble, for a log line.
const char *text_of(key_file::trouble what);

} // namespace dapl::soft
