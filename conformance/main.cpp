// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dapl-conformance: black-box cases over the DAT C API, for any adapter.
//
//   dapl-conformance [--ia NAME] [--threadsafe] [--promise WHAT]... [options of doctest]
//
// WHAT a transport may promise beyond DAT; without, the cases report what they saw:
//   acknowledged      a request completes once the peer has taken or refused it
//   final_byte_last   the last byte of an RDMA write becomes visible after all others
//   local_protection  the contexts of local segments are checked
#define DOCTEST_CONFIG_IMPLEMENT
#include "support.hpp"

#include "peer.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

// Read by the address sanitizer. What providers bring along (libfabric's plug-ins) leaks when it is
// unloaded, and cannot be told from us then. Leaks of ours are looked for where libraries stay
// loaded: in the rounds of client programs, and in the unit tests.
extern "C" const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace conformance {
namespace {

// ------------------------------------------------------------------------------------- watchdog

constexpr unsigned case_seconds = 120;
const char *volatile running_case = "(none)";

/// Only what a signal handler may do.
void on_alarm(int)
{
    constexpr char text[] = "\nwatchdog: this case hangs: ";
    const char *name = running_case;
    (void)!::write(STDERR_FILENO, text, sizeof text - 1);
    (void)!::write(STDERR_FILENO, name, std::strlen(name));
    (void)!::write(STDERR_FILENO, "\n", 1);
    std::abort();
}

/// A case that hangs ends the program with its name, instead of the patience of whoever waits.
struct watchdog : doctest::IReporter {
    explicit watchdog(const doctest::ContextOptions &) { std::signal(SIGALRM, on_alarm); }

    void test_case_start(const doctest::TestCaseData &data) override
    {
        running_case = data.m_name;
        ::alarm(case_seconds);
    }
    void test_case_end(const doctest::CurrentTestCaseStats &) override { ::alarm(0); }

    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &) override {}
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &) override {}
    void test_case_skipped(const doctest::TestCaseData &) override {}
};
DOCTEST_REGISTER_LISTENER("watchdog", 1, watchdog);

// -------------------------------------------------------------------------------------- options

struct peer_options {
    std::string role;
    int fd = -1;
};

[[noreturn]] void lacks_value(const char *option)
{
    std::fprintf(stderr, "dapl-conformance: %s needs a value\n", option);
    std::exit(2);
}

/// Takes our own options; all others are doctest's.
peer_options take_options(int argc, char **argv)
{
    peer_options peer;
    settings &ours = the_settings();
    const char *from_environment = std::getenv("DAPL_CONFORMANCE_IA");
    ours.ia = from_environment != nullptr ? from_environment : "ofi-lo";
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        const auto value = [&]() -> const char * {
            return i + 1 < argc ? argv[++i] : (lacks_value(option.c_str()), nullptr);
        };
        if (option == "--ia")
            ours.ia = value();
        else if (option == "--promise")
            ours.promises.emplace_back(value());
        else if (option == "--threadsafe")
            ours.thread_safe = true;
        else if (option == "--peer")
            peer.role = value();
        else if (option == "--fd")
            peer.fd = std::atoi(value());
    }
    return peer;
}

/// A sanitizer's verdict at exit would take the place of the role's.
[[noreturn]] void leave_peer(int result)
{
    if (instrumented())
        std::_Exit(result);
    std::exit(result);
}

} // namespace
} // namespace conformance

int main(int argc, char **argv)
{
    const auto peer = conformance::take_options(argc, argv);
    if (!peer.role.empty())
        conformance::leave_peer(conformance::run_role(peer.role, peer.fd));
    doctest::Context context(argc, argv);
    return context.run();
}
