// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/judge.hpp"

#include "harness/codes.hpp"
#include "program/system.hpp"

#include <cstdio>
#include <cstdlib>

namespace conformance {

namespace {

judge *watching_judge = nullptr;
noted_step own_step{0};
noted_step *step_place = &own_step;
constexpr step origin{"", "", 0};

} // namespace

void set_judge(judge *watching)
{
    watching_judge = watching;
}

void tell_not_claimed(const std::string &what)
{
    if (watching_judge != nullptr)
        watching_judge->not_claimed(what);
    else
        MESSAGE("this adapter does not claim ", what);
}

void allow_seconds(unsigned seconds)
{
    if (watching_judge != nullptr)
        watching_judge->allow_seconds(seconds);
    else
        program::set_alarm(seconds);
}

void note_steps_in(noted_step *place)
{
    step_place = place;
}

void note(const step &next)
{
    step_place->store(reinterpret_cast<const char *>(&next) -
                          reinterpret_cast<const char *>(&origin),
                      std::memory_order_relaxed);
}

const step *step_in(const noted_step &place)
{
    const std::ptrdiff_t distance = place.load();
    return distance == 0
               ? nullptr
               : reinterpret_cast<const step *>(reinterpret_cast<const char *>(&origin) + distance);
}

namespace {

bool is_peer = false;
/// The exit status of a peer that needs a call that is not supported.
constexpr int peer_declines = 6;

} // namespace

void this_is_a_peer()
{
    is_peer = true;
}

void give_up(const std::string &why, const char *file, int line)
{
    if (is_peer) {
        std::fprintf(stderr, "peer: %s:%d: %s\n", file, line, why.c_str());
        std::_Exit(3);
    }
    DOCTEST_ADD_FAIL_AT(file, line, why);
    std::abort(); // the line above throws
}

namespace {

/// The name of the function in "MUST(dat_pz_create(ia, &pz))".
std::string callee(const step &at)
{
    const std::string call = at.call;
    return call.substr(0, call.find('('));
}

/// The last name of "pair.active.connect".
std::string name_in(const std::string &callee)
{
    const auto before = callee.find_last_of(".>:");
    return before == std::string::npos ? callee : callee.substr(before + 1);
}

} // namespace

void decline_with_peer(int status)
{
    if (status == peer_declines && watching_judge != nullptr)
        watching_judge->decline("a call that the peer process needs", "");
}

bool is_decline(int status)
{
    return status == peer_declines;
}

void must_succeed(DAT_RETURN code, const step &at)
{
    if (code == not_supported && is_peer)
        std::_Exit(peer_declines);
    if (code == not_supported && watching_judge != nullptr)
        watching_judge->decline(callee(at), name_in(callee(at)));
    if (code != DAT_SUCCESS)
        give_up(std::string(at.call) + ": " + code_name(code), at.file, at.line);
}

} // namespace conformance
