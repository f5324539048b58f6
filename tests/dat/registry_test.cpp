// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dat.conf to adapter and back: finding, loading, falling back, unloading.
#include "adapters.hpp"
#include "checks.hpp"
#include "osd_system.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <thread>
#include <vector>

using namespace scenario;

namespace {

const std::string stub = STUB_PROVIDER;
const std::string stub_name = stub.substr(stub.rfind('/') + 1);

void open_and_close()
{
    EXPECT(!is_mapped(stub_name));
    const DAT_IA_HANDLE ia = opened("s");
    EXPECT(is_mapped(stub_name));
    EXPECT_EQ(close(ia), DAT_SUCCESS);
    EXPECT(!is_mapped(stub_name));
    EXPECT_EQ(seen("init", "s"), 1);
    EXPECT_EQ(seen("fini", "s"), 1);
}

void fail_to_open_s()
{
    DAT_IA_HANDLE ia = &ia;
    EXPECT_EQ(open("s", ia), not_found);
    EXPECT(ia == &ia);
}

} // namespace

// --- Loading and unloading -----------------------------------------------------------------------

TEST_CASE("an adapter's library is loaded by the first open and gone after the last close")
{
    check_quiet(run(line("s", stub), open_and_close));
}

TEST_CASE("a provider without a dependency on libdat2 finds the registry in the program")
{
    check_quiet(run(line("s", STUB_UNLINKED), [] {
        const DAT_IA_HANDLE ia = opened("s");
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped("stub_unlinked"));
    }));
}

TEST_CASE("a library can be loaded again in the same process, as often as one likes")
{
    check_quiet(run(line("s", stub), [] {
        for (int i = 0; i < 5; ++i) {
            const DAT_IA_HANDLE ia = opened("s");
            EXPECT_EQ(close(ia), DAT_SUCCESS);
            EXPECT(!is_mapped(stub_name));
        }
        EXPECT_EQ(seen("init", "s"), 5);
        EXPECT_EQ(seen("fini", "s"), 5);
    }));
}

TEST_CASE("the library stays until the last of several opens is closed")
{
    check_quiet(run(line("s", stub), [] {
        const DAT_IA_HANDLE first = opened("s");
        const DAT_IA_HANDLE second = opened("s");
        EXPECT(first != second);
        EXPECT_EQ(seen("init", "s"), 1);
        EXPECT_EQ(close(first), DAT_SUCCESS);
        EXPECT(is_mapped(stub_name));
        EXPECT_EQ(close(second), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    }));
}

TEST_CASE("two adapters of one library are started and stopped each by itself")
{
    check_quiet(run(line("s", stub) + line("t", stub), [] {
        const DAT_IA_HANDLE s = opened("s");
        const DAT_IA_HANDLE t = opened("t");
        EXPECT_EQ(close(s), DAT_SUCCESS);
        EXPECT_EQ(seen("fini", "s"), 1);
        EXPECT_EQ(seen("fini", "t"), 0);
        EXPECT(is_mapped(stub_name));
        EXPECT_EQ(close(t), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    }));
}

TEST_CASE("the threadsafe and the nonthreadsafe line of a name are two adapters")
{
    check_quiet(run(line("s", stub) + line("s", stub, "", "threadsafe"), [] {
        DAT_IA_HANDLE safe = DAT_HANDLE_NULL;
        EXPECT_EQ(open_as("s", safe, 2, 0, DAT_TRUE), DAT_SUCCESS);
        const DAT_IA_HANDLE plain = opened("s");
        EXPECT_EQ(seen("init", "s"), 2);
        EXPECT_EQ(close(safe), DAT_SUCCESS);
        EXPECT_EQ(close(plain), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    }));
}

// --- Failing -------------------------------------------------------------------------------------

TEST_CASE("a library that cannot be loaded is reported once per attempt with the loader's reason")
{
    char reason[300];
    REQUIRE(osd::library_open("/nowhere/libs.so", reason, sizeof reason) == nullptr);
    check_says(run(line("s", "/nowhere/libs.so"), fail_to_open_s),
               "libdat2: {conf}:1: adapter 's': library /nowhere/libs.so cannot be used: " +
                   std::string(reason) + "; " + osd::library_advice() + "\n");
    const outcome twice = run(line("s", "/nowhere/libs.so"), [] {
        fail_to_open_s();
        fail_to_open_s();
    });
    CHECK(lines_with(twice.messages, "/nowhere/libs.so") == 2);
}

TEST_CASE("a library without dat_provider_init or dat_provider_fini is none of ours")
{
    for (const char *name : {"init", "fini"}) {
        const std::string library = name == std::string("init") ? STUB_NO_INIT : STUB_NO_FINI;
        check_says(run(line("s", library), fail_to_open_s),
                   "libdat2: {conf}:1: adapter 's': library " + library +
                       " cannot be used: it has no symbol dat_provider_" + name +
                       "; name the library of a DAT 2.0 provider\n");
    }
}

TEST_CASE("an init that does not register is a failure; fini still runs and the library goes")
{
    const outcome result = run(line("s", stub, "silent"), [] {
        fail_to_open_s();
        EXPECT_EQ(seen("init", "s"), 1);
        EXPECT_EQ(seen("fini", "s"), 1);
        EXPECT(!is_mapped(stub_name));
    });
    check_says(result, "libdat2: {conf}:1: adapter 's': library " + stub +
                           " cannot be used: its dat_provider_init did not register the adapter; "
                           "DAPL_DBG_TYPE=0xffff may make the provider say why\n");
}

TEST_CASE("lines with the same key are tried in the order of the file until one works")
{
    const outcome result =
        run(line("s", "/nowhere/libs.so") + line("s", STUB_NO_INIT) + line("s", stub, "silent") +
                line("s", stub) + line("s", "/never/tried.so"),
            [] {
                const DAT_IA_HANDLE ia = opened("s");
                EXPECT_EQ(seen("init", "s"), 2);
                EXPECT_EQ(seen("fini", "s"), 1);
                EXPECT_EQ(close(ia), DAT_SUCCESS);
                EXPECT_EQ(seen("fini", "s"), 2);
                EXPECT(!is_mapped(stub_name));
            });
    CHECK(result.failures == "");
    CHECK(lines_with(result.messages, "{conf}:1:") == 1);
    CHECK(lines_with(result.messages, "{conf}:2:") == 1);
    CHECK(lines_with(result.messages, "{conf}:3:") == 1);
    CHECK(lines_with(result.messages, "") == 3);
}

TEST_CASE("the line that was loaded serves later opens; earlier ones are not tried again")
{
    const outcome result = run(line("s", "/nowhere/libs.so") + line("s", stub), [] {
        const DAT_IA_HANDLE first = opened("s");
        const DAT_IA_HANDLE second = opened("s");
        EXPECT_EQ(close(first), DAT_SUCCESS);
        EXPECT_EQ(close(second), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    });
    CHECK(result.failures == "");
    CHECK(lines_with(result.messages, "") == 1);
}

TEST_CASE("what the provider's open returns is returned, and the library is released")
{
    check_quiet(run(line("s", stub, "open_fails"), [] {
        DAT_IA_HANDLE ia = &ia;
        EXPECT_EQ(open("s", ia), code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
        EXPECT(ia == &ia);
        EXPECT_EQ(seen("fini", "s"), 1);
        EXPECT(!is_mapped(stub_name));
    }));
}

TEST_CASE("what the provider's close returns is returned, and until success the adapter is open")
{
    check_quiet(run(line("s", stub, "close_fails"), [] {
        const DAT_IA_HANDLE ia = opened("s");
        EXPECT_EQ(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG),
                  code(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    }));
}

TEST_CASE("closing does not depend on the provider repeating the thread safety of its line")
{
    check_quiet(run(line("s", stub, "lies"), open_and_close));
}

TEST_CASE("a provider that forgets to unregister leaves nothing behind that could be called")
{
    for (const char *instance : {"forgets", "wrong_vector"}) {
        const outcome result = run(line("s", stub, instance), [] {
            for (int i = 0; i < 2; ++i) {
                const DAT_IA_HANDLE ia = opened("s");
                EXPECT_EQ(close(ia), DAT_SUCCESS);
            }
        });
        check_says(result, "libdat2: library " + stub +
                               " left adapter 's' registered when it was unloaded\n" +
                               "libdat2: library " + stub +
                               " left adapter 's' registered when it was unloaded\n");
    }
}

// --- Not finding ---------------------------------------------------------------------------------

TEST_CASE("an unknown name is not registered, and the message lists the names that are")
{
    check_says(
        run(line("a", stub) + line("b", stub) + line("b", stub, "", "threadsafe"), fail_to_open_s),
        "libdat2: adapter 's' is unknown ({conf}); known adapters: a, b\n");
    check_says(run("", fail_to_open_s),
               "libdat2: adapter 's' is unknown ({conf}); known adapters: none\n");
}

TEST_CASE("a key must match exactly; the message says what the line offers instead")
{
    struct {
        const char *line;
        const char *offers;
    } const table[] = {
        {"s u2.0 threadsafe default l 2.0 a b", "u2.0 threadsafe default"},
        {"s u2.1 nonthreadsafe default l 2.0 a b", "u2.1 nonthreadsafe default"},
        {"s u1.2 nonthreadsafe default l 2.0 a b", "u1.2 nonthreadsafe default"},
        {"s k2.0 nonthreadsafe default l 2.0 a b", "k2.0 nonthreadsafe default"},
        {"s u2.0 nonthreadsafe nondefault l 2.0 a b", "u2.0 nonthreadsafe nondefault"},
    };
    for (const auto &row : table)
        check_says(run(std::string("\n") + row.line, fail_to_open_s),
                   std::string("libdat2: adapter 's' is not there for this program: {conf}:2 "
                               "offers ") +
                       row.offers + ", asked for is u2.0 nonthreadsafe default\n");
}

TEST_CASE("a name is at most 255 characters, and there is a place for the handle")
{
    const outcome result = run("", [] {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_ia_openv(nullptr, 8, nullptr, &ia, 2, 0, DAT_FALSE),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(open(std::string(256, 'x').c_str(), ia),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(open(std::string(255, 'x').c_str(), ia), not_found);
        EXPECT_EQ(dat_ia_openv(const_cast<char *>("s"), 8, nullptr, nullptr, 2, 0, DAT_FALSE),
                  bad_ia);
    });
    CHECK(result.failures == "");
}

// --- dat.conf ------------------------------------------------------------------------------------

TEST_CASE("a malformed line is reported once, with file and line; the others count")
{
    check_says(run("# comment\nbroken\n" + line("s", stub) + "s u2.0 maybe default l 2.0 a b",
                   [] {
                       open_and_close();

                       DAT_COUNT count = 0;
                       dat_registry_list_providers(0, &count, nullptr);
                       EXPECT_EQ(count, 1);
                   }),
               "libdat2: {conf}:2: expected 8 fields, found 1 (no API version); the line is "
               "ignored\n"
               "libdat2: {conf}:4: field 3, the thread safety: expected threadsafe or "
               "nonthreadsafe, found 'maybe'; the line is ignored\n");
}

TEST_CASE("a file that is no dat.conf at all is reported in a bounded number of lines")
{
    std::string junk;
    for (int i = 0; i < 1000; ++i)
        junk += "junk\n";
    const outcome result = run(junk + line("s", stub), open_and_close);
    CHECK(result.failures == "");
    CHECK(lines_with(result.messages, "") == 51);
    CHECK(lines_with(result.messages, "950 more malformed lines") == 1);
}

TEST_CASE("thousands of lines are searched in order")
{
    std::string text;
    for (int i = 0; i < 5000; ++i)
        text += line("other" + std::to_string(i), "/nowhere.so");
    check_quiet(run(text + line("s", stub), open_and_close));
}

TEST_CASE("DAT_OVERRIDE that cannot be read is reported, and no other file is read")
{
    const environment chosen = {{"DAT_OVERRIDE", "/nowhere/dat.conf"}, {"DAT_CONF", "/etc/passwd"}};
    check_says(run_as_is(
                   [] {
                       DAT_COUNT count = 1;
                       dat_registry_list_providers(0, &count, nullptr);
                       EXPECT_EQ(count, 0);
                   },
                   chosen),
               "libdat2: /nowhere/dat.conf, named by DAT_OVERRIDE: cannot read it: No such file or "
               "directory; no other dat.conf is tried, no adapter is known\n");
}

TEST_CASE("a dat.conf that could not be read is read by the next open")
{
    const outcome result = run(line("s", stub), [] {
        const std::string conf = std::getenv("DAT_OVERRIDE");
        const std::string away = conf + "-away";
        EXPECT_EQ(std::rename(conf.c_str(), away.c_str()), 0);
        fail_to_open_s();
        EXPECT_EQ(std::rename(away.c_str(), conf.c_str()), 0);
        open_and_close();
    });
    CHECK(result.failures == "");
    CHECK(lines_with(result.messages, "cannot read it") == 1);
}

TEST_CASE("DAT_CONF names the file when DAT_OVERRIDE does not")
{
    check_says(
        run("", [] { fail_to_open_s(); }, {{"DAT_OVERRIDE", ""}, {"DAT_CONF", "/"}}),
        "libdat2: /, named by DAT_CONF: cannot read it: Is a directory; no other dat.conf is "
        "tried, no adapter is known\n"
        "libdat2: adapter 's' is unknown (no dat.conf read); known adapters: none\n");
}

TEST_CASE("a file of more than 16 MiB is refused")
{
    const outcome result = run(std::string((16 << 20) + 1, '#'), fail_to_open_s);
    CHECK(lines_with(result.messages, "cannot read it: File too large") == 1);
}

TEST_CASE("DAT_DBG_TYPE=0 silences errors, 4 tells what becomes of each line")
{
    check_quiet(run("broken", fail_to_open_s, {{"DAT_DBG_TYPE", "0"}}));
    const outcome result = run("s k2.0 nonthreadsafe default /l 2.0 a b\n" + line("s", "/l") +
                                   "s u2.0 nonthreadsafe nondefault /l 2.0 a b\n",
                               [] {
                                   DAT_COUNT count;
                                   dat_registry_list_providers(0, &count, nullptr);
                               },
                               {{"DAT_DBG_TYPE", "4"}});
    check_says(result, "libdat2: reading {conf}\n"
                       "libdat2: {conf}:1: adapter 's', library /l: ignored, because it is for the "
                       "kernel\n"
                       "libdat2: {conf}:2: adapter 's', library /l: kept\n"
                       "libdat2: {conf}:3: adapter 's', library /l: ignored, because it says "
                       "nondefault\n");
}

TEST_CASE("DAT_DBG_DEST=1 sends messages to standard output instead")
{
    for (const char *where : {"1", "3"}) { // 3: to the system's log as well
        CAPTURE(where);
        const outcome result = run("", fail_to_open_s, {{"DAT_DBG_DEST", where}});
        CHECK(result.messages == "");
        CHECK(result.output == "libdat2: adapter 's' is unknown ({conf}); known adapters: none\n");
    }
}

TEST_CASE("DAT_DBG_DEST=4 sends messages to standard error, as without it, 5 to both, 0 nowhere")
{
    const std::string said = "libdat2: adapter 's' is unknown ({conf}); known adapters: none\n";
    const struct {
        const char *where;
        bool in_output, in_messages;
    } settings[] = {{"", false, true}, {"4", false, true}, {"5", true, true}, {"0", false, false}};
    for (const auto &each : settings) {
        CAPTURE(each.where);
        const outcome result = run("", fail_to_open_s, {{"DAT_DBG_DEST", each.where}});
        CHECK(result.messages == (each.in_messages ? said : ""));
        CHECK(result.output == (each.in_output ? said : ""));
    }
}

// --- The provider's side -------------------------------------------------------------------------

namespace {

DAT_RETURN open_nothing(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *)
{
    return DAT_QUEUE_FULL;
}

} // namespace

TEST_CASE("adding and removing a provider have their codes")
{
    const outcome result = run("", [] {
        DAT_PROVIDER one{}, other{};
        one.ia_open_func = open_nothing;
        const DAT_PROVIDER_INFO s = {"s", 2, 0, DAT_FALSE}, safe = {"s", 2, 0, DAT_TRUE};
        EXPECT_EQ(dat_registry_add_provider(nullptr, &s),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(dat_registry_add_provider(&one, nullptr),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        EXPECT_EQ(dat_registry_remove_provider(nullptr, &s),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(dat_registry_remove_provider(&one, nullptr),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        DAT_PROVIDER_INFO endless = s;
        std::memset(endless.ia_name, 'x', sizeof endless.ia_name);
        EXPECT_EQ(dat_registry_add_provider(&one, &endless),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));

        EXPECT_EQ(dat_registry_remove_provider(&one, &s), not_found);
        EXPECT_EQ(dat_registry_add_provider(&one, &s), DAT_SUCCESS);
        EXPECT_EQ(dat_registry_add_provider(&other, &s), code(DAT_PROVIDER_ALREADY_REGISTERED));
        EXPECT_EQ(dat_registry_add_provider(&other, &safe), DAT_SUCCESS);
        // A provider that was turned away does not remove its rival.
        EXPECT_EQ(dat_registry_remove_provider(&other, &s), not_found);
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        EXPECT_EQ(open("s", ia), DAT_QUEUE_FULL);
        const DAT_PROVIDER copy = one;
        EXPECT_EQ(dat_registry_remove_provider(&copy, &s), DAT_SUCCESS);
        EXPECT_EQ(dat_registry_remove_provider(&other, &safe), DAT_SUCCESS);
        EXPECT_EQ(open("s", ia), not_found);
    });
    CHECK(result.failures == "");
    CHECK(lines_with(result.messages, "registered already") == 1);
}

TEST_CASE("a provider with an open adapter cannot be removed")
{
    check_quiet(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
        const DAT_PROVIDER_INFO s = {"s", 2, 0, DAT_FALSE};
        EXPECT_EQ(dat_registry_remove_provider(*static_cast<DAT_PROVIDER **>(pz), &s),
                  code(DAT_PROVIDER_IN_USE));
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

TEST_CASE("a library that registers from its constructor is opened, and leaves by its destructor")
{
    check_quiet(run(line("early", STUB_EARLY), [] {
        for (int i = 0; i < 2; ++i) {
            const DAT_IA_HANDLE ia = opened("early");
            EXPECT_EQ(close(ia), DAT_SUCCESS);
            EXPECT(!is_mapped("stub_early"));
        }
    }));
}

TEST_CASE("listing counts each key once and tells how many were stored")
{
    check_quiet(run(line("a", stub) + line("a", stub) + line("b", stub, "", "threadsafe") +
                        "c u2.0 nonthreadsafe nondefault l 2.0 a b\n",
                    [] {
                        DAT_PROVIDER_INFO infos[3];
                        DAT_PROVIDER_INFO *list[3] = {&infos[0], &infos[1], &infos[2]};
                        DAT_COUNT count = -7;
                        EXPECT_EQ(dat_registry_list_providers(3, nullptr, list),
                                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
                        EXPECT_EQ(dat_registry_list_providers(3, &count, nullptr),
                                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
                        EXPECT_EQ(count, -7);
                        EXPECT_EQ(dat_registry_list_providers(0, &count, nullptr),
                                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
                        EXPECT_EQ(count, 2);
                        EXPECT_EQ(dat_registry_list_providers(1, &count, list), DAT_SUCCESS);
                        EXPECT_EQ(count, 1);
                        EXPECT_EQ(dat_registry_list_providers(3, &count, list), DAT_SUCCESS);
                        EXPECT_EQ(count, 2);
                        EXPECT(std::strcmp(infos[0].ia_name, "a") == 0);
                        EXPECT(std::strcmp(infos[1].ia_name, "b") == 0);
                        EXPECT_EQ(infos[1].dapl_version_major, 2);
                        EXPECT_EQ(infos[1].dapl_version_minor, 0);
                        EXPECT_EQ(infos[1].is_thread_safe, DAT_TRUE);
                        list[1] = nullptr;
                        EXPECT_EQ(dat_registry_list_providers(3, &count, list),
                                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
                        EXPECT_EQ(dat_registry_list_providers(1, &count, list), DAT_SUCCESS);
                    }));
}

TEST_CASE("a provider that registered itself is listed after those of dat.conf")
{
    check_quiet(run(line("a", stub), [] {
        DAT_PROVIDER vector{};
        const DAT_PROVIDER_INFO a = {"a", 2, 0, DAT_FALSE}, z = {"z", 2, 0, DAT_FALSE};
        dat_registry_add_provider(&vector, &z);
        dat_registry_add_provider(&vector, &a);
        DAT_PROVIDER_INFO infos[4];
        DAT_PROVIDER_INFO *list[4] = {&infos[0], &infos[1], &infos[2], &infos[3]};
        DAT_COUNT count = 0;
        EXPECT_EQ(dat_registry_list_providers(4, &count, list), DAT_SUCCESS);
        EXPECT_EQ(count, 2);
        EXPECT(std::strcmp(infos[1].ia_name, "z") == 0);
    }));
}

TEST_CASE("two adapters are related when their open providers say so")
{
    check_quiet(run(line("a", stub, "b") + line("b", stub, "a") + line("c", stub), [] {
        auto related = [](const char *one, const char *other) {
            DAT_HA_RELATIONSHIP answer = DAT_HA_EXTENSION_BASE;
            EXPECT_EQ(dat_registry_providers_related(const_cast<char *>(one),
                                                     const_cast<char *>(other), &answer),
                      DAT_SUCCESS);
            return answer;
        };
        char a[] = "a", none[] = "none";
        DAT_HA_RELATIONSHIP answer;
        EXPECT_EQ(dat_registry_providers_related(nullptr, a, &answer),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(dat_registry_providers_related(a, nullptr, &answer),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        EXPECT_EQ(dat_registry_providers_related(a, a, nullptr),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
        EXPECT_EQ(dat_registry_providers_related(a, none, &answer), not_found);
        EXPECT_EQ(related("a", "b"), DAT_HA_UNKNOWN);
        const DAT_IA_HANDLE ia_a = opened("a"), ia_c = opened("c");
        EXPECT_EQ(related("a", "b"), DAT_HA_TRUE);
        EXPECT_EQ(related("a", "c"), DAT_HA_FALSE);
        EXPECT_EQ(close(ia_a), DAT_SUCCESS);
        const DAT_IA_HANDLE ia_b = opened("b");
        EXPECT_EQ(related("b", "c"), DAT_HA_FALSE);
        EXPECT_EQ(close(ia_b), DAT_SUCCESS);
        EXPECT_EQ(close(ia_c), DAT_SUCCESS);
    }));
}

// --- Providers that call back
// ----------------------------------------------------------------------

TEST_CASE("a provider may open another adapter while it starts")
{
    check_quiet(run(line("s", stub, "nests") + line("nested", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        EXPECT_EQ(seen("close", "nested"), 1);
        EXPECT_EQ(seen("fini", "nested"), 1);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    }));
}

TEST_CASE("a provider that opens its own adapter while it starts is refused, and starts")
{
    const outcome result = run(line("s", stub, "opens_itself"), [] {
        const DAT_IA_HANDLE ia = opened("s");
        EXPECT_EQ(seen("refused", "s"), 1);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped(stub_name));
    });
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(lines_with(result.messages, "it opens its own adapter while it starts or stops") == 1);
}

TEST_CASE("an adapter that is being closed has its handle, and cannot be closed again")
{
    check_quiet(run(line("s", stub, "closes_itself"), [] {
        EXPECT_EQ(close(opened("s")), DAT_SUCCESS);
        EXPECT_EQ(seen("refused", "s"), 1);
        EXPECT_EQ(seen("close", "s"), 1);
    }));
}

// --- Threads and the end -------------------------------------------------------------------------

TEST_CASE("two threads open and close the same and different adapters at once")
{
    check_quiet(run(line("s", stub) + line("t", stub), [] {
        auto churn = [](const char *name, const char *other) {
            for (int i = 0; i < 1000; ++i) {
                const DAT_IA_HANDLE ia = opened(i % 3 == 0 ? other : name);
                DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
                EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
                DAT_PZ_PARAM param;
                EXPECT_EQ(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS);
                EXPECT(param.ia_handle == ia);
                EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
                EXPECT_EQ(close(ia), DAT_SUCCESS);
            }
        };
        std::thread one(churn, "s", "t"), other(churn, "t", "s");
        one.join();
        other.join();
        EXPECT(!is_mapped(stub_name));
        EXPECT_EQ(seen("init", "s"), seen("fini", "s"));
        EXPECT_EQ(seen("init", "t"), seen("fini", "t"));
        EXPECT_EQ(seen("open", "s") + seen("open", "t"), 2000);
        EXPECT_EQ(seen("close", "s") + seen("close", "t"), 2000);
    }));
}

TEST_CASE("of two threads that close one adapter, one succeeds")
{
    check_quiet(run(line("s", stub), [] {
        const DAT_IA_HANDLE keeper = opened("s");
        for (int i = 0; i < 200; ++i) {
            const DAT_IA_HANDLE ia = opened("s");
            std::atomic<int> closed{0};
            auto attempt = [&] { closed += close(ia) == DAT_SUCCESS; };
            std::thread other(attempt);
            attempt();
            other.join();
            EXPECT_EQ(closed.load(), 1);
        }
        EXPECT_EQ(close(keeper), DAT_SUCCESS);
    }));
}

TEST_CASE("a process may exit with adapters open")
{
    check_quiet(run(line("s", stub), [] { opened("s"); }));
}

namespace {

DAT_IA_HANDLE left_open;

void close_at_exit()
{
    EXPECT_EQ(close(left_open), DAT_SUCCESS);
}

} // namespace

TEST_CASE("an adapter may be closed from a function registered with atexit")
{
    check_quiet(run(line("s", stub), [] {
        std::atexit(close_at_exit);
        left_open = opened("s");
    }));
}
