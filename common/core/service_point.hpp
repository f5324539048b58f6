// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// PSP, RSP and CSP: where connection requests arrive.
#pragma once

#include "endpoint.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class cr;

/// What a CSP was made with. Its port is its qualifier.
struct common_address {
    DAT_COMM comm{};
    osd::address address;
};

/// A public or common service point serves any number of requests; a reserved one has an endpoint
/// of the consumer's for exactly one.
class service_point : public object {
public:
    static constexpr std::size_t slab_size = 16;
    static constexpr object_type pool = object_type::sp;
    static bool is_kind(mark kind)
    {
        return kind == mark::psp || kind == mark::rsp || kind == mark::csp;
    }

    service_point(const DAT_PROVIDER *vector, adapter &owner, mark kind, evd &requests,
                  DAT_PSP_FLAGS psp_flags, endpoint *reserved, const common_address &common)
        : object(vector, kind, owner), flags(psp_flags), is_reserved(kind == mark::rsp),
          made_with(common), requests_(&requests), reserved_(reserved)
    {}

    /// Listens on the qualifier, or, when it is 0, on a free qualifier, which it stores. A service
    /// point that is freed meanwhile stays until this returns.
    status listen(DAT_CONN_QUAL &where) OSD_EXCLUDES(lock_);
    void stop_listening() OSD_EXCLUDES(lock_);
    /// The port's callback, or dat_cr_handoff. False refuses the request, and leaves `port_cr` to
    /// the caller.
    bool request_arrived(transport::cr &port_cr, const cr_params &params) OSD_EXCLUDES(lock_);
    /// Whether requests for this qualifier are taken here.
    bool serves(DAT_CONN_QUAL wanted) OSD_EXCLUDES(lock_);

    DAT_CONN_QUAL qualifier() OSD_EXCLUDES(lock_);
    evd &requests() const { return *requests_.get(); }
    /// The endpoint of an RSP; null once a request took it.
    endpoint *reserved() OSD_EXCLUDES(lock_);

    const DAT_PSP_FLAGS flags;
    const bool is_reserved;   ///< an RSP
    common_address made_with; ///< a CSP; the consumer is shown it in place

private:
    endpoint *take_reserved() OSD_EXCLUDES(lock_);
    bool endpoint_for_request(endpoint *&ep) OSD_EXCLUDES(lock_);
    void give_back(endpoint *ep) OSD_EXCLUDES(lock_);
    bool keep_early(cr &request) OSD_EXCLUDES(lock_);
    void announce_early(cr *first, bool listening);
    bool announce(cr &request);
    void drop(cr &request);
    DAT_EVENT arrival_event(cr &request);

    user_of<evd> requests_;
    std::atomic<bool> overflowed_{false}; ///< the latest request found no room, which was reported
    osd::mutex lock_;
    endpoint *reserved_ OSD_GUARDED_BY(lock_); ///< its state keeps it from being freed
    DAT_CONN_QUAL qualifier_ OSD_GUARDED_BY(lock_) = 0;
    bool listening_ OSD_GUARDED_BY(lock_) = false; ///< setup_conn_listener has returned
    cr *first_early_ OSD_GUARDED_BY(lock_) = nullptr;
    cr *last_early_ OSD_GUARDED_BY(lock_) = nullptr;
    transport::listener listener_;
};

} // namespace dapl::DAPL_TRANSPORT::core
