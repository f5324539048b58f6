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
#include <sys/mman.h>
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
        {"-inline0", "inline=0"},
        {"-odp", "odp=1"},
        {"-relaxed", "relaxed_ordering=1"},
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

// ---------------------------------------------------------------------------- memory

namespace {

/// Memory that devices read and processors do not, as a GPU's may be. It is here while this lives.
class device_memory {
public:
    static constexpr std::size_t size = 4096;

    device_memory()
        : address_(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          behind_(size, 'd')
    {
        REQUIRE(address_ != MAP_FAILED);
        stand_in::add_device_memory(address_, size, behind_.data());
    }
    device_memory(const device_memory &) = delete;
    device_memory &operator=(const device_memory &) = delete;
    ~device_memory()
    {
        stand_in::forget_device_memory();
        ::munmap(address_, size);
    }
    void *address() const { return address_; }

private:
    void *address_;
    std::vector<char> behind_;
};

/// Registers memory for everything; the triplet of its first 16 bytes.
DAT_LMR_TRIPLET registered(adapter &ia, DAT_PZ_HANDLE pz, void *address, std::size_t size)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_va = address;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET at{};
    DAT_RMR_CONTEXT remote = 0;
    DAT_VLEN length = 0;
    MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, size, pz, DAT_MEM_PRIV_ALL_FLAG,
                        DAT_VA_TYPE_VA, &lmr, &at.lmr_context, &remote, &length,
                        &at.virtual_address));
    at.segment_length = 16;
    return at;
}

} // namespace

TEST_CASE("memory that no processor reads is sent all the same, and only by the device")
{
    adapter ia;
    connected_pair pair(ia);
    const device_memory gpu;
    std::size_t before = stand_in::inline_posts();
    move_data(pair.active, pair.passive);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() > before);
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);

    DAT_LMR_TRIPLET from = registered(ia, pair.active.pz, gpu.address(), gpu.size);
    before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(dat_ep_post_send(pair.active.ep, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(pair.passive.recv_evd).transfered_length == 16);
    CHECK(pair.passive.memory.bytes[0] == 'd');
    CHECK(pair.passive.memory.bytes[15] == 'd');
    CHECK(stand_in::inline_posts() == before);

    // So is it for an endpoint that is made or reset later.
    MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    MUST(dat_ep_reset(pair.active.ep));
    MUST(dat_ep_reset(pair.passive.ep));
    establish(pair.active, pair.passive);
    MUST(pair.passive.recv(0, 64));
    MUST(dat_ep_post_send(pair.active.ep, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(stand_in::inline_posts() == before);
}

TEST_CASE("memory of another zone does not keep short messages from travelling inside requests")
{
    adapter ia;
    connected_pair pair(ia);
    const device_memory gpu;
    (void)registered(ia, make_pz(ia), gpu.address(), gpu.size);
    const std::size_t before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() == before + 1);
}

TEST_CASE("inline=0: nothing travels inside requests")
{
    adapter ia(named("-inline0"));
    connected_pair pair(ia);
    const std::size_t before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() == before);
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("odp=, relaxed_ordering=: rights of regions, off unless asked for")
{
    constexpr unsigned on_demand = 1 << 6, relaxed = 1 << 20; // of verbs
    const std::pair<const char *, unsigned> adapters[] = {
        {"", 0}, {"-odp", on_demand}, {"-relaxed", relaxed}};
    for (const auto &[suffix, rights] : adapters) {
        INFO(std::string(suffix));
        adapter ia(named(suffix));
        connected_pair pair(ia);
        CHECK((stand_in::rights_of_regions().back() & (on_demand | relaxed)) == rights);
        move_data(pair.active, pair.passive);
    }
}

TEST_CASE("odp=1 is refused where the device has no paging on demand")
{
    stand_in::device().on_demand_paging = false;
    const std::string log = refusal_of("-odp");
    stand_in::device().on_demand_paging = true;
    INFO(log);
    CHECK(log.find("odp=1") != std::string::npos);
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
