// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls that take a handle of any type.
#include "checks.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

status dapl_set_consumer_context(object &o, DAT_CONTEXT context)
{
    o.context.store(context.as_64);
    return success;
}

status dapl_get_consumer_context(object &o, DAT_CONTEXT *context)
{
    if (context == nullptr)
        return invalid_parameter(2);
    context->as_64 = o.context.load();
    return success;
}

status dapl_get_handle_type(object &o, DAT_HANDLE_TYPE *type)
{
    if (type == nullptr)
        return invalid_parameter(2);
    *type = find_kind(o.kind())->type;
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
