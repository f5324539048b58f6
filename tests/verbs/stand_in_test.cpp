// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verbs port on a device that has what no device of the virtual machine has, and that fails
// when it is told to.
//
//   stand_in_test LIBRARY [doctest's options]
#include "harness/support.hpp"
#include "stand_in/stand_in.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <unistd.h>

using namespace conformance;

namespace {

constexpr const char *ia_name = "verbs-stand-in";

/// Writes a dat.conf with adapters that differ by their parameters. False if it cannot.
bool write_registry(const std::string &path, const std::string &library)
{
    const std::pair<const char *, const char *> lines[] = {
        {"", ""},
        {"-vector2", "vector=2"},
        {"-vector9", "vector=9"},
    };
    std::FILE *file = std::fopen(path.c_str(), "w");
    if (file == nullptr)
        return false;
    for (const auto &[suffix, params] : lines)
        std::fprintf(file, "%s%s u2.0 nonthreadsafe default %s dapl.2.0 \"standin0 1 %s\" \"\"\n",
                     ia_name, suffix, library.c_str(), params);
    return std::fclose(file) == 0;
}

std::string named(const char *suffix)
{
    return ia_name + std::string(suffix);
}

/// Sends the log elsewhere while it lives.
class log_of_now {
public:
    log_of_now() : error_output_(::dup(STDERR_FILENO)), instead_(std::tmpfile())
    {
        REQUIRE(instead_ != nullptr);
        ::dup2(::fileno(instead_), STDERR_FILENO);
    }
    log_of_now(const log_of_now &) = delete;
    log_of_now &operator=(const log_of_now &) = delete;
    ~log_of_now()
    {
        (void)end();
        std::fclose(instead_);
    }
    std::string end()
    {
        if (error_output_ >= 0) {
            ::dup2(error_output_, STDERR_FILENO);
            ::close(error_output_);
            error_output_ = -1;
        }
        return text();
    }
    std::string text() const
    {
        std::string log(65'536, ' ');
        const ssize_t size = ::pread(::fileno(instead_), log.data(), log.size(), 0);
        log.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return log;
    }

private:
    int error_output_;
    std::FILE *instead_;
};

/// Returns the log of an adapter of this name that cannot be opened.
std::string refusal_of(const char *suffix)
{
    log_of_now log;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    CHECK(same_type(open_adapter(named(suffix), &async, &ia), DAT_INVALID_PARAMETER));
    return log.end();
}

} // namespace

// ---------------------------------------------------------------------------- vectors

namespace {

std::size_t processors()
{
    return static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

} // namespace

TEST_CASE("EVDs made by one thread have different completion vectors")
{
    adapter ia;
    const std::size_t before = stand_in::vectors_in_use().size();
    for (int i = 0; i < 4; ++i)
        (void)make_evd(ia, DAT_EVD_DTO_FLAG);
    const std::vector<int> all = stand_in::vectors_in_use();
    const std::set<int> used(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    CHECK(used.size() == std::min<std::size_t>(4, processors()));
}

TEST_CASE("the vector of an EVD that is freed is given to the next")
{
    adapter ia;
    DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
    std::set<int> used;
    for (int round = 0; round < 8; ++round) {
        MUST(dat_evd_free(evd));
        evd = make_evd(ia, DAT_EVD_DTO_FLAG);
        used.insert(stand_in::vectors_in_use().back());
    }
    CHECK(used.size() <= processors());
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("vector=: all EVDs have that one")
{
    adapter ia(named("-vector2"));
    const std::size_t before = stand_in::vectors_in_use().size();
    for (int i = 0; i < 4; ++i)
        (void)make_evd(ia, DAT_EVD_DTO_FLAG);
    const std::vector<int> all = stand_in::vectors_in_use();
    for (std::size_t i = before; i < all.size(); ++i)
        CHECK(all[i] == 2);
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("vector=: a vector that the device has not is refused, and the log says which it has")
{
    const std::string log = refusal_of("-vector9");
    INFO(log);
    CHECK(log.find("vector=9") != std::string::npos);
    CHECK(log.find("0 to 3") != std::string::npos);
}

// ---------------------------------------------------------------------------- connections

TEST_CASE("connections that the peer has ended leave no identifier behind")
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    const std::size_t before = stand_in::identifiers();
    for (int round = 0; round < 20; ++round) {
        establish(from, to);
        MUST(from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        next_connection(to.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(from.ep));
        MUST(dat_ep_reset(to.ep));
    }
    CHECK(becomes_true([&] { return stand_in::identifiers() <= before; }));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: stand_in_test LIBRARY [doctest's options]\n");
        return 2;
    }
    const std::string registry = "/tmp/stand-in-" + std::to_string(::getpid()) + ".conf";
    ::setenv("DAT_OVERRIDE", registry.c_str(), 1);
    ::setenv("DAPL_DBG_TYPE", "0x3", 1); // errors and warnings
    the_settings().ia = ia_name;
    doctest::Context context(argc - 1, argv + 1);
    const int result = write_registry(registry, argv[1]) ? context.run() : 2;
    ::unlink(registry.c_str());
    return result;
}
