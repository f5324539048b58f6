// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scenario.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace scenario {
namespace {

int failure_fd = 2;
bool leaks_are_ignored = false;

struct temporary_file {
    temporary_file() { close(mkstemp(path)); }
    ~temporary_file() { unlink(path); }
    temporary_file(const temporary_file &) = delete;
    temporary_file &operator=(const temporary_file &) = delete;

    void write(const std::string &text) const
    {
        std::ofstream(path, std::ios::binary).write(text.data(), std::streamsize(text.size()));
    }
    std::string read() const
    {
        std::ostringstream all;
        all << std::ifstream(path, std::ios::binary).rdbuf();
        return all.str();
    }

    char path[32] = "/tmp/dat-test-XXXXXX";
};

std::string replaced(std::string text, const std::string &from, const std::string &to)
{
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

void redirect(const temporary_file &file, int fd)
{
    FILE *stream = std::fopen(file.path, "a");
    dup2(fileno(stream), fd);
    std::fclose(stream);
}

outcome run_child(const environment &variables, void (*body)())
{
    temporary_file messages, output, failures;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        for (const auto &[name, value] : variables)
            setenv(name.c_str(), value.c_str(), 1);
        FILE *stream = std::fopen(failures.path, "a");
        failure_fd = fileno(stream);
        redirect(messages, 2);
        redirect(output, 1);
        body();
        std::exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return {status, messages.read(), output.read(), failures.read()};
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
        dprintf(failure_fd, "%s:%d: %s\n", file, line, what);
}

void expect_equal(unsigned long have, unsigned long want, const char *file, int line,
                  const char *what)
{
    if (have != want)
        dprintf(failure_fd, "%s:%d: %s: 0x%lx, not 0x%lx\n", file, line, what, have, want);
}

void ignore_leaks()
{
    leaks_are_ignored = true;
}

bool is_mapped(const std::string &file)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string one; std::getline(maps, one);) {
        if (one.find(file) != std::string::npos)
            return true;
    }
    return false;
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
extern "C" __attribute__((visibility("default"))) void stub_saw(const char *what, const char *name)
{
    std::lock_guard guard(scenario::tally::the().lock);
    ++scenario::tally::the().counts[std::string(what) + " " + name];
}

/// The leak sanitizer asks.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off()
{
    return scenario::leaks_are_ignored;
}
