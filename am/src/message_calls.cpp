// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of dapl_am.h that send and take messages.
#include "current_job.hpp"
#include "dapl_am.h"
#include "job.hpp"

using am::category;
using am::current_job;
using am::message;

namespace {

int reply(dapl_am_token *token, const message &m, size_t size)
{
    return token != nullptr ? token->receiver.reply(*token, m, size) : DAPL_AM_ERR_CONTEXT;
}

} // namespace

size_t dapl_am_max_medium(void)
{
    return am::max_medium;
}

size_t dapl_am_max_long(void)
{
    return am::max_long;
}

int dapl_am_request_short(int rank, int handler, int count, const int32_t *args, unsigned flags)
{
    return current_job->requests().send(
        rank, message::make(category::short_message, handler, nullptr, nullptr, count, args), 0,
        flags);
}

int dapl_am_request_medium(int rank, int handler, const void *payload, size_t size, int count,
                           const int32_t *args, unsigned flags)
{
    return current_job->requests().send(
        rank, message::make(category::medium, handler, payload, nullptr, count, args), size, flags);
}

int dapl_am_request_long(int rank, int handler, const void *payload, size_t size, void *destination,
                         int count, const int32_t *args, unsigned flags)
{
    return current_job->requests().send(
        rank, message::make(category::long_message, handler, payload, destination, count, args),
        size, flags);
}

int dapl_am_token_rank(const dapl_am_token *token)
{
    return token != nullptr ? token->receiver.sender(*token) : -1;
}

int dapl_am_reply_short(dapl_am_token *token, int handler, int count, const int32_t *args)
{
    return reply(token,
                 message::make(category::short_message, handler, nullptr, nullptr, count, args), 0);
}

int dapl_am_reply_medium(dapl_am_token *token, int handler, const void *payload, size_t size,
                         int count, const int32_t *args)
{
    return reply(token, message::make(category::medium, handler, payload, nullptr, count, args),
                 size);
}

int dapl_am_reply_long(dapl_am_token *token, int handler, const void *payload, size_t size,
                       void *destination, int count, const int32_t *args)
{
    return reply(token,
                 message::make(category::long_message, handler, payload, destination, count, args),
                 size);
}

int dapl_am_poll(void)
{
    if (const int status = current_job->context().check_call(); status != DAPL_AM_OK)
        return status;
    return current_job->progress().poll() ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}
