// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Connection requests that do not come from libdapl-am of another rank. Rank 0 sends them to rank
// 1, by an adapter that it opens beside the job's, as any process of the host can. Its words are
// copied from a real request, or made with the secret of the job, which a stranger does not have.
#include "ranks.hpp"

#include "../../am/src/proof.hpp"
#include "osd_siphash.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <netinet/in.h>
#include <pmix.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

using namespace ranks;

namespace {

using bytes = std::vector<std::uint8_t>;

DAT_CONN_QUAL own_qualifier;
/// The words of this rank's library to each listener.
std::map<DAT_CONN_QUAL, bytes> said;

template <typename Function>
Function *next_of(Function *, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

/// The purposes in links.hpp.
enum : std::uint8_t { talk = 1, knock, elect, leave };

struct hello {
    std::uint32_t magic;
    std::uint8_t what;
    std::uint8_t unused[3];
    std::uint32_t rank;
    std::int32_t code;
    std::uint64_t number;
    std::array<std::uint64_t, 2> proof;
};

hello of(const bytes &heard)
{
    hello words{};
    std::memcpy(&words, heard.data(), std::min(heard.size(), sizeof words));
    return words;
}

bytes in_bytes(const hello &words)
{
    bytes result(sizeof words);
    std::memcpy(result.data(), &words, sizeof words);
    return result;
}

/// The end of what rank 0 has published: 16 bytes behind the place where it listens.
osd::siphash_key secret_of_job()
{
    pmix_proc_t rank_0{};
    std::strncpy(rank_0.nspace, std::getenv("PMIX_NAMESPACE"), PMIX_MAX_NSLEN);
    auto *const get = reinterpret_cast<decltype(&PMIx_Get)>(dlsym(RTLD_DEFAULT, "PMIx_Get"));
    pmix_value_t *found = nullptr;
    REQUIRE(get(&rank_0, "dapl-am.introduction", nullptr, 0, &found) == PMIX_SUCCESS);
    osd::siphash_key key;
    constexpr std::size_t behind = (sizeof(sockaddr_in6) + 7) / 8 * 8 + sizeof(DAT_CONN_QUAL);
    REQUIRE(found->data.bo.size >= behind + sizeof key);
    std::memcpy(&key, found->data.bo.bytes + behind, sizeof key);
    return key;
}

/// Adds the proof that belongs to a rank's words.
hello proven(hello words, std::uint32_t to)
{
    struct {
        std::uint32_t what, answer, from, to;
        std::uint64_t number, code;
    } const statement{words.what, 0, words.rank, to, words.number, std::uint32_t(words.code)};
    words.proof = osd::siphash(secret_of_job()).wide(&statement, sizeof statement);
    return words;
}

class stranger {
public:
    stranger()
    {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        REQUIRE(dat_ia_open(const_cast<char *>(dapl_am_adapter()), 8, &async, &ia_) == DAT_SUCCESS);
        REQUIRE(dat_pz_create(ia_, &pz_) == DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia_, 512, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &events_) ==
                DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia_, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &completions_) ==
                DAT_SUCCESS);
        DAT_IA_ATTR attr{};
        REQUIRE(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr) == DAT_SUCCESS);
        std::memcpy(&address_, attr.ia_address_ptr,
                    attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                               : sizeof(sockaddr_in));
    }
    ~stranger() { (void)dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG); }

    void send(DAT_CONN_QUAL to, const bytes &words)
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        REQUIRE(dat_ep_create(ia_, pz_, completions_, completions_, events_, nullptr, &ep) ==
                DAT_SUCCESS);
        bytes copy = words;
        const auto connect = next_of(&dat_ep_connect, "dat_ep_connect");
        REQUIRE(connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address_), to, 20'000'000,
                        DAT_COUNT(copy.size()), copy.empty() ? nullptr : copy.data(),
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
    }
    DAT_EVENT_NUMBER answer()
    {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        if (dat_evd_wait(events_, 30'000'000, 1, &event, &more) != DAT_SUCCESS)
            return DAT_EVENT_NUMBER(0);
        (void)dat_ep_free(event.event_data.connect_event_data.ep_handle);
        return event.event_number;
    }
    bool refused(DAT_CONN_QUAL to, const bytes &words)
    {
        send(to, words);
        return answer() == DAT_CONNECTION_EVENT_PEER_REJECTED;
    }
    bool refused(DAT_CONN_QUAL to, const hello &words) { return refused(to, in_bytes(words)); }

private:
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE events_ = DAT_HANDLE_NULL, completions_ = DAT_HANDLE_NULL;
    sockaddr_in6 address_{};
};

/// Finds where each rank listens: rank 0's segment gets the qualifiers. All ranks call it.
std::vector<DAT_CONN_QUAL> qualifiers()
{
    REQUIRE(barrier());
    REQUIRE(dapl_am_put(0, segment_of(0) + std::size_t(me()) * sizeof own_qualifier, &own_qualifier,
                        sizeof own_qualifier) == DAPL_AM_OK);
    REQUIRE(barrier());
    std::vector<DAT_CONN_QUAL> all(static_cast<std::size_t>(size()));
    REQUIRE(dapl_am_get(0, all.data(), segment_of(0), all.size() * sizeof all[0]) == DAPL_AM_OK);
    REQUIRE(barrier());
    return all;
}

/// The resources that a process has used, or holds.
struct usage {
    std::int64_t processor = 0; ///< microseconds
    std::int64_t service = 0;   ///< microseconds of the thread that takes the requests
    std::ptrdiff_t descriptors = 0;
    long memory = 0; ///< KiB of its own

    /// From its ticks, of which there are 100 a second.
    static std::int64_t of_thread(std::string_view name)
    {
        for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::ifstream file(task.path() / "stat");
            std::string line, field;
            std::getline(file, line);
            if (line.find("(" + std::string(name) + ")") == line.npos)
                continue;
            std::istringstream fields(line.substr(line.rfind(')') + 2));
            std::int64_t user = 0, system = 0;
            for (int i = 0; i < 11; ++i) // skips the fields from the state to the faults of
                                         // children
                fields >> field;
            fields >> user >> system;
            return (user + system) * (1'000'000 / sysconf(_SC_CLK_TCK));
        }
        return 0;
    }
    static usage now()
    {
        usage result;
        rusage used{};
        getrusage(RUSAGE_SELF, &used);
        for (const timeval &t : {used.ru_utime, used.ru_stime})
            result.processor += t.tv_sec * 1'000'000 + t.tv_usec;
        result.service = of_thread("am-links");
        const std::filesystem::directory_iterator all("/proc/self/fd");
        result.descriptors = std::distance(begin(all), end(all));
        std::FILE *file = std::fopen("/proc/self/status", "r");
        char line[128];
        while (file && std::fgets(line, sizeof line, file))
            if (std::strncmp(line, "RssAnon:", 8) == 0)
                result.memory = std::atol(line + 8);
        std::fclose(file);
        return result;
    }
};

constexpr int flood_size = 5'000;
constexpr int flood_rate = 5'000;

std::int64_t microseconds()
{
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

/// Sends requests, as many at a time as the attacked rank has room for.
void flood(DAT_CONN_QUAL to)
{
    constexpr int window = 64;
    stranger someone;
    hello words = of(said[to]);
    int sent = 0, refused = 0;
    const std::int64_t begin = microseconds();
    for (int answered = 0; answered < flood_size; ++answered) {
        for (; sent < flood_size && sent < answered + window; ++sent) {
            words.proof[0] = std::uint64_t(sent);
            while (sent > (microseconds() - begin) * flood_rate / 1'000'000)
                usleep(1000);
            someone.send(to, in_bytes(words));
        }
        refused += someone.answer() == DAT_CONNECTION_EVENT_PEER_REJECTED;
    }
    MESSAGE("requests a second: " << std::int64_t{flood_size} * 1'000'000 /
                                         (microseconds() - begin));
    CHECK(refused > flood_size / 2); // others found the queue of requests full
}

} // namespace

DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE events,
                              DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp)
{
    const DAT_RETURN code =
        next_of(&dat_psp_create_any, "dat_psp_create_any")(ia, qualifier, events, flags, psp);
    own_qualifier = *qualifier;
    return code;
}

DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier,
                          DAT_TIMEOUT timeout, DAT_COUNT size, DAT_PVOID data, DAT_QOS qos,
                          DAT_CONNECT_FLAGS flags)
{
    const auto *words = static_cast<const std::uint8_t *>(data);
    said[qualifier] = bytes(words, words + size);
    return next_of(&dat_ep_connect, "dat_ep_connect")(ep, address, qualifier, timeout, size, data,
                                                      qos, flags);
}

TEST_CASE("what does not prove that it is a rank is refused, and the job goes on")
{
    if (size() == 1)
        return;
    const std::vector<DAT_CONN_QUAL> to = qualifiers();
    if (me() == 0) {
        stranger someone;
        const hello heard = of(said[to[1]]); // rank 0 has connected by this
        REQUIRE(heard.what == talk);
        CHECK(someone.refused(to[1], bytes{}));
        CHECK(someone.refused(to[1], bytes(40)));
        CHECK(someone.refused(to[1], said[to[1]])); // a second time
        for (const std::uint8_t what : {talk, knock, elect, leave}) {
            hello other = heard;
            other.what = what;
            ++other.number;
            CHECK(someone.refused(to[1], other));
        }
        for (int rank = 2; rank < size(); ++rank)
            CHECK(someone.refused(to[std::size_t(rank)], said[to[1]]));
    }
    REQUIRE(barrier());
}

TEST_CASE("a proof is for one rank, one purpose, one number")
{
    if (size() == 1)
        return;
    const std::vector<DAT_CONN_QUAL> to = qualifiers();
    if (me() == 0) {
        stranger someone;
        const hello heard = of(said[to[1]]);
        REQUIRE(proven(heard, 1).proof == heard.proof);
        CHECK(someone.refused(to[1], proven(heard, 1)));
        hello next = heard;
        next.number = heard.number + 1;
        CHECK(someone.refused(to[1], proven(next, 0)));
        hello as_leave = proven(next, 1);
        as_leave.what = leave;
        CHECK(someone.refused(to[1], as_leave));
        hello other_code = proven(next, 1);
        other_code.code = 1;
        CHECK(someone.refused(to[1], other_code));
        hello other_rank = proven(next, 1);
        other_rank.rank = 1;
        CHECK(someone.refused(to[1], other_rank));
        other_rank.rank = unsigned(size());
        CHECK(someone.refused(to[1], proven(other_rank, 1)));
        hello no_purpose = next;
        no_purpose.what = leave + 1;
        no_purpose.number += 30; // rank 0's own next requests are not older than those known
        CHECK(someone.refused(to[1], proven(no_purpose, 1)));
        CHECK(someone.refused(to[1], proven(no_purpose, 1)));
    }
    REQUIRE(barrier());
}

TEST_CASE("each number of a request is new once, and what is much older is not")
{
    am::number_window heard;
    CHECK(!heard.is_new(0));
    for (const std::uint64_t number : {3, 1, 2, 70, 7, 69}) {
        CHECK(heard.is_new(number));
        CHECK(!heard.is_new(number));
    }
    CHECK(!heard.is_new(6)); // 64 below the highest
    CHECK(!heard.is_new(1));
    CHECK(heard.is_new(~std::uint64_t{0}));
    CHECK(!heard.is_new(70));
}

TEST_CASE("a live connection is not replaced, whoever asks for it")
{
    if (size() == 1)
        return;
    const std::vector<DAT_CONN_QUAL> to = qualifiers();
    if (me() == 0) {
        stranger someone;
        hello again = of(said[to[1]]);
        again.number += 32;
        CHECK(someone.refused(to[1], proven(again, 1)));
        std::uint64_t value = 0;
        CHECK(dapl_am_put_val(1, segment_of(1), 77, 8) == DAPL_AM_OK);
        CHECK(dapl_am_get_val(1, segment_of(1), 8, &value) == DAPL_AM_OK);
        CHECK(value == 77);
    }
    REQUIRE(barrier());
}

/// What a rank takes of something during a flood: the least of several, since others use the
/// processors as well, and an adapter keeps more of what comes while it cannot run.
struct flood_cost {
    double all = 1e9, service = 1e9; ///< microseconds of processor for a request
    int descriptors = 1'000'000;
    long memory = 1'000'000; ///< KiB

    void take(const usage &before, const usage &after)
    {
        all = std::min(all, double(after.processor - before.processor) / flood_size);
        service = std::min(service, double(after.service - before.service) / flood_size);
        descriptors = std::min(descriptors, int(after.descriptors - before.descriptors));
        memory = std::min(memory, after.memory - before.memory);
    }
};

/// Floods rank 1, while the others wait for the number of this flood.
void flood_once(const std::vector<DAT_CONN_QUAL> &to, std::uint64_t number)
{
    volatile auto *over = reinterpret_cast<std::uint64_t *>(mine() + 4096);
    if (me() == 0) {
        flood(to[1]);
        for (int rank = 1; rank < size(); ++rank)
            CHECK(dapl_am_put_val(rank, segment_of(rank) + 4096, number, 8) == DAPL_AM_OK);
    } else {
        while (*over != number)
            usleep(10'000);
    }
}

TEST_CASE("a flood of requests costs a rank little, and leaves nothing behind")
{
    if (size() == 1)
        return;
    constexpr std::uint64_t warm_up = 2, floods = 5; // the engine's own tables are full after two
    const std::vector<DAT_CONN_QUAL> to = qualifiers();
    *reinterpret_cast<std::uint64_t *>(mine() + 4096) = 0;
    flood_cost cost;
    for (std::uint64_t number = 1; number <= floods; ++number) {
        REQUIRE(barrier());
        const usage before = usage::now();
        flood_once(to, number);
        if (number > warm_up)
            cost.take(before, usage::now());
    }
    if (me() == 1) {
        MESSAGE("microseconds of processor for a refused request: "
                << cost.all << ", of these " << cost.service << " of the service thread");
        CHECK(cost.service <= 50); // 5,000 a second: a quarter of a processor
        CHECK(cost.all <= 100);    // includes the adapter's threads
        // Some adapters have one for each request that is under way.
        CHECK(cost.descriptors <= 64);
        CHECK(cost.memory < 1024);
    }
    REQUIRE(barrier());
}
