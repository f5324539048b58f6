// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A job in which rank 1 breaks the protocol of ranks: mad-rank CASE. Its library is the real one;
// messages are changed on their way to libdat2. run_jobs.py runs it and judges rank 0's output.
#include "dapl_am.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

namespace {

std::string_view what;

template <typename Function>
Function *next_of(Function *, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

void must(int status)
{
    if (status != DAPL_AM_OK) {
        std::fprintf(stderr, "ERROR: %s\n", dapl_am_strerror(status));
        std::abort();
    }
}

/// The kinds of messages in messages.hpp.
enum : std::uint8_t {
    short_message,
    medium,
    long_message,
    packed_long,
    barrier,
    fill,
    filled,
    credits,
    reply = 0x80
};

struct header {
    std::uint8_t what, handler, count, credits;
    std::uint32_t size;
    std::uint64_t address;
};

void set_argument(header &h, int which, std::int32_t value)
{
    std::memcpy(reinterpret_cast<std::byte *>(&h + 1) + which * 4, &value, sizeof value);
}

/// The length of a message with so many arguments.
DAT_SEG_LENGTH length_of(int arguments)
{
    return (sizeof(header) + DAT_SEG_LENGTH(arguments) * 4 + 7) / 8 * 8;
}

/// @return whether the message is of the case, and is another one now
bool change(header &h, DAT_LMR_TRIPLET &part)
{
    const auto shorten = [&](int arguments) {
        h.count = std::uint8_t(arguments);
        part.segment_length = length_of(arguments);
        return true;
    };
    if (h.what == (filled | reply)) {
        if (what == "filled-of-nothing")
            return shorten(0);
        if (what == "filled-stale") // the place was used this often before
            return set_argument(h, 1, 0), true;
        if (what == "filled-elsewhere")
            return set_argument(h, 0, 100'000), true;
        if (what == "reply-without-credit")
            return h.credits = 0, true;
    }
    if (h.what == barrier) {
        if (what == "barrier-of-nothing")
            return shorten(0);
        if (what == "barrier-round")
            return set_argument(h, 0, 32), true;
        if (what == "barrier-as-reply")
            return h.what |= reply, h.credits = 1, true;
        if (what == "too-many-credits")
            return h.credits = 200, true;
        if (what == "unknown-category")
            return h.what = credits + 1, true;
        if (what == "fill-of-nothing")
            return h.what = fill, shorten(2);
        if (what == "short-with-payload")
            return h.what = short_message, h.size = 5, true;
    }
    if (h.what == fill && what == "fill-outside")
        return h.address += 1 << 20, true;
    return false;
}

bool is_mad()
{
    return dapl_am_rank() == 1 && !what.empty();
}

/// Both ranks ask the other for a memset by a message.
void fill_each_other()
{
    void *there = nullptr;
    std::size_t size = 0;
    must(dapl_am_segment(1 - dapl_am_rank(), &there, &size));
    for (int i = 0; i < 10; ++i)
        must(dapl_am_memset(1 - dapl_am_rank(), there, i, size));
}

} // namespace

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT parts, DAT_LMR_TRIPLET *local,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    if (is_mad())
        (void)change(*reinterpret_cast<header *>(local->virtual_address), *local);
    return next_of(&dat_ep_post_send, "dat_ep_post_send")(ep, parts, local, cookie, flags);
}

/// Accepts as if another process had taken the rank's port.
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE request, DAT_EP_HANDLE ep, DAT_COUNT size,
                         const DAT_PVOID words)
{
    const bool unproven = is_mad() && what == "accepts-without-proof";
    return next_of(&dat_cr_accept, "dat_cr_accept")(request, ep, unproven ? 0 : size, words);
}

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE request, DAT_COUNT size, const DAT_PVOID words)
{
    const bool unproven = is_mad() && what == "leaves-without-proof";
    return next_of(&dat_cr_reject, "dat_cr_reject")(request, unproven ? 0 : size, words);
}

int main(int argc, char **argv)
{
    what = argc > 1 ? argv[1] : "";
    const char *rank = std::getenv("PMIX_RANK");
    if (what == "never-joins" && rank && std::string_view(rank) == "1")
        for (;;)
            pause();
    if (dapl_am_init(nullptr) != DAPL_AM_OK) // dapl_am_init says why
        return 90;
    if (what == "never-attaches" && dapl_am_rank() == 1)
        for (;;)
            pause();
    if (what.starts_with("never"))
        return dapl_am_attach(nullptr, 0, 4096) == DAPL_AM_ERR_LAUNCHER ? 90 : 98;
    if (what == "alone")
        return dapl_am_size() == 1 ? 0 : 98;
    must(dapl_am_attach(nullptr, 0, 1 << 18));
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
    fill_each_other();
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
    if (what == "leaves-without-proof" && dapl_am_rank() == 1)
        for (;;)
            (void)dapl_am_poll();
    dapl_am_exit(0);
}
