// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Calls on objects of every type.
#include "calls/answers.hpp"

namespace conformance {
namespace {

struct any_subject {
    adapter ia;
    test_endpoint own{ia};
    std::unique_ptr<listener> at;
    DAT_HANDLE handle = DAT_HANDLE_NULL;
};

using any_entry = std::unique_ptr<any_subject>;

/// `get` stores the handle; where it answers an error, there is no such object.
template <auto get>
any_entry any_of()
{
    auto made = std::make_unique<any_subject>();
    const answer told = get(*made);
    return told && *told == DAT_SUCCESS ? std::move(made) : nullptr;
}

answer get_ia(any_subject &s)
{
    s.handle = s.ia.handle;
    return success;
}

answer get_evd(any_subject &s)
{
    s.handle = s.own.recv_evd;
    return success;
}

answer get_cno(any_subject &s)
{
    s.handle = make_cno(s.ia);
    return success;
}

answer get_ep(any_subject &s)
{
    s.handle = s.own.ep;
    return success;
}

answer get_pz(any_subject &s)
{
    s.handle = s.own.pz;
    return success;
}

answer get_lmr(any_subject &s)
{
    s.handle = s.own.memory.lmr;
    return success;
}

answer get_rmr(any_subject &s)
{
    return dat_rmr_create(s.own.pz, &s.handle);
}

answer get_srq(any_subject &s)
{
    DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
    return dat_srq_create(s.ia.handle, s.own.pz, &attr, &s.handle);
}

answer get_psp(any_subject &s)
{
    s.at = std::make_unique<listener>(s.ia);
    s.handle = s.at->psp;
    return success;
}

answer get_rsp(any_subject &s)
{
    return dat_rsp_create(s.ia.handle, unused_qualifier(s.ia), s.own.ep,
                          make_evd(s.ia, DAT_EVD_CR_FLAG), &s.handle);
}

answer get_csp(any_subject &s)
{
    socket_address at(s.ia, unused_qualifier(s.ia));
    DAT_COMM comm = at.comm();
    return IF_THERE(dat_csp_create, s.ia.handle, &comm, at.get(), make_evd(s.ia, DAT_EVD_CR_FLAG),
                    &s.handle);
}

answer get_cr(any_subject &s)
{
    (void)get_psp(s);
    MUST(s.own.connect(s.ia.address(), s.at->qualifier));
    s.handle = s.at->next_request();
    return success;
}

answer get_freed(any_subject &s)
{
    s.handle = make_pz(s.ia);
    return dat_pz_free(s.handle);
}

} // namespace

std::vector<probing> handle_probings()
{
    return probings_of<any_subject>(
        "Any",
        {{"IA", any_of<get_ia>},
         {"EVD", any_of<get_evd>},
         {"CNO", any_of<get_cno>},
         {"EP", any_of<get_ep>},
         {"PZ", any_of<get_pz>},
         {"LMR", any_of<get_lmr>},
         {"RMR", any_of<get_rmr>},
         {"SRQ", any_of<get_srq>},
         {"PSP", any_of<get_psp>},
         {"RSP", any_of<get_rsp>},
         {"CSP", any_of<get_csp>},
         {"CR", any_of<get_cr>},
         {"freed", any_of<get_freed>}},
        {
            {"dat_get_handle_type", "",
             [](any_subject &s) {
                 DAT_HANDLE_TYPE type{};
                 return dat_get_handle_type(s.handle, &type);
             }},
            {"dat_set_consumer_context", "",
             [](any_subject &s) { return dat_set_consumer_context(s.handle, DAT_CONTEXT{}); }},
            {"dat_get_consumer_context", "",
             [](any_subject &s) {
                 DAT_CONTEXT context{};
                 return dat_get_consumer_context(s.handle, &context);
             }},
        });
}

} // namespace conformance
