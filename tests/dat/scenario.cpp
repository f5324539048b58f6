// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scenario.hpp"

#include "host.hpp"
#include "osd_annotations.hpp"
#include "osd_thread.hpp"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>

namespace scenario {
namespace {

bool leaks_are_ignored = false;

/// A file of its own for every run.
std::string fresh_path()
{
    static std::atomic<unsigned> count{0};
    const std::string name =
        "dat-test-" + std::to_string(osd::process_id()) + "-" + std::to_string(++count);
    return (std::filesystem::temp_directory_path() / name).string();
}

struct temporary_file {
    temporary_file() { write(""); }
    ~temporary_file()
    {
        std::error_code ignored; // what a killed child still holds stays
        std::filesystem::remove(path, ignored);
    }
    temporary_file(const temporary_file &) = delete;
    temporary_file &operator=(const temporary_file &) = delete;

    void write(const std::string &text) const
    {
        std::ofstream(path, std::ios::binary).write(text.data(), std::streamsize(text.size()));
    }
    std::string read() const
    {
        std::ostringstream all;
        all << std::ifstream(path).rdbuf();
        return all.str();
    }

    const std::string path = fresh_path();
};

std::string replaced(std::string text, const std::string &from, const std::string &to)
{
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

outcome run_child(const environment &variables, void (*body)())
{
    const temporary_file messages, output, failures;
    environment all = variables;
    all["DAT_TEST_FAILURES"] = failures.path;
    std::fflush(nullptr);
    const int status = host::run_child(body, all, output.path, messages.path);
    return {status, messages.read(), output.read(), failures.read()};
}

/// Reports a failure in the child. Children that it forks write to this file, too.
void tell(const std::string &failure)
{
    const char *path = std::getenv("DAT_TEST_FAILURES");
    std::ofstream(path, std::ios::app) << failure + "\n" << std::flush;
}

} // namespace

outcome run(const std::string &dat_conf, void (*body)(), const environment &extra)
{
    temporary_file file;
    file.write(dat_conf);
    environment variables = extra;
    variables.try_emplace("DAT_OVERRIDE", file.path);
    outcome result = run_child(variables, body);
    result.messages = replaced(result.messages, file.path, "{conf}");
    result.output = replaced(result.output, file.path, "{conf}");
    return result;
}

outcome run_as_is(void (*body)(), const environment &extra)
{
    return run_child(extra, body);
}

std::string line(const std::string &name, const std::string &library, const std::string &instance,
                 const std::string &safety)
{
    return name + " u2.0 " + safety + " default " + library + " stub.2.0 \"" + instance +
           "\" \"\"\n";
}

unsigned lines_with(const std::string &text, const std::string &part)
{
    std::istringstream all(text);
    unsigned count = 0;
    for (std::string one; std::getline(all, one);)
        count += one.find(part) != std::string::npos;
    return count;
}

void expect(bool holds, const char *file, int line, const char *what)
{
    if (!holds)
        tell(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

void expect_equal(unsigned long have, unsigned long want, const char *file, int line,
                  const char *what)
{
    if (have == want)
        return;
    std::ostringstream numbers;
    numbers << std::hex << ": 0x" << have << ", not 0x" << want;
    tell(std::string(file) + ":" + std::to_string(line) + ": " + what + numbers.str());
}

void ignore_leaks()
{
    leaks_are_ignored = true;
}

namespace {

struct tally {
    std::mutex lock;
    std::map<std::string, unsigned> counts;

    /// There when the first constructor asks for it, and when the last destructor does.
    static tally &the()
    {
        static tally &only = *new tally;
        return only;
    }
};

} // namespace

unsigned seen(const std::string &what, const std::string &name)
{
    std::lock_guard guard(tally::the().lock);
    return tally::the().counts[what + " " + name];
}

} // namespace scenario

/// The stub finds it in the test program.
extern "C" OSD_EXPORT void stub_saw(const char *what, const char *name)
{
    std::lock_guard guard(scenario::tally::the().lock);
    ++scenario::tally::the().counts[std::string(what) + " " + name];
}

/// The leak sanitizer asks.
extern "C" OSD_EXPORT int __lsan_is_turned_off()
{
    return scenario::leaks_are_ignored;
}
