// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service points and connection requests.
#include "calls/answers.hpp"

namespace conformance {
namespace {

/// A service point, and an endpoint that may have asked there.
struct point_subject {
    adapter ia;
    test_endpoint own{ia};
    test_endpoint from{ia};
    DAT_EVD_HANDLE requests = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    DAT_HANDLE point = DAT_HANDLE_NULL;

    DAT_CR_HANDLE ask()
    {
        MUST(from.connect(ia.address(), qualifier));
        return next_request_at(requests, qualifier, place::current())
            .event_data.cr_arrival_event_data.cr_handle;
    }
};

using point_entry = std::unique_ptr<point_subject>;
using point_maker = point_entry (*)();

template <DAT_PSP_FLAGS flag>
point_entry public_point()
{
    auto made = std::make_unique<point_subject>();
    MUST(dat_psp_create(made->ia.handle, made->qualifier, made->requests, flag, &made->point));
    return made;
}

point_entry reserved_point()
{
    auto made = std::make_unique<point_subject>();
    MUST(dat_rsp_create(made->ia.handle, made->qualifier, made->own.ep, made->requests,
                        &made->point));
    return made;
}

point_entry common_point()
{
    auto made = std::make_unique<point_subject>();
    socket_address at(made->ia, made->qualifier);
    DAT_COMM comm = at.comm();
    const answer told =
        IF_THERE(dat_csp_create, made->ia.handle, &comm, at.get(), made->requests, &made->point);
    return told && *told == DAT_SUCCESS ? std::move(made) : nullptr;
}

template <point_maker make>
point_entry asked_point()
{
    point_entry made = make();
    (void)made->ask();
    return made;
}

answer free_csp(point_subject &s)
{
    return IF_THERE(dat_csp_free, s.point);
}

answer free_psp(point_subject &s)
{
    return dat_psp_free(s.point);
}

answer free_rsp(point_subject &s)
{
    return dat_rsp_free(s.point);
}

template <point_maker make, answer (*release)(point_subject &)>
point_entry freed_point()
{
    point_entry made = make();
    if (made != nullptr)
        (void)release(*made);
    return made;
}

answer query_psp(point_subject &s)
{
    DAT_PSP_PARAM param{};
    return dat_psp_query(s.point, DAT_PSP_FIELD_ALL, &param);
}

answer query_rsp(point_subject &s)
{
    DAT_RSP_PARAM param{};
    return dat_rsp_query(s.point, DAT_RSP_FIELD_ALL, &param);
}

answer query_csp(point_subject &s)
{
    DAT_CSP_PARAM param{};
    return IF_THERE(dat_csp_query, s.point, DAT_CSP_FIELD_ALL, &param);
}

// -------------------------------------------------------------------------------------- requests

struct request_subject {
    point_entry at;
    DAT_CR_HANDLE request;
    std::unique_ptr<listener> other{};

    DAT_CONN_QUAL elsewhere()
    {
        other = std::make_unique<listener>(at->ia);
        return other->qualifier;
    }
};

using request_entry = std::unique_ptr<request_subject>;

template <point_maker make>
request_entry pending_request_of()
{
    point_entry at = make();
    const DAT_CR_HANDLE request = at->ask();
    return request_entry(new request_subject{std::move(at), request});
}

/// Its peer has given up.
request_entry withdrawn_request()
{
    request_entry made = pending_request_of<public_point<DAT_PSP_CONSUMER_FLAG>>();
    MUST(made->at->from.free_ep());
    std::this_thread::sleep_for(a_while);
    return made;
}

request_entry rejected_request()
{
    request_entry made = pending_request_of<public_point<DAT_PSP_CONSUMER_FLAG>>();
    MUST(dat_cr_reject(made->request, 0, nullptr));
    return made;
}

answer query_request(request_subject &s)
{
    DAT_CR_PARAM param{};
    return dat_cr_query(s.request, DAT_CR_FIELD_ALL, &param);
}

/// Accepts with an endpoint of ours. A request at an RSP has one already; at a PSP ours is free.
answer accept_with_ours(request_subject &s)
{
    const test_endpoint other(s.at->ia);
    return dat_cr_accept(s.request, other.ep, 0, nullptr);
}

answer accept_with_its_own(request_subject &s)
{
    return dat_cr_accept(s.request, DAT_HANDLE_NULL, 0, nullptr);
}

} // namespace

std::vector<probing> connection_probings()
{
    using point = point_subject;
    constexpr point_maker listening = public_point<DAT_PSP_CONSUMER_FLAG>;
    constexpr point_maker making = public_point<DAT_PSP_PROVIDER_FLAG>;
    std::vector<probing> all;
    const auto add = [&all](std::vector<probing> more) {
        for (probing &each : more)
            all.push_back(std::move(each));
    };
    add(probings_of<point>("PSP",
                           {{"listening", listening},
                            {"with a request", asked_point<listening>},
                            {"freed", freed_point<listening, free_psp>}},
                           {{"dat_psp_query", "", query_psp}, {"dat_psp_free", "", free_psp}}));
    add(probings_of<point>("RSP",
                           {{"listening", reserved_point},
                            {"with a request", asked_point<reserved_point>},
                            {"freed", freed_point<reserved_point, free_rsp>}},
                           {{"dat_rsp_query", "", query_rsp}, {"dat_rsp_free", "", free_rsp}}));
    add(probings_of<point>(
        "CSP", {{"listening", common_point}, {"freed", freed_point<common_point, free_csp>}},
        {{"dat_csp_query", "", query_csp}, {"dat_csp_free", "", free_csp}}));
    add(probings_of<request_subject>(
        "CR",
        {{"of a PSP", pending_request_of<listening>},
         {"of a PSP that makes endpoints", pending_request_of<making>},
         {"of an RSP", pending_request_of<reserved_point>},
         {"its peer gave up", withdrawn_request},
         {"answered", rejected_request}},
        {
            {"dat_cr_query", "", query_request},
            {"dat_cr_accept", "with an endpoint", accept_with_ours},
            {"dat_cr_accept", "with its own", accept_with_its_own},
            {"dat_cr_reject", "",
             [](request_subject &s) { return dat_cr_reject(s.request, 0, nullptr); }},
            {"dat_cr_handoff", "",
             [](request_subject &s) { return dat_cr_handoff(s.request, s.elsewhere()); }},
        }));
    return all;
}

} // namespace conformance
