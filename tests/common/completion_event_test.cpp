// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completions become events, without an EVD.
#include "fixture.hpp"

#include <cstring>

using namespace test;

namespace {

/// A work queue with one posted request. The endpoint is an address only.
struct posted {
    explicit posted(opcode operation, DAT_UINT32 length = 100)
        : queue(*work_queue::create(&ep(), 4))
    {
        REQUIRE(queue.take(wr));
        wr->operation = operation;
        wr->cookie = cookie(7);
        wr->length = length;
    }
    ~posted() { queue.release(); }

    static endpoint &ep()
    {
        static std::uint64_t place;
        return *reinterpret_cast<endpoint *>(&place);
    }
    completion done(DAT_DTO_COMPLETION_STATUS how = DAT_DTO_SUCCESS, DAT_UINT32 length = 0) const
    {
        return completion_of(*wr, length, how);
    }
    bool fill_plain(DAT_UINT32 length = 0)
    {
        return is_plain(done()) && fill_plain_event(*wr, queue.owner, length, evd_handle, event);
    }
    const DAT_DTO_COMPLETION_EVENT_DATA &dto() const
    {
        return event.event_data.dto_completion_event_data;
    }

    work_queue &queue;
    transport::wr *wr = nullptr;
    DAT_EVD_HANDLE evd_handle = &queue;
    DAT_EVENT event{};
};

DAT_IB_EXTENSION_EVENT_DATA extension_of(const DAT_EVENT &event)
{
    DAT_IB_EXTENSION_EVENT_DATA data;
    std::memcpy(&data, event.event_extension_data, sizeof data);
    return data;
}

} // namespace

TEST_SUITE_BEGIN("completion_event");

TEST_CASE("a plain success and fill_event say the same")
{
    for (const opcode operation : {opcode::send, opcode::rdma_write, opcode::receive}) {
        posted p(operation);
        REQUIRE(p.fill_plain(30));
        const DAT_EVENT plain = p.event;
        fill_event(p.done(DAT_DTO_SUCCESS, 30), posted::ep(), p.evd_handle, p.event);
        CHECK_EQ(plain.event_number, DAT_DTO_COMPLETION_EVENT);
        CHECK_EQ(plain.event_number, p.event.event_number);
        CHECK_EQ(plain.evd_handle, p.evd_handle);
        const auto &dto = plain.event_data.dto_completion_event_data;
        CHECK_EQ(dto.ep_handle, static_cast<void *>(&posted::ep()));
        CHECK_EQ(dto.ep_handle, p.dto().ep_handle);
        CHECK_EQ(dto.operation, dto_of(operation));
        CHECK_EQ(dto.user_cookie.as_64, 7);
        CHECK_EQ(p.dto().user_cookie.as_64, 7);
        // A receive has the length that arrived; other operations have the length of their
        // segments.
        CHECK_EQ(dto.transfered_length, operation == opcode::receive ? 30 : 100);
        CHECK_EQ(dto.transfered_length, p.dto().transfered_length);
    }
}

TEST_CASE("what is not plain is left alone")
{
    posted bind(opcode::bind);
    posted orphan(opcode::send);
    orphan.queue.owner = nullptr;
    for (posted *each : {&bind, &orphan}) {
        if (each == &bind && !core::claims.memory_windows)
            continue;
        each->event.event_number = DAT_SOFTWARE_EVENT;
        CHECK_FALSE(each->fill_plain());
        CHECK_EQ(each->event.event_number, DAT_SOFTWARE_EVENT);
    }
    CHECK_EQ(owner_of(orphan.done()), nullptr);
    CHECK_FALSE(is_plain(bind.done(DAT_DTO_ERR_FLUSHED)));
}

TEST_CASE("a failure has its status and no length")
{
    posted p(opcode::rdma_read);
    fill_event(p.done(DAT_DTO_ERR_REMOTE_ACCESS, 30), posted::ep(), p.evd_handle, p.event);
    CHECK_EQ(p.dto().status, DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK_EQ(p.dto().transfered_length, 0);
}

TEST_CASE("immediate data arrives in an extended event")
{
    if (!core::claims.immediate_data)
        return;
    posted p(opcode::receive);
    completion done = p.done(DAT_DTO_SUCCESS, 30);
    done.has_immediate = true;
    done.immediate = 99;
    CHECK_FALSE(is_plain(done));
    fill_event(done, posted::ep(), p.evd_handle, p.event);
    CHECK_EQ(static_cast<int>(p.event.event_number), DAT_IB_DTO_EVENT);
    CHECK_EQ(static_cast<int>(p.dto().operation), DAT_IB_DTO_RECV_IMMED);
    CHECK_EQ(extension_of(p.event).type, DAT_IB_RDMA_WRITE_IMMED_DATA);
    CHECK_EQ(extension_of(p.event).val.immed.data, 99);
    CHECK_EQ(extension_of(p.event).status, DAT_OP_SUCCESS);
}

TEST_CASE("an extended request is reported by its type")
{
    if (!core::claims.atomics)
        return;
    posted p(opcode::fetch_add, 8);
    fill_event(p.done(DAT_DTO_ERR_REMOTE_ACCESS), posted::ep(), p.evd_handle, p.event);
    CHECK_EQ(extension_of(p.event).type, DAT_IB_FETCH_AND_ADD);
    CHECK_EQ(extension_of(p.event).status, DAT_IB_OP_ERR);
}

TEST_CASE("retiring a completion frees its request and those before it")
{
    posted p(opcode::send);
    transport::wr *second = p.queue.take_slowly();
    REQUIRE_NE(second, nullptr);
    retire(completion_of(*second, 0));
    CHECK(p.queue.idle());
}

TEST_SUITE_END();
