// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls that take a handle of any type.
#include "checks.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

template <class Fn>
DAT_RETURN on_any_object(DAT_HANDLE handle, const void *out, Fn &&fn)
{
    object *found = any_object(handle);
    if (found == nullptr)
        return status::error(DAT_INVALID_HANDLE).code();
    if (out == nullptr)
        return invalid_parameter(2).code();
    fn(*found);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN dapl_set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context)
{
    return on_any_object(handle, &context, [=](object &o) { o.context.store(context.as_64); });
}

DAT_RETURN dapl_get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context)
{
    return on_any_object(handle, context, [=](object &o) { context->as_64 = o.context.load(); });
}

DAT_RETURN dapl_get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
    return on_any_object(handle, type, [=](object &o) { *type = find_kind(o.kind())->type; });
}

} // namespace dapl::DAPL_TRANSPORT::core
