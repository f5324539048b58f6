// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Each scenario runs in a child process of its own, because a process reads dat.conf once.
#pragma once

#include <map>
#include <string>

namespace scenario {

struct outcome {
    int status;           ///< 0: returned and exited normally
    std::string messages; ///< text on standard error
    std::string output;   ///< text on standard output
    std::string failures; ///< EXPECTs that did not hold
};

using environment = std::map<std::string, std::string>;

/// Runs `body` with this text as the file DAT_OVERRIDE names, then exits the child in the normal
/// way. `{conf}` in messages stands for the file's name.
outcome run(const std::string &dat_conf, void (*body)(), const environment &extra = {});
/// Runs `body` with the present environment and these variables on top.
outcome run_as_is(void (*body)(), const environment &extra = {});

/// One line of dat.conf.
std::string line(const std::string &name, const std::string &library,
                 const std::string &instance = "", const std::string &safety = "nonthreadsafe");
/// The number of lines of `text` that contain `part`.
unsigned lines_with(const std::string &text, const std::string &part);

void expect(bool holds, const char *file, int line, const char *what);
void expect_equal(unsigned long have, unsigned long want, const char *file, int line,
                  const char *what);

/// Keeps leaks quiet in a child forked while threads run: their memory counts as lost there.
void ignore_leaks();

/// Whether a library whose path contains `part` is in this process.
bool is_mapped(const std::string &part);
/// How often the stub reported `what` for the adapter.
unsigned seen(const std::string &what, const std::string &name);

} // namespace scenario

#define EXPECT(condition) scenario::expect((condition), __FILE__, __LINE__, #condition)
#define EXPECT_EQ(have, want)                                                                      \
    scenario::expect_equal(static_cast<unsigned long>(have), static_cast<unsigned long>(want),     \
                           __FILE__, __LINE__, #have " == " #want)
