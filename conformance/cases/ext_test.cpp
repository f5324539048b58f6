// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The IB extension: RDMA writes with immediate data, and atomics.
#include "harness/support.hpp"

#include "program/system.hpp"

#include <dat2/dat_ib_extensions.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <unistd.h>

namespace conformance {

namespace {

#define NEED_EXTENSION(ia, attribute, what)                                                        \
    do {                                                                                           \
        if (!offers(ia.provider, attribute))                                                       \
            NOT_CLAIMED(what);                                                                     \
    } while (false)
#define NEED_IMMEDIATE(ia) NEED_EXTENSION(ia, DAT_IB_ATTR_IMMED_DATA, "immediate data")
#define NEED_FETCH_ADD(ia) NEED_EXTENSION(ia, DAT_IB_ATTR_FETCH_AND_ADD, "fetch-and-add")
#define NEED_CMP_SWAP(ia) NEED_EXTENSION(ia, DAT_IB_ATTR_CMP_AND_SWAP, "compare-and-swap")

DAT_RETURN write_immediate(test_endpoint &by, std::size_t offset, std::size_t length,
                           DAT_RMR_TRIPLET to, DAT_UINT32 data, std::uint64_t cookie = 0,
                           DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG)
{
    DAT_LMR_TRIPLET local = by.memory.local(offset, length);
    return dat_ib_post_rdma_write_immed(by.ep, 1, &local, cookie_of(cookie), &to, data, flags);
}

DAT_RETURN fetch_add(test_endpoint &by, std::size_t result, DAT_RMR_TRIPLET word, std::uint64_t add,
                     std::uint64_t cookie = 0)
{
    DAT_LMR_TRIPLET local = by.memory.local(result, 8);
    return dat_ib_post_fetch_and_add(by.ep, add, &local, cookie_of(cookie), &word,
                                     DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN compare_swap(test_endpoint &by, std::size_t result, DAT_RMR_TRIPLET word,
                        std::uint64_t compare, std::uint64_t swap, std::uint64_t cookie = 0)
{
    DAT_LMR_TRIPLET local = by.memory.local(result, 8);
    return dat_ib_post_cmp_and_swap(by.ep, compare, swap, &local, cookie_of(cookie), &word,
                                    DAT_COMPLETION_DEFAULT_FLAG);
}

/// The next event, which shall be the extension's, of this type.
struct extended_event {
    DAT_DTO_COMPLETION_EVENT_DATA dto;
    DAT_IB_EXTENSION_EVENT_DATA more;
};
extended_event next_extended(DAT_EVD_HANDLE evd, DAT_IB_EXT_TYPE type, DAT_IB_DTOS operation)
{
    const DAT_EVENT event = next_event(evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
    extended_event out{event.event_data.dto_completion_event_data, {}};
    std::memcpy(&out.more, event.event_extension_data, sizeof out.more);
    CHECK(out.more.type == type);
    CHECK(static_cast<int>(out.dto.operation) == operation);
    return out;
}

void expect_done(const extended_event &event, std::uint64_t cookie)
{
    CHECK(event.dto.status == DAT_DTO_SUCCESS);
    CHECK(event.more.status == DAT_OP_SUCCESS);
    CHECK(event.dto.user_cookie.as_64 == cookie);
}

/// An end whose memory others may change by atomics.
struct counter {
    explicit counter(test_endpoint &at) : memory(at.ia, at.pz, 64, rights()) {}

    static DAT_MEM_PRIV_FLAGS rights()
    {
        return static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_ALL_FLAG} |
                                               unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC});
    }
    void set(std::uint64_t value) { std::memcpy(memory.bytes.data(), &value, sizeof value); }
    std::uint64_t get() const { return word_at(memory, 0); }
    DAT_RMR_TRIPLET remote() const { return memory.remote(0, 8); }
    static std::uint64_t word_at(const region &where, std::size_t offset)
    {
        std::uint64_t value = 0;
        std::memcpy(&value, where.bytes.data() + offset, sizeof value);
        return value;
    }

    region memory;
};

} // namespace

TEST_CASE("EXT-01: what the adapter's attributes do not name is refused" * needs("extensions") *
          hint("answer success, and post nothing"))
{
    adapter ia;
    connected_pair pair(ia);
    if (ia.attr.extension_supported == DAT_EXTENSION_NONE)
        NOT_CLAIMED("extensions"); // REG-07 has the refusals
    CHECK(ia.attr.extension_supported == DAT_EXTENSION_IB);
    CHECK(ia.attr.extension_version > 0);
    const DAT_RMR_TRIPLET to = pair.passive.memory.remote(0, 8);
    if (!offers(ia.provider, DAT_IB_ATTR_IMMED_DATA))
        CHECK(refused(write_immediate(pair.active, 0, 8, to, 1)));
    if (!offers(ia.provider, DAT_IB_ATTR_FETCH_AND_ADD))
        CHECK(refused(fetch_add(pair.active, 0, to, 1)));
    if (!offers(ia.provider, DAT_IB_ATTR_CMP_AND_SWAP))
        CHECK(refused(compare_swap(pair.active, 0, to, 1, 2)));
    CHECK(refused(dat_extension_op(pair.active.ep, 0x4321)));
    CHECK(stays_empty(pair.active.request_evd));
}

TEST_CASE("EXT-02: a write with immediate data places its bytes, then takes a receive" *
          needs("immediate_data") *
          hint("deliver the immediate data in the network's byte order, or a plain receive event"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    connected_pair pair(ia);
    std::uint64_t cookie = 10;
    for (const std::size_t size : {std::size_t{8}, std::size_t{64}, std::size_t{32768}}) {
        CAPTURE(size);
        pair.active.memory.fill(0, size, static_cast<unsigned>(size));
        MUST(pair.passive.recv(60'000, 16, cookie + 1));
        MUST(write_immediate(pair.active, 0, size, pair.passive.memory.remote(0, size), 0x01020304,
                             cookie));
        const auto sent = next_extended(pair.active.request_evd, DAT_IB_RDMA_WRITE_IMMED,
                                        DAT_IB_DTO_RDMA_WRITE_IMMED);
        expect_done(sent, cookie);
        CHECK(sent.dto.transfered_length == size);
        const auto got = next_extended(pair.passive.recv_evd, DAT_IB_RDMA_WRITE_IMMED_DATA,
                                       DAT_IB_DTO_RECV_IMMED);
        expect_done(got, cookie + 1);
        CHECK(got.more.val.immed.data == 0x01020304);
        CHECK(got.dto.ep_handle == pair.passive.ep);
        CHECK(pair.passive.memory.holds(0, size, static_cast<unsigned>(size)));
        cookie += 2;
    }
}

TEST_CASE("EXT-03: immediate data and messages take receives in the order they were sent" *
          needs("immediate_data") *
          hint("complete writes with immediate data on a path of their own"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    connected_pair pair(ia);
    constexpr std::uint64_t number = 15; // an endpoint has room for 16 receives at least
    for (std::uint64_t i = 0; i < number; ++i)
        MUST(pair.passive.recv(i * 64, 64, i));
    for (std::uint64_t i = 0; i < number; ++i)
        MUST(i % 3 == 0
                 ? pair.active.send(0, 32, i)
                 : write_immediate(pair.active, 0, 16, pair.passive.memory.remote(32'768, 16),
                                   static_cast<DAT_UINT32>(1000 + i), i));
    for (std::uint64_t i = 0; i < number; ++i) {
        CAPTURE(i);
        if (i % 3 == 0) {
            CHECK(next_dto(pair.active.request_evd).user_cookie.as_64 == i);
            CHECK(next_dto(pair.passive.recv_evd).user_cookie.as_64 == i);
            continue;
        }
        expect_done(next_extended(pair.active.request_evd, DAT_IB_RDMA_WRITE_IMMED,
                                  DAT_IB_DTO_RDMA_WRITE_IMMED),
                    i);
        const auto got = next_extended(pair.passive.recv_evd, DAT_IB_RDMA_WRITE_IMMED_DATA,
                                       DAT_IB_DTO_RECV_IMMED);
        expect_done(got, i);
        CHECK(got.more.val.immed.data == 1000 + i);
    }
}

TEST_CASE("EXT-04: a write with immediate data may be silent at its end, not at the other" *
          needs("immediate_data") * hint("suppress the target's event with the initiator's"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 8, 1));
    MUST(write_immediate(pair.active, 0, 8, pair.passive.memory.remote(64, 8), 5, 2,
                         DAT_COMPLETION_SUPPRESS_FLAG));
    const auto got =
        next_extended(pair.passive.recv_evd, DAT_IB_RDMA_WRITE_IMMED_DATA, DAT_IB_DTO_RECV_IMMED);
    CHECK(got.more.val.immed.data == 5);
    CHECK(stays_empty(pair.active.request_evd));
    move_data(pair.active, pair.passive);
}

TEST_CASE("EXT-05: a write with immediate data checks its arguments" * needs("immediate_data") *
          hint("write beyond the remote segment"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    test_endpoint lonely(ia);
    CHECK(
        same_type(write_immediate(lonely, 0, 8, lonely.memory.remote(0, 8), 1), DAT_INVALID_STATE));
    connected_pair pair(ia);
    CHECK(same_type(write_immediate(pair.active, 0, 9, pair.passive.memory.remote(0, 8), 1),
                    DAT_LENGTH_ERROR));
    DAT_LMR_TRIPLET local = pair.active.memory.local(0, 8);
    DAT_RMR_TRIPLET remote = pair.passive.memory.remote(0, 8);
    CHECK(same_type(dat_ib_post_rdma_write_immed(ia.handle, 1, &local, cookie_of(0), &remote, 1,
                                                 DAT_COMPLETION_DEFAULT_FLAG),
                    DAT_INVALID_HANDLE));
    CHECK(stays_empty(pair.active.request_evd, milliseconds(30)));
}

TEST_CASE("EXT-06: after a disconnect, a write with immediate data completes flushed" *
          needs("immediate_data") * hint("refuse it, or lose it"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    connected_pair pair(ia);
    MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    MUST(write_immediate(pair.active, 0, 8, pair.passive.memory.remote(0, 8), 1, 77));
    const auto back = next_extended(pair.active.request_evd, DAT_IB_RDMA_WRITE_IMMED,
                                    DAT_IB_DTO_RDMA_WRITE_IMMED);
    CHECK(back.dto.status == DAT_DTO_ERR_FLUSHED);
    CHECK(back.dto.user_cookie.as_64 == 77);
    CHECK(back.more.status == DAT_IB_OP_ERR);
}

TEST_CASE("EXT-07: fetch-and-add answers what was there, and adds" * needs("atomics") *
          hint("answer the sum, or swap the bytes of the words"))
{
    adapter ia;
    NEED_FETCH_ADD(ia);
    connected_pair pair(ia);
    counter shared(pair.passive);
    std::uint64_t expected = 0xfffffffffffffff0;
    shared.set(expected);
    for (const std::uint64_t add : {std::uint64_t{1}, std::uint64_t{0x0102030405060708},
                                    std::uint64_t{0}, ~std::uint64_t{0}}) {
        MUST(fetch_add(pair.active, 0, shared.remote(), add, add));
        expect_done(
            next_extended(pair.active.request_evd, DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD),
            add);
        CHECK(counter::word_at(pair.active.memory, 0) == expected);
        expected += add;
        CHECK(shared.get() == expected);
    }
}

TEST_CASE("EXT-08: compare-and-swap stores where the comparison holds only" * needs("atomics") *
          hint("store always, or mix up the two operands"))
{
    adapter ia;
    NEED_CMP_SWAP(ia);
    connected_pair pair(ia);
    counter shared(pair.passive);
    shared.set(5);
    MUST(compare_swap(pair.active, 0, shared.remote(), 4, 9, 1));
    expect_done(next_extended(pair.active.request_evd, DAT_IB_CMP_AND_SWAP, DAT_IB_DTO_CMP_SWAP),
                1);
    CHECK(counter::word_at(pair.active.memory, 0) == 5);
    CHECK(shared.get() == 5);
    MUST(compare_swap(pair.active, 0, shared.remote(), 5, 9, 2));
    expect_done(next_extended(pair.active.request_evd, DAT_IB_CMP_AND_SWAP, DAT_IB_DTO_CMP_SWAP),
                2);
    CHECK(counter::word_at(pair.active.memory, 0) == 5);
    CHECK(shared.get() == 9);
}

TEST_CASE("EXT-09: what two endpoints add at the same time is all counted" * needs("atomics") *
          hint("read, add and write without holding the word"))
{
    adapter ia;
    NEED_FETCH_ADD(ia);
    connected_pair one(ia);
    endpoint_options options;
    options.qlen = 512;
    connected_pair two(ia, options);
    counter shared(one.passive);
    // A region in another zone has a key of its own for the word.
    DAT_LMR_HANDLE again = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT key = 0;
    DAT_REGION_DESCRIPTION where{};
    where.for_va = shared.memory.bytes.data();
    MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, 64, two.passive.pz,
                        counter::rights(), DAT_VA_TYPE_VA, &again, &local, &key, nullptr, nullptr));
    DAT_RMR_TRIPLET other = shared.remote();
    other.rmr_context = key;
    constexpr int number = 200;
    for (int i = 0; i < number; ++i) {
        MUST(fetch_add(one.active, 0, shared.remote(), 1));
        MUST(fetch_add(two.active, 0, other, 1));
        for (test_endpoint *by : {&one.active, &two.active})
            expect_done(next_extended(by->request_evd, DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD),
                        0);
    }
    CHECK(shared.get() == 2 * number);
    MUST(dat_lmr_free(again));
}

TEST_CASE("EXT-10: atomics check length and alignment" * needs("atomics") *
          hint("let the device change half a word"))
{
    adapter ia;
    NEED_FETCH_ADD(ia);
    connected_pair pair(ia);
    counter shared(pair.passive);
    shared.set(1);
    CHECK(
        same_type(fetch_add(pair.active, 0, shared.memory.remote(4, 8), 1), DAT_INVALID_PARAMETER));
    CHECK(same_type(fetch_add(pair.active, 0, shared.memory.remote(0, 4), 1), DAT_LENGTH_ERROR));
    CHECK(stays_empty(pair.active.request_evd, milliseconds(30)));
    CHECK(shared.get() == 1);
}

TEST_CASE("EXT-11: memory without the right is out of reach of atomics" * needs("atomics") *
          hint("give every region the right, or check it nowhere"))
{
    adapter ia;
    NEED_FETCH_ADD(ia);
    connected_pair pair(ia);
    std::memset(pair.passive.memory.bytes.data(), 0, 8);
    MUST(fetch_add(pair.active, 0, pair.passive.memory.remote(0, 8), 1));
    const auto back =
        next_extended(pair.active.request_evd, DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD);
    CHECK(back.dto.status != DAT_DTO_SUCCESS);
    CHECK(back.more.status == DAT_IB_OP_ERR);
    CHECK(ends_connection(next_event(pair.active.connect_evd).event_number));
    CHECK(counter::word_at(pair.passive.memory, 0) == 0);
}

namespace {

struct quick_query {
    DAT_RETURN open(const char *name, std::uint64_t ia_mask = DAT_IA_FIELD_ALL,
                    std::uint64_t provider_mask = DAT_PROVIDER_FIELD_ALL)
    {
        return dat_ib_open_query(const_cast<char *>(name), &handle, ia_mask, &attr, provider_mask,
                                 &provider);
    }
    DAT_HANDLE handle = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
};

} // namespace

TEST_CASE("EXT-12: a quick query tells the attributes of an adapter that is not open" *
          needs("quick_query") *
          hint("tell other attributes than dat_ia_query, or open an adapter"))
{
    const std::string &name = the_settings().ia;
    quick_query asked;
    const DAT_RETURN code = asked.open(name.c_str());
    if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED)
        NOT_CLAIMED("quick queries");
    MUST(code);
    adapter ia; // opens it beside the query
    CHECK(std::strcmp(asked.attr.adapter_name, ia.attr.adapter_name) == 0);
    CHECK(std::strcmp(asked.attr.vendor_name, ia.attr.vendor_name) == 0);
    CHECK(asked.attr.max_eps == ia.attr.max_eps);
    CHECK(asked.attr.max_evd_qlen == ia.attr.max_evd_qlen);
    CHECK(asked.attr.max_message_size == ia.attr.max_message_size);
    CHECK(asked.attr.extension_supported == ia.attr.extension_supported);
    REQUIRE(asked.attr.ia_address_ptr != nullptr);
    CHECK(std::memcmp(asked.attr.ia_address_ptr, ia.attr.ia_address_ptr, sizeof(sockaddr_in)) == 0);
    CHECK(asked.provider.provider_name == name);
    CHECK(asked.provider.max_private_data_size == ia.provider.max_private_data_size);
    CHECK(asked.provider.num_provider_specific_attr == ia.provider.num_provider_specific_attr);
    CHECK(offers(asked.provider, DAT_IB_ATTR_IMMED_DATA) ==
          offers(ia.provider, DAT_IB_ATTR_IMMED_DATA));
    MUST(dat_ib_close_query(asked.handle));
    CHECK(ia.close(DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS);
}

TEST_CASE("EXT-13: a quick query checks its arguments, and its handle is no adapter" *
          needs("quick_query") *
          hint("write attributes that were not asked for, or keep the device open"))
{
    const char *name = the_settings().ia.c_str();
    quick_query asked;
    const DAT_RETURN code = asked.open(name);
    if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED)
        NOT_CLAIMED("quick queries");
    MUST(code);
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    CHECK(same_code(dat_pz_create(asked.handle, &pz), bad_handle(DAT_INVALID_HANDLE_IA)));
    quick_query second;
    MUST(second.open(name, 0, 0)); // two at once
    CHECK(second.handle != asked.handle);
    MUST(dat_ib_close_query(second.handle));
    MUST(dat_ib_close_query(asked.handle));
    CHECK(same_code(dat_ib_close_query(asked.handle), bad_handle(DAT_INVALID_HANDLE_IA)));

    quick_query wrong;
    CHECK(same_code(wrong.open(nullptr), bad_arg(1)));
    CHECK(same_type(wrong.open("no-such-adapter"), DAT_PROVIDER_NOT_FOUND));
    CHECK(same_code(wrong.open(name, std::uint64_t{1} << 63), bad_arg(3)));
    CHECK(same_code(wrong.open(name, 0, std::uint64_t{1} << 63), bad_arg(5)));
    CHECK(same_code(dat_ib_open_query(const_cast<char *>(name), &wrong.handle, DAT_IA_FIELD_ALL,
                                      nullptr, std::uint64_t{0}, nullptr),
                    bad_arg(4)));
    CHECK(same_code(dat_ib_open_query(const_cast<char *>(name), &wrong.handle, std::uint64_t{0},
                                      nullptr, DAT_PROVIDER_FIELD_ALL, nullptr),
                    bad_arg(6)));
    CHECK(same_code(dat_ib_open_query(const_cast<char *>(name), nullptr, std::uint64_t{0}, nullptr,
                                      std::uint64_t{0}, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(wrong.handle == DAT_HANDLE_NULL);
    CHECK(wrong.attr.max_eps == 0);
    CHECK(same_code(dat_ib_close_query(wrong.handle), bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(same_code(dat_ib_close_query(&wrong), bad_handle(DAT_INVALID_HANDLE_IA)));
}

TEST_CASE("EXT-14: operations of the extension that no port offers are NOT_IMPLEMENTED" *
          hint("know some of the numbers by chance, and read arguments that are not there") *
          needs("extensions"))
{
    adapter ia;
    connected_pair pair(ia);
    if (ia.attr.extension_supported == DAT_EXTENSION_NONE)
        NOT_CLAIMED("extensions"); // REG-07 has the refusals
    if (ia.attr.extension_supported != DAT_EXTENSION_IB)
        NOT_CLAIMED("the InfiniBand extension");
    const auto expect_unknown = [&](int operation) {
        CAPTURE(operation);
        for (DAT_HANDLE at : {pair.active.ep, ia.handle})
            CHECK(same_type(dat_extension_op(at, static_cast<DAT_EXTENDED_OP>(operation), nullptr,
                                             nullptr, nullptr, nullptr),
                            DAT_NOT_IMPLEMENTED));
    };
    if (!offers(ia.provider, DAT_IB_ATTR_UD)) {
        expect_unknown(DAT_IB_UD_SEND_OP);
        expect_unknown(DAT_IB_UD_CM_FREE_OP);
        expect_unknown(DAT_IB_UD_AH_FREE_OP);
    }
    for (int operation = DAT_IB_COLLECTIVE_CREATE_MEMBER_OP;
         operation <= DAT_IB_COLLECTIVE_BARRIER_OP; ++operation)
        expect_unknown(operation);
    CHECK(stays_empty(pair.active.request_evd, milliseconds(1)));
    move_data(pair.active, pair.passive);
}

TEST_CASE("EXT-15: atomics of many threads and two adapters lose nothing" *
          hint("read, change and write without keeping out the others") * needs("atomics"))
{
    adapter ia;
    adapter second;
    NEED_FETCH_ADD(ia);
    NEED_CMP_SWAP(ia);
    test_endpoint home(ia);
    counter at(home);
    constexpr std::uint64_t each = 40;
    constexpr std::size_t number = 4;
    std::atomic<int> failures{0};
    // Each endpoint has a connection of its own into one zone; all change one word.
    std::vector<std::unique_ptr<test_endpoint>> from;
    std::vector<std::unique_ptr<test_endpoint>> to;
    for (std::size_t i = 0; i < number; ++i) {
        from.push_back(std::make_unique<test_endpoint>(i % 2 == 0 ? ia : second));
        to.push_back(std::make_unique<test_endpoint>(ia));
        test_endpoint &made = *to[i];
        MUST(made.free_ep());
        MUST(dat_ep_create(ia.handle, home.pz, made.recv_evd, made.request_evd, made.connect_evd,
                           nullptr, &made.ep));
        establish(*from[i], made);
    }
    at.set(0);
    MUST(fetch_add(*from[0], 0, at.remote(), 0)); // threads do not say that it is refused
    (void)next_event(from[0]->request_evd);
    {
        std::vector<std::unique_ptr<helper_thread>> threads;
        for (std::size_t i = 0; i < number; ++i)
            threads.push_back(std::make_unique<helper_thread>([&, i] {
                test_endpoint &by = *from[i];
                DAT_EVENT event{};
                const auto done = [&](DAT_RETURN posted) {
                    const bool good =
                        posted == DAT_SUCCESS && wait_event(by.request_evd, event) == DAT_SUCCESS &&
                        event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
                    failures += good ? 0 : 1;
                    return good;
                };
                for (std::uint64_t k = 0; k < each; ++k)
                    if (!done(fetch_add(by, 0, at.remote(), 1)))
                        return;
                for (std::uint64_t k = 0; k < each; ++k) {
                    std::uint64_t seen = 0;
                    std::uint64_t expected = 0;
                    do {
                        expected = seen;
                        if (!done(compare_swap(by, 8, at.remote(), expected, expected + 1)))
                            return;
                        seen = counter::word_at(by.memory, 8);
                    } while (seen != expected);
                }
            }));
    }
    CHECK(failures == 0);
    CHECK(at.get() == 2 * each * number);
    for (auto &each_end : to)
        MUST(each_end->free_ep());
}

TEST_CASE("EXT-16: a window opens its part to atomics only if it was bound with the right" *
          needs("atomics rmr_bind") *
          hint("give windows the region's rights, or the right to write for that of atomics"))
{
    adapter ia;
    NEED_FETCH_ADD(ia);
    connected_pair pair(ia);
    test_endpoint &own = pair.passive;
    counter shared(own);
    DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
    if (ia.attr.max_rmrs == 0)
        NOT_CLAIMED("binding of RMRs");
    MUST(dat_rmr_create(own.pz, &window));
    const auto bind = [&](unsigned rights) {
        DAT_LMR_TRIPLET part = shared.memory.local(0, 8);
        DAT_RMR_TRIPLET open = shared.remote();
        MUST(dat_rmr_bind(window, shared.memory.lmr, &part, static_cast<DAT_MEM_PRIV_FLAGS>(rights),
                          DAT_VA_TYPE_VA, own.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG,
                          &open.rmr_context));
        const DAT_EVENT event = next_event(own.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
        return open;
    };
    constexpr unsigned read_and_write =
        DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    const DAT_RMR_TRIPLET open = bind(read_and_write | DAT_IB_MEM_PRIV_REMOTE_ATOMIC);
    shared.set(40);
    MUST(fetch_add(pair.active, 0, open, 2, 1));
    expect_done(next_extended(pair.active.request_evd, DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD),
                1);
    CHECK(shared.get() == 42);

    const DAT_RMR_TRIPLET closed = bind(read_and_write);
    MUST(fetch_add(pair.active, 0, closed, 2, 2));
    const auto back =
        next_extended(pair.active.request_evd, DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD);
    CHECK(back.dto.status != DAT_DTO_SUCCESS);
    CHECK(back.more.status == DAT_IB_OP_ERR);
    CHECK(ends_connection(next_event(pair.active.connect_evd).event_number));
    CHECK(shared.get() == 42);
    MUST(dat_rmr_free(window));
}

TEST_CASE("EXT-17: counters tell what was done since they were reset, or are NOT_IMPLEMENTED" *
          needs("extensions counters") * hint("count other calls, or reset while they are read"))
{
    program::set_variable("DAPL_COUNTERS", "1"); // some count when asked to
    adapter ia;
    if (ia.attr.extension_supported != DAT_EXTENSION_IB)
        NOT_CLAIMED("the InfiniBand extension");
    connected_pair pair(ia);
    DAT_HANDLE ep = pair.active.ep;
    DAT_UINT64 one = 77;
    const DAT_RETURN code = dat_ib_query_counters(ep, DCNT_EP_POST_SEND, &one, 0);
    if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED) {
        CHECK(one == 77);
        NOT_CLAIMED("counters");
    }
    CHECK(same_code(code, DAT_SUCCESS));
    CHECK(same_type(dat_ib_query_counters(pair.active.pz, 0, &one, 0), DAT_INVALID_HANDLE));
    CHECK(same_type(dat_ib_query_counters(ep, -1, &one, 0), DAT_INVALID_PARAMETER));
    CHECK(same_type(dat_ib_query_counters(ep, DCNT_EP_ALL_COUNTERS + 1, &one, 0),
                    DAT_INVALID_PARAMETER));
    CHECK(
        same_type(dat_ib_query_counters(ep, DCNT_EP_POST_SEND, nullptr, 0), DAT_INVALID_PARAMETER));

    DAT_UINT64 all[DCNT_EP_ALL_COUNTERS] = {};
    MUST(dat_ib_query_counters(ep, DCNT_EP_ALL_COUNTERS, all, 1));
    MUST(dat_ib_query_counters(ep, DCNT_EP_ALL_COUNTERS, all, 0));
    for (const DAT_UINT64 each : all)
        CHECK(each == 0);
    for (unsigned i = 0; i < 3; ++i)
        move_data(pair.active, pair.passive, i);
    MUST(pair.active.write(0, 64, pair.passive.memory.remote(0, 64)));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    MUST(dat_ib_query_counters(ep, DCNT_EP_ALL_COUNTERS, all, 0));
    CHECK(all[DCNT_EP_POST_SEND] == 3);
    CHECK(all[DCNT_EP_POST_WRITE] == 1);
    CHECK(all[DCNT_EP_POST_WRITE_DATA] == 64);
    CHECK(all[DCNT_EP_POST_RECV] == 0);
    DAT_HANDLE other = pair.passive.ep;
    MUST(dat_ib_query_counters(other, DCNT_EP_POST_RECV, &one, 0));
    CHECK(one == 3);
    MUST(dat_ib_query_counters(ep, DCNT_EP_POST_SEND, &one, 1)); // tells, then resets
    CHECK(one == 3);
    MUST(dat_ib_query_counters(ep, DCNT_EP_POST_SEND, &one, 0));
    CHECK(one == 0);
    MUST(dat_ib_query_counters(ep, DCNT_EP_POST_WRITE, &one, 0)); // was not reset
    CHECK(one == 1);
}

namespace {

DAT_UINT64 count_of(const adapter &ia, DAT_IA_COUNTERS which, bool reset = false)
{
    DAT_UINT64 value = 0;
    MUST(dat_ib_query_counters(ia.handle, which, &value, reset ? 1 : 0));
    return value;
}

/// Whether a counter gets to this number: drivers tell the counts of some 10 ms ago.
bool comes_to(DAT_UINT64 wanted, const adapter &ia, DAT_IA_COUNTERS which)
{
    return becomes_true([&] { return count_of(ia, which) >= wanted; }, a_while) &&
           count_of(ia, which) == wanted;
}

/// A write that the peer refuses; nothing of the connection stays.
void be_refused(adapter &ia, adapter &other)
{
    connected_pair pair(ia, other);
    DAT_RMR_TRIPLET wrong = pair.passive.memory.remote(0, 64);
    wrong.virtual_address += 1 << 30;
    MUST(pair.active.write(0, 64, wrong, 1));
    expect_refused(pair.active, pair.passive, false, 1);
}

} // namespace

TEST_CASE("EXT-18: the device counts an access that was refused, once on each side" *
          needs("extensions counters device_counters") *
          hint("count nothing, count it in each query again, or lose it with the queue pair"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    adapter other;
    if (ia.attr.extension_supported != DAT_EXTENSION_IB)
        NOT_CLAIMED("the InfiniBand extension");
    DAT_UINT64 all[DCNT_IA_ALL_COUNTERS] = {};
    const DAT_RETURN code = dat_ib_query_counters(ia.handle, DCNT_IA_ALL_COUNTERS, all, 1);
    if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED)
        NOT_CLAIMED("counters");
    CHECK(same_code(code, DAT_SUCCESS));
    (void)count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE, true);
    be_refused(ia, other);
    if (!comes_to(1, ia, DCNT_IA_DIAG_ERR_SQ_RAE) && count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE) == 0)
        NOT_CLAIMED("counters of the device");
    CHECK(count_of(ia, DCNT_IA_DIAG_ERR_SQ_RAE) == 1);
    CHECK(comes_to(1, other, DCNT_IA_DIAG_ERR_RQ_RAE));
    be_refused(ia, other);
    CHECK(comes_to(2, other, DCNT_IA_DIAG_ERR_RQ_RAE));
    CHECK(comes_to(2, ia, DCNT_IA_DIAG_ERR_SQ_RAE));
    CHECK(count_of(ia, DCNT_IA_DIAG_ERR_SQ_RAE, true) == 2); // tells, then resets
    CHECK(count_of(ia, DCNT_IA_DIAG_ERR_SQ_RAE) == 0);
    CHECK(count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE) == 2);
    be_refused(ia, other);
    CHECK(comes_to(1, ia, DCNT_IA_DIAG_ERR_SQ_RAE));
}

TEST_CASE("EXT-24: the device's counters stand still while their group is stopped" *
          needs("extensions counters device_counters") *
          hint("stop the other group, or add at a start what was counted before it"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    adapter other;
    if (ia.attr.extension_supported != DAT_EXTENSION_IB)
        NOT_CLAIMED("the InfiniBand extension");
    const DAT_RETURN code = dat_ib_stop_counter(other.handle, DCNT_IA_DIAG);
    if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED)
        NOT_CLAIMED("sampling of the device's counters");
    CHECK(same_code(code, DAT_SUCCESS));
    CHECK(same_code(dat_ib_stop_counter(other.handle, DCNT_IA_DIAG + 1), bad_arg(3)));
    CHECK(same_type(dat_ib_stop_counter(DAT_HANDLE_NULL, DCNT_IA_DIAG), DAT_INVALID_HANDLE));
    be_refused(ia, other);
    if (!comes_to(1, ia, DCNT_IA_DIAG_ERR_SQ_RAE) && count_of(ia, DCNT_IA_DIAG_ERR_SQ_RAE) == 0)
        NOT_CLAIMED("counters of the device");
    CHECK(count_of(ia, DCNT_IA_DIAG_ERR_SQ_RAE) == 1); // another adapter's goes on
    CHECK(count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE) == 0);
    MUST(dat_ib_start_counter(other.handle, DCNT_IA_LNK));
    be_refused(ia, other);
    CHECK(comes_to(2, ia, DCNT_IA_DIAG_ERR_SQ_RAE));
    MUST(dat_ib_start_counter(other.handle, DCNT_IA_DIAG));
    MUST(dat_ib_start_counter(other.handle, DCNT_IA_DIAG)); // changes nothing
    CHECK(count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE) == 0);
    be_refused(ia, other);
    CHECK(comes_to(1, other, DCNT_IA_DIAG_ERR_RQ_RAE));
    MUST(dat_ib_stop_counter(other.handle, DCNT_IA_LNK));
    be_refused(ia, other);
    CHECK(comes_to(4, ia, DCNT_IA_DIAG_ERR_SQ_RAE));
    MUST(dat_ib_stop_counter(other.handle, DCNT_IA_DIAG));
    CHECK(count_of(other, DCNT_IA_DIAG_ERR_RQ_RAE) == 2); // with what was counted before the stop
}

TEST_CASE(
    "EXT-19: messages behind immediate data bring none" * needs("immediate_data") *
    hint("leave a field of a completion as it was, where an earlier completion is still seen"))
{
    adapter ia;
    NEED_IMMEDIATE(ia);
    endpoint_options options;
    options.qlen = 8;
    connected_pair pair(ia, options);
    for (std::uint64_t i = 0; i < 64; ++i) { // more than any queue of so few has places
        MUST(pair.passive.recv(60'000, 16, i));
        MUST(write_immediate(pair.active, 0, 8, pair.passive.memory.remote(0, 8), 5, i));
        (void)next_extended(pair.active.request_evd, DAT_IB_RDMA_WRITE_IMMED,
                            DAT_IB_DTO_RDMA_WRITE_IMMED);
        const auto got = next_extended(pair.passive.recv_evd, DAT_IB_RDMA_WRITE_IMMED_DATA,
                                       DAT_IB_DTO_RECV_IMMED);
        CHECK(got.more.val.immed.data == 5);
    }
    move_data(pair.active, pair.passive);
}

namespace {

/// Resets the counters of an endpoint, of an adapter that has some.
#define NEED_COUNTERS(on, ep)                                                                      \
    do {                                                                                           \
        if ((on).attr.extension_supported != DAT_EXTENSION_IB)                                     \
            NOT_CLAIMED("the InfiniBand extension");                                               \
        DAT_UINT64 ignored[DCNT_EP_ALL_COUNTERS];                                                  \
        const DAT_RETURN code = dat_ib_query_counters(ep, DCNT_EP_ALL_COUNTERS, ignored, 1);       \
        if (DAT_GET_TYPE(code) == DAT_NOT_IMPLEMENTED)                                             \
            NOT_CLAIMED("counters");                                                               \
        CHECK(same_code(code, DAT_SUCCESS));                                                       \
    } while (false)

DAT_UINT64 count_of(DAT_HANDLE ep, DAT_EP_COUNTERS which, bool reset = false)
{
    DAT_UINT64 value = 0;
    MUST(dat_ib_query_counters(ep, which, &value, reset ? 1 : 0));
    return value;
}

/// Binds a window through an endpoint, to the first bytes of its memory.
DAT_RMR_CONTEXT open_window(const test_endpoint &of, DAT_RMR_HANDLE window)
{
    const DAT_LMR_TRIPLET part = of.memory.local(0, 64);
    DAT_RMR_CONTEXT context = 0;
    MUST(dat_rmr_bind(window, of.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA,
                      of.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG, &context));
    (void)next_event(of.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    return context;
}

} // namespace

TEST_CASE("EXT-20: an endpoint counts what it received, with its bytes, and not what was flushed" *
          needs("extensions counters") * hint("count posts only, or every completion"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    connected_pair pair(ia);
    DAT_HANDLE to = pair.passive.ep;
    DAT_HANDLE from = pair.active.ep;
    NEED_COUNTERS(ia, to);
    constexpr unsigned messages = 5;
    for (unsigned i = 0; i < messages; ++i)
        move_data(pair.active, pair.passive, i);
    move_data(pair.passive, pair.active);
    MUST(pair.active.write(0, 64, pair.passive.memory.remote(0, 64)));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(count_of(to, DCNT_EP_RECV) == messages);
    CHECK(count_of(to, DCNT_EP_RECV_DATA) == messages * 1000);
    CHECK(count_of(to, DCNT_EP_POST_SEND_DATA) == 1000);
    CHECK(count_of(from, DCNT_EP_RECV, true) == 1); // tells, then resets
    CHECK(count_of(from, DCNT_EP_RECV) == 0);
    CHECK(count_of(from, DCNT_EP_RECV_DATA) == 1000); // was not reset
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_ERR_FLUSHED);
    CHECK(count_of(to, DCNT_EP_RECV) == messages);
    CHECK(count_of(to, DCNT_EP_POST_RECV) == messages + 1);
    CHECK(count_of(from, DCNT_EP_DISCONNECT) == 1);
}

TEST_CASE("EXT-21: a message that invalidates an RMR counts as others, where it is sent and comes" *
          needs("extensions counters rmr_bind send_with_invalidate") *
          hint("leave out calls and operations that came later"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &own = pair.passive;
    NEED_COUNTERS(ia, own.ep);
    auto *call = optional_call<decltype(dat_ep_post_send_with_invalidate)>(
        "dat_ep_post_send_with_invalidate");
    if (ia.attr.max_rmrs == 0 || call == nullptr)
        NOT_CLAIMED("sends that invalidate");
    DAT_RMR_HANDLE window = make_closable_rmr(own);
    const DAT_RMR_CONTEXT context = open_window(own, window);
    MUST(own.recv(64, 64));
    DAT_LMR_TRIPLET local = pair.active.memory.local(0, 40);
    const DAT_RETURN sent = call(pair.active.ep, 1, &local, cookie_of(1),
                                 DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, context);
    if (sent == not_supported)
        NOT_CLAIMED("sends that invalidate");
    MUST(sent);
    CHECK(next_dto(own.recv_evd).operation == DAT_DTO_RECEIVE_WITH_INVALIDATE);
    CHECK(count_of(pair.active.ep, DCNT_EP_POST_SEND) == 1);
    CHECK(count_of(pair.active.ep, DCNT_EP_POST_SEND_DATA) == 40);
    CHECK(count_of(own.ep, DCNT_EP_RECV) == 1);
    CHECK(count_of(own.ep, DCNT_EP_RECV_DATA) == 40);
    MUST(dat_rmr_free(window));
}

TEST_CASE("EXT-23: a read to what an RMR context names counts as others, with its bytes" *
          needs("extensions counters rmr_bind rdma_read_to_rmr") *
          hint("leave out calls that came later"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &own = pair.active;
    NEED_COUNTERS(ia, own.ep);
    auto *call =
        optional_call<decltype(dat_ep_post_rdma_read_to_rmr)>("dat_ep_post_rdma_read_to_rmr");
    if (ia.attr.max_rmrs == 0 || call == nullptr)
        NOT_CLAIMED("reads to RMRs");
    DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
    MUST(dat_rmr_create(own.pz, &window));
    DAT_RMR_TRIPLET to = own.memory.remote(0, 40);
    to.rmr_context = open_window(own, window);
    const DAT_RMR_TRIPLET from = pair.passive.memory.remote(0, 40);
    const DAT_RETURN posted = call(own.ep, &to, cookie_of(1), &from, DAT_COMPLETION_DEFAULT_FLAG);
    if (posted == not_supported)
        NOT_CLAIMED("reads to RMRs");
    MUST(posted);
    CHECK(next_dto(own.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(count_of(own.ep, DCNT_EP_POST_READ) == 1);
    CHECK(count_of(own.ep, DCNT_EP_POST_READ_DATA) == 40);
    MUST(dat_rmr_free(window));
}

namespace {

/// The counters that are printed for an endpoint beyond DAT's counters, by their names.
std::map<std::string, DAT_UINT64> printed_by_device(DAT_HANDLE ep)
{
    std::fflush(stdout);
    std::FILE *const instead = std::tmpfile();
    REQUIRE(instead != nullptr);
    const int real = ::dup(STDOUT_FILENO);
    ::dup2(::fileno(instead), STDOUT_FILENO);
    const DAT_RETURN code = dat_ib_print_counters(ep, DCNT_EP_ALL_COUNTERS, 0);
    std::fflush(stdout);
    ::dup2(real, STDOUT_FILENO);
    ::close(real);
    std::rewind(instead);
    std::map<std::string, DAT_UINT64> found;
    char line[256];
    while (std::fgets(line, sizeof line, instead) != nullptr) {
        char name[64];
        unsigned long long value = 0;
        if (std::sscanf(line, "%*s %63s %llu", name, &value) == 2 &&
            std::strncmp(name, "DCNT_", 5) != 0)
            found[name] = value;
    }
    std::fclose(instead);
    MUST(code);
    return found;
}

} // namespace

TEST_CASE("EXT-22: what a device counts of a connection is printed with its endpoint's, and grows" *
          needs("extensions counters qp_counters") *
          hint("print the numbers of another endpoint, or those of the whole device"))
{
    program::set_variable("DAPL_COUNTERS", "1");
    adapter ia;
    connected_pair pair(ia);
    connected_pair idle(ia);
    DAT_HANDLE ep = pair.active.ep;
    NEED_COUNTERS(ia, ep);
    const auto before = printed_by_device(ep);
    if (before.empty())
        NOT_CLAIMED("counters of a connection");
    const auto others = printed_by_device(idle.active.ep);
    for (unsigned i = 0; i < 10; ++i)
        move_data(pair.active, pair.passive, i);
    const auto after = printed_by_device(ep);
    CHECK(after.size() == before.size());
    unsigned grown = 0;
    for (const auto &now : after) {
        const auto was = before.find(now.first);
        CAPTURE(now.first);
        REQUIRE(was != before.end());
        CHECK(now.second >= was->second);
        grown += now.second >= was->second + 10;
    }
    CHECK(grown > 0);
    for (const auto &now : printed_by_device(idle.active.ep)) {
        CAPTURE(now.first);
        CHECK(now.second < others.at(now.first) + 10);
    }
}

} // namespace conformance
