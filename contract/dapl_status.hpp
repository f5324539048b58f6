// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DAT return codes as a type that must be looked at.
#pragma once

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT {

/// A DAT_RETURN: class, type and subtype. Real errors carry the error class; the benign outcomes
/// (queue empty, timeout expired, interrupted call) are bare, because consumers compare whole
/// words.
class [[nodiscard]] status {
public:
    constexpr status() = default;
    constexpr explicit status(DAT_RETURN code) : code_(code) {}
    constexpr explicit status(DAT_RETURN_TYPE bare) : code_(bare) {}
    explicit status(int) = delete; // an errno is no DAT code: errno_status.hpp translates it

    static constexpr status error(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE)
    {
        return status(static_cast<DAT_RETURN>(DAT_CLASS_ERROR) | static_cast<DAT_RETURN>(type) |
                      static_cast<DAT_RETURN>(subtype));
    }

    constexpr bool ok() const { return code_ == DAT_SUCCESS; }
    constexpr DAT_RETURN code() const { return code_; }
    constexpr DAT_RETURN_TYPE type() const
    {
        return static_cast<DAT_RETURN_TYPE>(DAT_GET_TYPE(code_));
    }
    friend constexpr bool operator==(status, status) = default;

private:
    DAT_RETURN code_ = DAT_SUCCESS;
};

inline constexpr status success{};
inline constexpr status queue_empty{DAT_QUEUE_EMPTY};
inline constexpr status timeout_expired{DAT_TIMEOUT_EXPIRED};
inline constexpr status interrupted_call{DAT_INTERRUPTED_CALL};
inline constexpr status not_supported = status::error(DAT_MODEL_NOT_SUPPORTED);
inline constexpr status out_of_memory =
    status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

/// Parameter number `position`, counted from 1 with the handle, is wrong.
constexpr status invalid_parameter(int position)
{
    return status::error(DAT_INVALID_PARAMETER,
                         static_cast<DAT_RETURN_SUBTYPE>(DAT_INVALID_ARG1 + position - 1));
}

constexpr status invalid_handle(DAT_RETURN_SUBTYPE which)
{
    return status::error(DAT_INVALID_HANDLE, which);
}

} // namespace dapl::DAPL_TRANSPORT
