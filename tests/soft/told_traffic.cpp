// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One of everything that goes over the wire, over the adapter of the argument. It prints what it
// did, a line of JSON for each step, to be compared with what a capture shows.
#include "harness/support.hpp"

#include <dat2/dat_ib_extensions.h>

#include <cstdio>
#include <string>

using namespace conformance;

namespace {

constexpr DAT_UINT32 immediate = 0x5ee2da7a;
constexpr std::uint64_t counter_at = 4096;

void tell(const char *step, const std::string &more)
{
    std::printf("{\"step\": \"%s\", %s}\n", step, more.c_str());
}

std::string fields(const DAT_RMR_TRIPLET &where)
{
    return "\"key\": " + std::to_string(where.rmr_context) +
           ", \"address\": " + std::to_string(where.virtual_address) +
           ", \"bytes\": " + std::to_string(where.segment_length);
}

void await_done(test_endpoint &at, std::uint64_t cookie)
{
    CHECK(next_dto(at.request_evd).user_cookie.as_64 == cookie);
}

void await_extended(DAT_EVD_HANDLE evd)
{
    next_event(evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
}

void connect_told(test_endpoint &active, test_endpoint &passive)
{
    listener at(active.ia);
    const std::string request = "a request's data";
    std::string answer = "the accept's";
    MUST(active.connect(active.ia.attr.ia_address_ptr, at.qualifier, connect_timeout(), request));
    MUST(dat_cr_accept(at.next_request(), passive.ep, static_cast<DAT_COUNT>(answer.size()),
                       answer.data()));
    await_established(active, passive);
    tell("connect", "\"qualifier\": " + std::to_string(at.qualifier) + ", \"request\": \"" +
                        request + "\", \"accept\": \"" + answer + "\"");
}

void reject_told(adapter &ia)
{
    test_endpoint active(ia);
    listener at(ia);
    MUST(active.connect(ia.attr.ia_address_ptr, at.qualifier, connect_timeout(), "no, please"));
    std::string answer = "not now";
    MUST(dat_cr_reject(at.next_request(), static_cast<DAT_COUNT>(answer.size()), answer.data()));
    next_connection(active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    tell("reject", "\"qualifier\": " + std::to_string(at.qualifier) +
                       ", \"request\": \"no, please\", \"answer\": \"" + answer + "\"");
}

void send_told(test_endpoint &active, test_endpoint &passive)
{
    MUST(passive.recv(0, 4096, 1));
    MUST(active.send(0, 300, 2));
    await_done(active, 2);
    CHECK(next_dto(passive.recv_evd).transfered_length == 300);
    tell("send", "\"bytes\": 300");
}

void access_told(test_endpoint &active, test_endpoint &passive)
{
    const DAT_RMR_TRIPLET written = passive.memory.remote(64, 200);
    MUST(active.write(0, 200, written, 3));
    await_done(active, 3);
    tell("write", fields(written));
    const DAT_RMR_TRIPLET source = passive.memory.remote(128, 400);
    MUST(active.read(1024, 400, source, 4));
    await_done(active, 4);
    tell("read", fields(source));
}

void immediate_told(test_endpoint &active, test_endpoint &passive)
{
    DAT_LMR_TRIPLET local = active.memory.local(0, 48);
    DAT_RMR_TRIPLET to = passive.memory.remote(32, 48);
    MUST(passive.recv(8192, 64, 5));
    MUST(dat_ib_post_rdma_write_immed(active.ep, 1, &local, cookie_of(6), &to, immediate,
                                      DAT_COMPLETION_DEFAULT_FLAG));
    await_extended(active.request_evd);
    await_extended(passive.recv_evd);
    tell("write", fields(to));
    tell("immediate", "\"immediate\": " + std::to_string(immediate));
}

void atomics_told(test_endpoint &active, test_endpoint &passive)
{
    region word(passive.ia, passive.pz, 64,
                static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_ALL_FLAG} |
                                                unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC}));
    std::uint64_t value = 1000;
    std::memcpy(word.bytes.data(), &value, sizeof value);
    DAT_RMR_TRIPLET remote = word.remote(0, 8);
    DAT_LMR_TRIPLET local = active.memory.local(counter_at, 8);
    MUST(dat_ib_post_fetch_and_add(active.ep, 77, &local, cookie_of(7), &remote,
                                   DAT_COMPLETION_DEFAULT_FLAG));
    await_extended(active.request_evd);
    tell("add", fields(remote) + ", \"add\": 77, \"original\": 1000");
    MUST(dat_ib_post_cmp_and_swap(active.ep, 1077, 0x1122334455667788, &local, cookie_of(8),
                                  &remote, DAT_COMPLETION_DEFAULT_FLAG));
    await_extended(active.request_evd);
    tell("swap", fields(remote) + ", \"compare\": 1077, \"swap\": 1234605616436508552, "
                                  "\"original\": 1077");
}

} // namespace

TEST_CASE("one of everything")
{
    adapter ia;
    {
        test_endpoint active(ia), passive(ia);
        connect_told(active, passive);
        send_told(active, passive);
        access_told(active, passive);
        immediate_told(active, passive);
        atomics_told(active, passive);
        MUST(active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
        next_connection(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        tell("disconnect", "\"reason\": 0");
    }
    reject_told(ia);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: told_traffic ADAPTER [doctest's options]\n");
        return 2;
    }
    the_settings().ia = argv[1];
    doctest::Context context(argc - 1, argv + 1);
    return context.run();
}
