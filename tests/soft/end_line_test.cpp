// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The line in the log about a connection that no consumer has closed. The suites "default" and
// "asked" are run by DAPL_DBG_TYPE as it is and with 0x8 in it.
#include "harness/support.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <regex>
#include <sys/wait.h>
#include <unistd.h>

using namespace conformance;

namespace {

/// Captures standard error while it lives; its holder looks at nothing else.
class captured {
public:
    captured() : real_(::dup(STDERR_FILENO)), instead_(std::tmpfile())
    {
        ::dup2(::fileno(instead_), STDERR_FILENO);
    }
    captured(const captured &) = delete;
    captured &operator=(const captured &) = delete;
    ~captured()
    {
        if (instead_ != nullptr)
            (void)lines();
    }
    /// The lines about ended connections; it ends the capture.
    std::vector<std::string> lines()
    {
        ::dup2(real_, STDERR_FILENO);
        ::close(real_);
        std::rewind(instead_);
        std::vector<std::string> found;
        char line[1024];
        while (std::fgets(line, sizeof line, instead_) != nullptr)
            if (std::strstr(line, ", ended: ") != nullptr)
                found.emplace_back(line);
        std::fclose(instead_);
        instead_ = nullptr;
        return found;
    }

private:
    const int real_;
    std::FILE *instead_;
};

bool matches(const std::string &line, const std::string &cause)
{
    const std::regex whole(
        "[0-9]+\\.[0-9]+ EP 0x[0-9a-f]+: the connection with "
        "127\\.0\\.0\\.1:[0-9]+, id 0x[0-9a-f]+, peer's id 0x[0-9a-f]+, ended: " +
        cause +
        "\\. It lived [0-9.]+ s, the last packet of the peer came [0-9.]+ s before; packets "
        "out [0-9]+ \\(again [0-9]+, by ring [0-9]+\\), in [0-9]+ \\(twice "
        "[0-9]+, early [0-9]+, dropped [0-9]+\\); direct [0-9]+, indirect "
        "[0-9]+(; [0-9]+ such lines were left out)?\n");
    const auto at = line.find_first_of("0123456789"); // behind the name of the provider, if any
    return at != std::string::npos && std::regex_match(line.substr(at), whole);
}

unsigned left_out_in(const std::string &line)
{
    std::smatch found;
    return std::regex_search(line, found, std::regex("; ([0-9]+) such lines were left out"))
               ? static_cast<unsigned>(std::stoul(found[1]))
               : 0;
}

void post_refused(connected_pair &pair)
{
    DAT_RMR_TRIPLET wrong = pair.passive.memory.remote(0, 64);
    wrong.virtual_address += 1 << 30;
    MUST(pair.active.write(0, 64, wrong));
}

void await_end(connected_pair &pair)
{
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

constexpr const char *peer_pipe = "END_LINE_PIPE";

struct offer {
    DAT_CONN_QUAL qualifier;
    DAT_RMR_TRIPLET memory;
};

/// This program, in the suite "peer".
struct peer {
    peer()
    {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        ::setenv(peer_pipe, std::to_string(ends[1]).c_str(), 1);
        id = ::fork();
        REQUIRE(id >= 0);
        if (id == 0) {
            ::execl("/proc/self/exe", "end_line_test", "--test-suite=peer", nullptr);
            ::_exit(1);
        }
        ::close(ends[1]);
        REQUIRE(::read(ends[0], &told, sizeof told) == sizeof told);
        ::close(ends[0]);
    }
    ~peer()
    {
        ::kill(id, SIGKILL);
        ::waitpid(id, nullptr, 0);
    }
    pid_t id;
    offer told{};
};

} // namespace

TEST_CASE("takes a connection, and sleeps" * doctest::test_suite("peer"))
{
    adapter ia;
    test_endpoint own(ia);
    listener at(ia);
    const offer mine{at.qualifier, own.memory.remote(0, 64)};
    REQUIRE(::write(std::atoi(std::getenv(peer_pipe)), &mine, sizeof mine) == sizeof mine);
    MUST(dat_cr_accept(at.next_request(), own.ep, 0, nullptr));
    for (;;)
        ::pause();
}

TEST_CASE("a peer that does not answer is a warning" * doctest::test_suite("default"))
{
    adapter ia;
    test_endpoint own(ia);
    peer there;
    MUST(own.connect(ia.attr.ia_address_ptr, there.told.qualifier));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    ::kill(there.id, SIGSTOP);
    captured out;
    MUST(own.write(0, 64, there.told.memory));
    const DAT_EVENT end = next_event(own.connect_evd);
    const std::vector<std::string> lines = out.lines();
    CHECK(end.event_number == DAT_CONNECTION_EVENT_BROKEN);
    REQUIRE(lines.size() == 1);
    CAPTURE(lines[0]);
    CHECK(matches(lines[0], "no acknowledgement in [0-9.]+ s, after [1-9] retransmissions"));
}

TEST_CASE("what a program did wrong is not" * doctest::test_suite("default"))
{
    adapter ia;
    connected_pair pair(ia);
    captured out;
    post_refused(pair);
    await_end(pair);
    CHECK(out.lines().empty());
}

TEST_CASE("both sides log an access that is refused" * doctest::test_suite("asked"))
{
    adapter ia;
    connected_pair pair(ia);
    captured out;
    post_refused(pair);
    await_end(pair);
    const std::vector<std::string> lines = out.lines();
    REQUIRE(lines.size() == 2);
    const bool in_order = lines[1].find("ended: an access") != std::string::npos;
    const std::string &initiator = lines[in_order ? 0 : 1];
    const std::string &target = lines[in_order ? 1 : 0];
    CAPTURE(initiator);
    CAPTURE(target);
    CHECK(matches(target, "an access of the peer was refused: beyond its region, or not mapped"));
    CHECK(matches(initiator, "the peer ended it: beyond its region, or not mapped; completion "
                             "REMOTE_ACCESS"));
}

TEST_CASE("the end of a connection to a killed peer is logged" * doctest::test_suite("asked"))
{
    adapter ia;
    test_endpoint own(ia);
    peer there;
    MUST(own.connect(ia.attr.ia_address_ptr, there.told.qualifier));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    captured out;
    ::kill(there.id, SIGKILL);
    siginfo_t gone;
    REQUIRE(::waitid(P_PID, static_cast<id_t>(there.id), &gone, WEXITED | WNOWAIT) == 0);
    MUST(own.write(0, 64, there.told.memory));
    const DAT_EVENT end = next_event(own.connect_evd);
    const std::vector<std::string> lines = out.lines();
    CHECK(end.event_number == DAT_CONNECTION_EVENT_BROKEN);
    REQUIRE(lines.size() == 1);
    CAPTURE(lines[0]);
    CHECK(matches(lines[0], "the peer's port is closed \\(ICMP\\)"));
}

TEST_CASE("a connection that a consumer closes is not logged" * doctest::test_suite("asked"))
{
    adapter ia;
    captured out;
    for (const DAT_CLOSE_FLAGS how : {DAT_CLOSE_GRACEFUL_FLAG, DAT_CLOSE_ABRUPT_FLAG}) {
        connected_pair pair(ia);
        MUST(pair.active.disconnect(how));
        next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
    CHECK(out.lines().empty());
}

TEST_CASE("of many lines some are left out, and counted" * doctest::test_suite("asked"))
{
    constexpr unsigned pairs = 12;
    adapter ia;
    std::deque<connected_pair> all;
    for (unsigned i = 0; i <= pairs; ++i)
        all.emplace_back(ia);
    std::this_thread::sleep_for(milliseconds(1100)); // others have logged
    captured out;
    for (unsigned i = 0; i < pairs; ++i)
        post_refused(all[i]);
    for (unsigned i = 0; i < pairs; ++i)
        await_end(all[i]);
    std::this_thread::sleep_for(milliseconds(1100));
    post_refused(all[pairs]);
    await_end(all[pairs]);
    const std::vector<std::string> lines = out.lines();
    unsigned told = static_cast<unsigned>(lines.size());
    CHECK(told < 2 * pairs);
    for (const std::string &each : lines)
        told += left_out_in(each);
    CHECK(told == 2 * (pairs + 1));
    CHECK(left_out_in(lines.back()) == 0);
}

int main(int argc, char **argv)
{
    the_settings().ia = "ends";
    doctest::Context context(argc, argv);
    return context.run();
}
