// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// PSP and RSP: where connection requests arrive.
#pragma once

#include "endpoint.hpp"

namespace dapl::DAPL_TRANSPORT {

class cr;

/// A public service point serves any number of requests; a reserved one holds an endpoint of the
/// consumer's ready for exactly one.
class service_point : public object {
public:
    static constexpr std::size_t slab_size = 16;
    static bool is_kind(mark kind) { return kind == mark::psp || kind == mark::rsp; }

    service_point(const DAT_PROVIDER *vector, adapter &owner, mark kind, evd &requests,
                  DAT_PSP_FLAGS psp_flags, endpoint *reserved)
        : object(vector, kind, owner), flags(psp_flags), is_reserved(kind == mark::rsp),
          requests_(&requests), reserved_(reserved)
    {}

    /// Listens on the qualifier; 0 asks for a free one. A listener that goes first undoes all.
    status listen(DAT_CONN_QUAL wanted);
    void stop_listening();
    /// The port's callback. False refuses the request.
    bool request_arrived(transport::cr &port_cr, const cr_params &params);

    DAT_CONN_QUAL qualifier() const { return qualifier_; }
    evd &requests() const { return *requests_.get(); }
    /// The endpoint an RSP still holds ready; null once a request took it.
    endpoint *reserved() OSD_EXCLUDES(lock_);

    const DAT_PSP_FLAGS flags;
    const bool is_reserved; ///< an RSP

private:
    endpoint *take_reserved() OSD_EXCLUDES(lock_);
    bool endpoint_for_request(endpoint *&ep) OSD_EXCLUDES(lock_);
    void give_back(endpoint *ep) OSD_EXCLUDES(lock_);
    DAT_EVENT arrival_event(cr &request) const;

    user_of<evd> requests_;
    osd::mutex lock_;
    endpoint *reserved_ OSD_GUARDED_BY(lock_); ///< its state keeps it from being freed
    DAT_CONN_QUAL qualifier_ = 0;
    bool listening_ = false;
    transport::listener listener_;
};

} // namespace dapl::DAPL_TRANSPORT
