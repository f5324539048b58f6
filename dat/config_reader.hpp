// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The grammar of dat.conf, nothing else: text in, lines out. docs/man/dat.conf.5.md has the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dat {

/// One well-formed line. The strings lie in the buffer given to the reader.
struct config_line {
    unsigned number;
    const char *name;
    bool kernel;
    std::uint32_t api_major;
    std::uint32_t api_minor;
    bool is_thread_safe;
    bool is_default;
    const char *library;
    const char *provider_version;
    const char *ia_params;
    const char *platform_params;
};

/// Why a line was turned away, in words that complete "<file>:<line>: ".
struct config_problem {
    unsigned number;
    char reason[200];
};

class config_reader {
public:
    /// Cuts `text` into strings where it lies; text[size] must be a null. The buffer must outlive
    /// the lines.
    config_reader(char *text, std::size_t size);

    enum class result { line, problem, end };
    /// The next line that is neither empty nor a comment. A malformed line is one problem; reading
    /// continues after the next newline.
    result next(config_line &line, config_problem &problem);

private:
    bool take_row(char *&begin, char *&end);

    char *at_;
    char *end_;
    unsigned number_ = 0;
};

} // namespace dat
