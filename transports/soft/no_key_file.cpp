// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A build without sealed packets refuses a key before its file is read.
#include "key_file.hpp"

namespace dapl::soft {

key_file::~key_file() = default;

key_file::trouble key_file::read(const char *)
{
    return trouble::not_readable;
}

const char *text_of(key_file::trouble)
{
    return "no key is read";
}

} // namespace dapl::soft
