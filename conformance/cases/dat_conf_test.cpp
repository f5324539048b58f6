// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The registry of a process of its own: its reading of a dat.conf written for it, and its answers
// when the process ends.
#include "harness/support.hpp"
#include "program/system.hpp"

#include "harness/peer.hpp"

#include <cstdio>
#include <cstdlib>
#include <dat2/dat_registry.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace conformance {
namespace {

// ---------------------------------------------------------------------------------------- lines

/// A line of dat.conf: its first five fields, and the rest.
struct conf_line {
    std::string name, api, safety, defaults, library, rest;

    std::string text() const
    {
        return name + " " + api + " " + safety + " " + defaults + " " + library + rest + "\n";
    }
    conf_line with_library(const std::string &other) const
    {
        conf_line changed = *this;
        changed.library = other;
        return changed;
    }
};

constexpr const char *no_library = "/nowhere/libdapl-none.so";

std::string conf_in_use()
{
    for (const char *variable : {"DAT_OVERRIDE", "DAT_CONF"})
        if (const char *path = std::getenv(variable); path != nullptr && *path != '\0')
            return path;
    return "/etc/dat.conf";
}

/// The line through which the adapter under test is opened. False where it has spaces in the first
/// fields, or is in another file.
bool own_line(conf_line &found)
{
    std::ifstream file(conf_in_use());
    for (std::string text; std::getline(file, text);) {
        std::istringstream fields(text);
        conf_line line;
        if (!(fields >> line.name >> line.api >> line.safety >> line.defaults >> line.library) ||
            line.name != the_settings().ia || line.api != "u2.0" || line.defaults != "default" ||
            line.library.front() == '"' ||
            line.safety != (the_settings().thread_safe ? "threadsafe" : "nonthreadsafe"))
            continue;
        std::getline(fields, line.rest);
        found = line;
        return true;
    }
    return false;
}

#define NEED_OWN_LINE(line)                                                                        \
    do {                                                                                           \
        if (!own_line(line))                                                                       \
            NOT_CLAIMED("a line of dat.conf that can be copied");                                  \
    } while (false)

// -------------------------------------------------------------------------------------- processes

/// The findings of a process that has another dat.conf.
struct finding {
    DAT_RETURN listed;
    DAT_COUNT number;
    DAT_RETURN opened; ///< the adapter under test
    DAT_RETURN closed;
    DAT_RETURN other; ///< opened through a line of the other thread safety
};

DAT_RETURN try_open(DAT_IA_HANDLE &ia)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    return open_adapter(the_settings().ia, &async, &ia);
}

int reader(peer_link &link)
{
    std::vector<DAT_PROVIDER_INFO> entries;
    finding made{};
    made.listed = list_registry(entries);
    made.number = static_cast<DAT_COUNT>(entries.size());
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    made.opened = try_open(ia);
    if (made.opened == DAT_SUCCESS)
        made.closed = dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG);
    the_settings().thread_safe = !the_settings().thread_safe;
    made.other = try_open(ia);
    if (made.other == DAT_SUCCESS)
        (void)dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG);
    link.send(made);
    return 0;
}
const role reader_role("reader", reader);

/// A variable of processes that are started meanwhile.
class variable {
public:
    variable(const char *name, const std::string &value) : name_(name)
    {
        if (const char *before = std::getenv(name); before != nullptr)
            before_ = before;
        program::set_variable(name, value);
    }
    variable(const variable &) = delete;
    variable &operator=(const variable &) = delete;
    ~variable()
    {
        if (before_)
            program::set_variable(name_, *before_);
        else
            program::unset_variable(name_);
    }

private:
    const char *name_;
    std::optional<std::string> before_;
};

class temporary_file {
public:
    explicit temporary_file(const std::string &text)
    {
        std::error_code ignored;
        path_ = (std::filesystem::temp_directory_path(ignored) / "dapl-conf-XXXXXX").string();
        const int file = mkstemp(path_.data());
        if (file < 0 ||
            ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            GIVE_UP("no temporary file");
        ::close(file);
    }
    temporary_file(const temporary_file &) = delete;
    temporary_file &operator=(const temporary_file &) = delete;
    ~temporary_file() { remove(); }
    void remove() { (void)::unlink(path()); }
    const char *path() const { return path_.c_str(); }

private:
    std::string path_;
};

finding read_by_another()
{
    peer_process peer("reader");
    const auto made = peer.link->receive<finding>();
    CHECK(peer.await_exit() == 0);
    return made;
}

finding read_by_another(const std::string &text)
{
    const temporary_file written(text);
    const variable names_it("DAT_OVERRIDE", written.path());
    return read_by_another();
}

const DAT_RETURN unregistered = error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);

} // namespace

TEST_CASE("REG-16: an adapter whose library cannot be loaded is listed, and not found when opened" *
          hint("belong to a registry that passes the loader's failure on, or goes on without it"))
{
    conf_line line;
    NEED_OWN_LINE(line);
    const finding made = read_by_another(line.with_library(no_library).text());
    CHECK(same_code(made.listed, DAT_SUCCESS));
    CHECK(made.number == 1);
    CHECK(same_code(made.opened, unregistered));
    // A library that is there and provides nothing.
    CHECK(same_code(read_by_another(line.with_library("libc.so.6").text()).opened, unregistered));
}

TEST_CASE("REG-17: of lines with one name the first is used whose library loads" *
          hint("belong to a registry that keeps one line for each name, the first or the last"))
{
    conf_line line;
    NEED_OWN_LINE(line);
    const std::string good = line.text();
    const std::string bad = line.with_library(no_library).text();
    for (const std::string &text : {good + bad, bad + good, bad + bad + good}) {
        CAPTURE(text);
        const finding made = read_by_another(text);
        CHECK(same_code(made.opened, DAT_SUCCESS));
        CHECK(same_code(made.closed, DAT_SUCCESS));
    }
}

TEST_CASE("REG-18: without a readable dat.conf there are no adapters, and no other file is taken" *
          hint("belong to a registry that falls back to the system's file, or does not come up"))
{
    temporary_file gone("");
    const variable other("DAT_CONF", conf_in_use()); // names a file that has the adapter
    const variable names_it("DAT_OVERRIDE", gone.path());
    const auto expect_nothing = [](const finding &made) {
        if (made.listed != DAT_SUCCESS)
            CHECK(same_type(made.listed, DAT_INTERNAL_ERROR)); // no registry to be read
        CHECK(made.number == 0);
        CHECK(same_code(made.opened, unregistered));
        CHECK(same_code(made.other, unregistered));
    };
    expect_nothing(read_by_another()); // it is empty
    gone.remove();
    expect_nothing(read_by_another());
}

TEST_CASE(
    "REG-19: what is no line of dat.conf is skipped, and the next line counts" *
    hint("belong to a registry that gives up at the first malformed line, or loses its place"))
{
    conf_line line;
    NEED_OWN_LINE(line);
    const auto with = [&line](std::string conf_line::*field, const std::string &value) {
        conf_line changed = line;
        changed.*field = value;
        return changed.with_library(no_library).text();
    };
    const std::string before = "\n   # a comment, and \"a quote\n\t\n" + line.name + "\n" +
                               line.name + " u2.0\n" + with(&conf_line::api, "x2.0") +
                               with(&conf_line::safety, "sometimes") +
                               with(&conf_line::defaults, "perhaps");
    const std::string others = with(&conf_line::api, "k2.0") + with(&conf_line::api, "u2.1") +
                               with(&conf_line::defaults, "nondefault");
    const finding made = read_by_another(before + others + line.text() + "  # the end");
    CHECK(same_code(made.opened, DAT_SUCCESS));
    CHECK(same_code(made.closed, DAT_SUCCESS));
    CHECK(same_code(made.other, unregistered)); // only one of the two has a line
}

// ------------------------------------------------------------------------------------- at the end

namespace {

struct last_answers {
    DAT_RETURN listed;
    DAT_RETURN opened;
    DAT_RETURN added;
};
peer_link *to_tell = nullptr;

/// What the registry answers when it was torn down.
void ask_once_more()
{
    last_answers made{};
    DAT_COUNT number = 0;
    DAT_PROVIDER_INFO entry{};
    DAT_PROVIDER_INFO *list[] = {&entry};
    made.listed = dat_registry_list_providers(1, &number, list);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    made.opened = try_open(ia);
    made.added = error(DAT_INVALID_STATE);
    DAT_PROVIDER mine{};
    std::snprintf(entry.ia_name, sizeof entry.ia_name, "too-late");
    if (auto *add = optional_call<decltype(dat_registry_add_provider)>("dat_registry_add_provider"))
        made.added = add(&mine, &entry);
    to_tell->send(made);
    std::_Exit(0);
}

int latecomer(peer_link &link)
{
    to_tell = &link;
    {
        const adapter ia; // leaves something to be torn down
    }
    exit_with_last_words(ask_once_more);
}
const role latecomer_role("latecomer", latecomer);

} // namespace

TEST_CASE("REG-20: when the process ends, calls to the registry are INVALID_STATE" *
          hint("belong to a registry that uses its tables after their destructors"))
{
    peer_process peer("latecomer");
    const auto made = peer.link->receive<last_answers>();
    CHECK(same_type(made.listed, DAT_INVALID_STATE));
    CHECK(same_type(made.opened, DAT_INVALID_STATE));
    CHECK(same_type(made.added, DAT_INVALID_STATE));
    CHECK(peer.await_exit() == 0);
}

} // namespace conformance
