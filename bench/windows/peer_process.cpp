// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "peer_process.hpp"

#include "program/system.hpp"
#include "program/windows/new_process.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace bench {
namespace {

/// Tells a second process its role: "name socket argument".
constexpr const char *variable = "DAPL_PROGRAM_JOB";

/// Plays a role and returns the exit status.
int play(const peer_role &what, program::socket::number end, const std::string &argument)
{
    try {
        channel first(program::socket::inherited(end));
        what.work(first, argument);
        return 0;
    } catch (const peer_ended &) {
        return 1; // the first process tells the story
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s (peer process): %s\n", program::own_name().c_str(), e.what());
        return 1;
    }
}

} // namespace

struct peer_process::parts {
    program::new_process child;
};

peer_process::peer_process(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
peer_process::peer_process(peer_process &&) noexcept = default;

peer_process::~peer_process()
{
    if (parts_ != nullptr)
        parts_->child.kill();
}

void become_peer()
{
    const char *const told = std::getenv(variable);
    if (told == nullptr)
        return;
    std::istringstream words(told);
    std::string name, argument;
    program::socket::number end = -1;
    words >> name >> end;
    std::getline(words >> std::ws, argument);
    program::unset_variable(variable);
    if (const peer_role *what = peer_role::find(name); what != nullptr)
        std::exit(play(*what, end, argument));
    std::fprintf(stderr, "%s names no role of this program\n", variable);
    std::exit(2);
}

std::pair<peer_process, channel> peer_process::start(const peer_role &what,
                                                     const std::string &argument)
{
    auto [ours, theirs] = program::socket::pair();
    if (!ours.is_open())
        throw program::failure("a pair of sockets: " + program::socket_error());
    channel link(std::move(ours));
    return {start(what, argument, channel(std::move(theirs))), std::move(link)};
}

peer_process peer_process::start(const peer_role &what, const std::string &argument, channel its)
{
    auto made = std::make_unique<parts>();
    const program::socket::number end = its.end().get();
    std::fflush(nullptr);
    program::set_variable(variable,
                          std::string(what.name) + " " + std::to_string(end) + " " + argument);
    const std::string why = made->child.start(GetCommandLineW(), {reinterpret_cast<HANDLE>(end)},
                                              {nullptr, GetStdHandle(STD_ERROR_HANDLE)});
    program::unset_variable(variable);
    if (!why.empty())
        throw program::failure(why);
    return peer_process(std::move(made));
}

bool peer_process::ended_well(seconds limit)
{
    const HANDLE process = parts_->child.process();
    DWORD status = 1;
    return WaitForSingleObject(process, static_cast<DWORD>(limit.count() * 1000)) ==
               WAIT_OBJECT_0 &&
           GetExitCodeProcess(process, &status) && status == 0;
}

} // namespace bench
