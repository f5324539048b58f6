// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A rank of the collective tests: joins the job, runs the cases, and ends the job with the result.
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <iterator>

namespace {

using namespace ranks;

void check_payload(const void *payload, std::size_t size, int rank)
{
    if (size > 0 && wrong(static_cast<const std::byte *>(payload), size, rank,
                          std::uint32_t(expected_seed)) > 0)
        ++counted.errors;
}

void on_count(dapl_am_token *token, void *payload, std::size_t size, int count,
              const std::int32_t *args, void *)
{
    const int from = dapl_am_token_rank(token);
    if (!check_args(args, count, expected_seed))
        ++counted.errors;
    check_payload(payload, size, from);
    ++counted.requests;
}

void on_echo_short(dapl_am_token *token, void *, std::size_t, int count, const std::int32_t *args,
                   void *)
{
    ++counted.requests;
    if (dapl_am_reply_short(token, echo_reply, count, args) != DAPL_AM_OK)
        ++counted.errors;
}

void on_echo_medium(dapl_am_token *token, void *payload, std::size_t size, int count,
                    const std::int32_t *args, void *)
{
    ++counted.requests;
    if (reinterpret_cast<std::uintptr_t>(payload) % 8 != 0)
        ++counted.errors;
    if (dapl_am_reply_medium(token, echo_reply, payload, size, count, args) != DAPL_AM_OK)
        ++counted.errors;
}

void on_echo_long(dapl_am_token *token, void *payload, std::size_t size, int count,
                  const std::int32_t *args, void *)
{
    ++counted.requests;
    void *to = nullptr;
    std::memcpy(&to, args + count - 2, sizeof to);
    if (dapl_am_reply_long(token, echo_reply, payload, size, to, count - 2, args) != DAPL_AM_OK)
        ++counted.errors;
}

void on_echo_reply(dapl_am_token *, void *payload, std::size_t size, int count,
                   const std::int32_t *args, void *)
{
    if (!check_args(args, count, expected_seed))
        ++counted.errors;
    check_payload(payload, size, me());
    ++counted.replies;
}

void on_misuse(dapl_am_token *token, void *, std::size_t, int, const std::int32_t *, void *)
{
    ++counted.requests;
    const bool refused =
        dapl_am_request_short(me(), count_request, 0, nullptr, 0) == DAPL_AM_ERR_CONTEXT &&
        dapl_am_poll() == DAPL_AM_ERR_CONTEXT && dapl_am_barrier(0, 0) == DAPL_AM_ERR_CONTEXT &&
        dapl_am_put(me(), mine(), mine() + 64, 8) == DAPL_AM_ERR_CONTEXT &&
        dapl_am_reply_short(token, misuse_reply, 0, nullptr) == DAPL_AM_OK &&
        dapl_am_reply_short(token, misuse_reply, 0, nullptr) == DAPL_AM_ERR_CONTEXT;
    if (!refused)
        ++counted.errors;
}

void on_misuse_reply(dapl_am_token *token, void *, std::size_t, int, const std::int32_t *, void *)
{
    if (dapl_am_reply_short(token, misuse_reply, 0, nullptr) != DAPL_AM_ERR_CONTEXT)
        ++counted.errors;
    ++counted.replies;
}

void on_flood(dapl_am_token *token, void *, std::size_t, int, const std::int32_t *args, void *)
{
    ++counted.flood;
    if (args[0] != 0 && dapl_am_reply_short(token, echo_reply, 0, nullptr) != DAPL_AM_OK)
        ++counted.errors;
}

void on_threads(dapl_am_token *, void *, std::size_t, int, const std::int32_t *, void *)
{
    ++counted.requests;
}

constexpr unsigned any_kind = DAPL_AM_SHORT | DAPL_AM_MEDIUM | DAPL_AM_LONG;

DAPL_AM_HANDLER table[] = {
    {count_request, any_kind | DAPL_AM_REQUEST, DAPL_AM_ANY_ARGS, on_count, nullptr, "count"},
    {echo_short_request, DAPL_AM_SHORT | DAPL_AM_REQUEST, DAPL_AM_ANY_ARGS, on_echo_short, nullptr,
     "echo short"},
    {echo_medium_request, DAPL_AM_MEDIUM | DAPL_AM_REQUEST, DAPL_AM_ANY_ARGS, on_echo_medium,
     nullptr, "echo medium"},
    {echo_long_request, DAPL_AM_LONG | DAPL_AM_REQUEST, DAPL_AM_ANY_ARGS, on_echo_long, nullptr,
     "echo long"},
    {echo_reply, any_kind | DAPL_AM_REPLY, DAPL_AM_ANY_ARGS, on_echo_reply, nullptr, "echo reply"},
    {misuse_request, DAPL_AM_SHORT | DAPL_AM_REQUEST, 0, on_misuse, nullptr, "misuse"},
    {misuse_reply, DAPL_AM_SHORT | DAPL_AM_REPLY, 0, on_misuse_reply, nullptr, "misuse reply"},
    {flood_request, DAPL_AM_SHORT | DAPL_AM_REQUEST, 1, on_flood, nullptr, "flood"},
    {threads_request, any_kind | DAPL_AM_REQUEST, 0, on_threads, nullptr, "threads"},
    {0, DAPL_AM_SHORT | DAPL_AM_REQUEST, 1, on_threads, nullptr, "assigned"},
};

bool fail(const char *what, int status)
{
    std::fprintf(stderr, "%s: %s\n", what, dapl_am_strerror(status));
    return false;
}

bool join()
{
    DAPL_AM_OPTIONS options{};
    options.size = sizeof options;
    if (const int status = dapl_am_attach(table, 1, 0); status != DAPL_AM_ERR_STATE)
        return fail("dapl_am_attach before dapl_am_init", status);
    if (const int status = dapl_am_init(&options); status != DAPL_AM_OK)
        return fail("dapl_am_init", status);
    if (const int status = dapl_am_attach(table, std::size(table), segment_size);
        status != DAPL_AM_OK)
        return fail("dapl_am_attach", status);
    return table[std::size(table) - 1].index == 255 || fail("the assigned index is not 255", 0);
}

} // namespace

int main(int argc, char **argv)
{
    if (!join())
        return 99;
    doctest::Context context(argc, argv);
    context.setOption("no-breaks", true);
    context.setOption("no-intro", true);
    context.setOption("no-version", true);
    const int result = context.run();
    std::fflush(stdout);
    (void)dapl_am_barrier(0, DAPL_AM_ANONYMOUS);
    dapl_am_exit(result);
}
