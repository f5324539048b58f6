// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The wrapper's objects: each holds one of the wrapped port.
#pragma once

#include "caller.hpp"
#include "dapls_ib.hpp"

#include "osd_time.hpp"

#include <memory>
#include <new>
#include <type_traits>

namespace dapl::DAPL_TRANSPORT::faults {

/// Keeps what an operation left out would have freed, where a leak detector finds it.
void keep_forever(void *object);

template <class Wrapped>
struct object {
    std::unique_ptr<Wrapped> of;
    usage callers;

    bool make()
    {
        of.reset(new (std::nothrow) Wrapped());
        return of != nullptr;
    }
    void leave() { keep_forever(of.release()); }
};

/// A completion that comes late is held here.
struct cq_object : object<wrapped_transport::cq> {
    static constexpr const char *kind = "cq";
    evd *owner = nullptr;
    completion kept{};
    bool keeps = false;
    osd::deadline due = osd::deadline::never();

    DAT_COUNT held() const { return keeps ? 1 : 0; }
    osd::deadline earlier(osd::deadline until) const;
};

struct types {
    struct hca : object<wrapped_transport::hca> {
        static constexpr const char *kind = "hca";
        adapter *owner = nullptr;
    };
    struct pd : object<wrapped_transport::pd> {
        static constexpr const char *kind = "pd";
    };
    struct mr : object<wrapped_transport::mr> {
        static constexpr const char *kind = "mr";
    };
    struct mw : object<wrapped_transport::mw> {
        static constexpr const char *kind = "mw";
    };
    using cq = cq_object;
    struct qp : object<wrapped_transport::qp> {
        static constexpr const char *kind = "qp";
        endpoint *owner = nullptr;
    };
    struct srq : object<wrapped_transport::srq> {
        static constexpr const char *kind = "srq";
        shared_recv_queue *owner = nullptr;
    };
    struct exchange : object<wrapped_transport::exchange> {
        static constexpr const char *kind = "exchange";
    };
    struct listener : object<wrapped_transport::listener> {
        static constexpr const char *kind = "listener";
        service_point *owner = nullptr;
    };
    // These types are the wrapped port's own: the common layer moves a cr and makes a wr.
    using cr = wrapped_transport::cr;
    using wr = wrapped_transport::wr;
};

template <>
inline constexpr bool is_wrapped<types::hca> = true;
template <>
inline constexpr bool is_wrapped<types::pd> = true;
template <>
inline constexpr bool is_wrapped<types::mr> = true;
template <>
inline constexpr bool is_wrapped<types::mw> = true;
template <>
inline constexpr bool is_wrapped<types::cq> = true;
template <>
inline constexpr bool is_wrapped<types::qp> = true;
template <>
inline constexpr bool is_wrapped<types::srq> = true;
template <>
inline constexpr bool is_wrapped<types::exchange> = true;
template <>
inline constexpr bool is_wrapped<types::listener> = true;

/// What the wrapped port gets in place of an argument.
template <class T>
decltype(auto) real(T &argument)
{
    using plain = std::remove_cv_t<T>;
    if constexpr (is_wrapped<plain>)
        return *argument.of;
    else if constexpr (std::is_pointer_v<plain>) {
        if constexpr (is_wrapped<std::remove_cv_t<std::remove_pointer_t<plain>>>)
            return argument == nullptr ? nullptr : argument->of.get();
        else
            return (argument);
    } else
        return (argument);
}

} // namespace dapl::DAPL_TRANSPORT::faults
