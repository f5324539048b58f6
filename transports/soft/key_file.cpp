// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "key_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <seal/seal_library.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace dapl::soft {

namespace {

int hex_digit(std::uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const int letter = c | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

} // namespace

key_file::~key_file()
{
    soft_hca::wipe(bytes_, sizeof bytes_);
}

/// Converts 64 hexadecimal digits, with or without a newline behind them, to 32 bytes. False if the
/// file has anything else.
bool key_file::take_hex()
{
    constexpr std::size_t digits = 2 * shortest;
    if (size_ != digits && (size_ != digits + 1 || bytes_[digits] != '\n'))
        return false;
    for (std::size_t i = 0; i < digits; ++i)
        if (hex_digit(bytes_[i]) < 0)
            return false;
    for (std::size_t i = 0; i < shortest; ++i)
        bytes_[i] =
            static_cast<std::uint8_t>(hex_digit(bytes_[2 * i]) << 4 | hex_digit(bytes_[2 * i + 1]));
    size_ = shortest;
    return true;
}

key_file::trouble key_file::read_from(int file)
{
    struct stat about;
    if (fstat(file, &about) != 0)
        return trouble::not_readable;
    if (!S_ISREG(about.st_mode))
        return trouble::not_a_file;
    // Its owner could give access to anybody, and knows the key.
    if (about.st_uid != 0 && about.st_uid != geteuid())
        return trouble::of_another;
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return trouble::open_to_others;
    ssize_t got = 0;
    while ((got = ::read(file, bytes_ + size_, sizeof bytes_ - size_)) > 0)
        size_ += static_cast<std::size_t>(got);
    if (got < 0)
        return trouble::not_readable;
    if (size_ > longest)
        return trouble::too_long;
    return take_hex() || size_ >= shortest ? trouble::none : trouble::too_short;
}

key_file::trouble key_file::read(const char *path)
{
    // O_NONBLOCK: open() of a FIFO does not wait for a writer.
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0)
        return errno == ELOOP ? trouble::a_link : trouble::not_readable;
    size_ = 0;
    const trouble found = read_from(file);
    const int error = errno;
    close(file);
    errno = error;
    return found;
}

const char *text_of(key_file::trouble what)
{
    switch (what) {
    case key_file::trouble::none:
        return "there is a key";
    case key_file::trouble::not_readable:
        return "it cannot be read";
    case key_file::trouble::not_a_file:
        return "it is not a regular file";
    case key_file::trouble::a_link:
        return "it is a symbolic link: name the file itself";
    case key_file::trouble::of_another:
        return "it belongs to another user: chown it to the one that runs the program, or to root";
    case key_file::trouble::open_to_others:
        return "its group or others have access: chmod 600";
    case key_file::trouble::too_short:
        return "it has less than 32 bytes";
    case key_file::trouble::too_long:
        return "it has more than 4096 bytes";
    }
    return "?";
}

} // namespace dapl::soft
