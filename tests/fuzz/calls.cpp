// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Sequences of DAT calls, in any order, with valid arguments and others: null, small integers,
// freed handles, handles of another type, lengths and flags that are none. A model of the objects
// knows which handles are valid and what is in use. A call with an invalid handle fails, one with
// valid handles does not take them for invalid, a free succeeds exactly when nothing uses the
// object, all codes are documented ones, and in the end everything can be freed and closed.
//
// The adapter is soft-lo, or the one in DAPL_FUZZ_IA.
#include "dat_names.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dat2/udat.h>
#include <dat2/udat_redirection.h>
#include <dlfcn.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <memory>
#include <netinet/in.h>
#include <vector>

namespace {

constexpr unsigned most_calls = 400;
constexpr unsigned runs_per_adapter = 200;
constexpr std::size_t memory_size = 64 * 1024;
alignas(4096) char memory[memory_size];

/// The last call, for a failure; FUZZ_TRACE shows every call.
const char *current = "";

[[noreturn]] void fail(const char *what, DAT_RETURN code = DAT_SUCCESS)
{
    const char *type = dat::return_type_name(code);
    const char *subtype = dat::return_subtype_name(code);
    std::fprintf(stderr, "%s: %s (0x%x %s %s)\n", current, what, static_cast<unsigned>(code),
                 type != nullptr ? type : "?", subtype != nullptr ? subtype : "?");
    std::abort();
}

bool is(DAT_RETURN code, DAT_RETURN type)
{
    return DAT_GET_TYPE(code) == type;
}

bool is_documented(DAT_RETURN code)
{
    for (const DAT_RETURN type :
         {DAT_SUCCESS, DAT_CONN_QUAL_IN_USE, DAT_INSUFFICIENT_RESOURCES, DAT_INVALID_HANDLE,
          DAT_INVALID_PARAMETER, DAT_INVALID_STATE, DAT_LENGTH_ERROR, DAT_MODEL_NOT_SUPPORTED,
          DAT_PRIVILEGES_VIOLATION, DAT_PROTECTION_VIOLATION, DAT_QUEUE_EMPTY, DAT_QUEUE_FULL,
          DAT_TIMEOUT_EXPIRED, DAT_INVALID_ADDRESS, DAT_NOT_IMPLEMENTED})
        if (is(code, type))
            return dat::return_subtype_name(code) != nullptr;
    return false;
}

struct object {
    DAT_HANDLE_TYPE type;
    DAT_HANDLE handle;
    unsigned streams = 0;        ///< an EVD's streams
    DAT_CONN_QUAL qualifier = 0; ///< a PSP's qualifier
    DAT_LMR_CONTEXT local = 0;   ///< an LMR's local key
    DAT_RMR_CONTEXT remote = 0;
    int users = 0;
    bool may_be_used = false;     ///< by a binding, which the model does not follow
    object *cno = nullptr;        ///< an EVD's CNO
    std::vector<object *> uses{}; ///< objects that it uses until it is freed
};

/// A handle as argument, and the object that it names, if it fits.
struct choice {
    DAT_HANDLE handle = DAT_HANDLE_NULL;
    object *of = nullptr;
    bool valid() const { return of != nullptr; }
};

class adapter {
public:
    DAT_IA_HANDLE ia() const { return ia_; }
    DAT_EVD_HANDLE async() const { return async_; }
    void open()
    {
        if (ia_ != DAT_HANDLE_NULL)
            return;
        const char *name = std::getenv("DAPL_FUZZ_IA");
        current = "dat_ia_open";
        async_ = DAT_HANDLE_NULL;
        const DAT_RETURN code =
            dat_ia_open(const_cast<char *>(name != nullptr ? name : "soft-lo"), 8, &async_, &ia_);
        if (code != DAT_SUCCESS)
            fail("the adapter does not open", code);
        keep_loaded();
    }
    void close_after(unsigned runs)
    {
        if (++runs_ % runs != 0)
            return;
        current = "dat_ia_close";
        const DAT_RETURN code = dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG);
        if (code != DAT_SUCCESS)
            fail("something is left that uses the adapter", code);
        ia_ = DAT_HANDLE_NULL;
    }

private:
    /// libFuzzer reads the counters of the provider's library between runs.
    void keep_loaded() const
    {
        const auto *vector = *static_cast<DAT_PROVIDER *const *>(async_);
        Dl_info found{};
        if (dladdr(reinterpret_cast<void *>(vector->evd_dequeue_func), &found) == 0 ||
            dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr)
            fail("the provider's library is not found");
    }

    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_ = DAT_HANDLE_NULL;
    unsigned runs_ = 0;
};

adapter the_adapter;

class program {
public:
    program(const std::uint8_t *bytes, std::size_t size) : input_(bytes, size)
    {
        the_adapter.open();
        ia_ = the_adapter.ia();
    }

    void run()
    {
        for (unsigned i = 0; i < most_calls && input_.remaining_bytes() != 0; ++i)
            (this->*calls[input_.ConsumeIntegral<std::uint8_t>() % calls.size()])();
        free_everything();
        the_adapter.close_after(runs_per_adapter);
    }

private:
    using call = void (program::*)();
    static const std::array<call, 40> calls;

    // ---------------------------------------------------------------------------- arguments

    unsigned below(unsigned end) { return input_.ConsumeIntegralInRange<unsigned>(0, end - 1); }
    bool one_in(unsigned times) { return below(times) == 0; }

    object *find(DAT_HANDLE_TYPE type, DAT_HANDLE handle)
    {
        for (const auto &each : live_)
            if (each->type == type && each->handle == handle)
                return each.get();
        return nullptr;
    }

    /// Picks a handle, mostly a fitting one if there is any.
    choice pick(DAT_HANDLE_TYPE type, unsigned streams = 0)
    {
        choice made;
        std::vector<object *> fit;
        for (const auto &each : live_)
            if (each->type == type && (each->streams & streams) == streams)
                fit.push_back(each.get());
        switch (below(16)) {
        case 0:
            break; // null
        case 1:
            made.handle = reinterpret_cast<DAT_HANDLE>(std::uintptr_t{below(4096)});
            break;
        case 2:
            if (!dead_.empty())
                made.handle = dead_[below(static_cast<unsigned>(dead_.size()))];
            break;
        case 3:
            if (!live_.empty())
                made.handle = live_[below(static_cast<unsigned>(live_.size()))]->handle;
            break;
        case 4:
            made.handle = ia_;
            break;
        default:
            if (!fit.empty())
                made.handle = fit[below(static_cast<unsigned>(fit.size()))]->handle;
            break;
        }
        made.of = find(type, made.handle);
        if (made.of != nullptr && (made.of->streams & streams) != streams)
            made.of = nullptr;
        return made;
    }

    DAT_IA_HANDLE pick_ia(bool &valid)
    {
        const DAT_IA_HANDLE ia = one_in(16) ? pick(DAT_HANDLE_TYPE_PZ).handle : ia_;
        valid = ia == ia_;
        return ia;
    }

    /// A number of entries; few that are too many.
    DAT_COUNT count()
    {
        static constexpr DAT_COUNT some[] = {1, 2, 8, 64, 512, 0, -1, 0x7fffffff};
        return some[below(8)];
    }
    template <class T>
    T *perhaps_null(T &out)
    {
        return one_in(16) ? nullptr : &out;
    }
    DAT_LMR_TRIPLET segment()
    {
        const choice region = pick(DAT_HANDLE_TYPE_LMR);
        const DAT_LMR_CONTEXT context = region.valid() ? region.of->local : below(1000);
        return {reinterpret_cast<DAT_VADDR>(memory) + below(memory_size), below(8192), context};
    }
    DAT_RMR_TRIPLET target()
    {
        const choice region = pick(DAT_HANDLE_TYPE_LMR);
        const DAT_RMR_CONTEXT context = region.valid() ? region.of->remote : below(1000);
        return {reinterpret_cast<DAT_VADDR>(memory) + below(memory_size), below(8192), context};
    }
    DAT_COMPLETION_FLAGS flags()
    {
        return static_cast<DAT_COMPLETION_FLAGS>(one_in(4) ? below(256) : 0);
    }

    // ------------------------------------------------------------------------------ judging

    void begin(const char *name)
    {
        static const bool shown = std::getenv("FUZZ_TRACE") != nullptr;
        current = name;
        if (shown)
            std::fprintf(stderr, "%s\n", name);
    }

    /// `first`: the handle that the call is dispatched by. `others`: those beside it.
    DAT_RETURN judge(DAT_RETURN code, bool first, bool others = true)
    {
        if (!is_documented(code))
            fail("answers a code that is not documented", code);
        if (!first && !is(code, DAT_INVALID_HANDLE) && !is(code, DAT_INVALID_PARAMETER))
            fail("does not refuse an invalid handle", code);
        if (!others && code == DAT_SUCCESS)
            fail("takes an invalid handle beside its first", code);
        if (first && others && is(code, DAT_INVALID_HANDLE))
            fail("refuses valid handles", code);
        return code;
    }

    /// A wait ends by libFuzzer's own alarm, too, which comes twice in the time of -timeout.
    DAT_RETURN judge_wait(DAT_RETURN code, bool first)
    {
        return code == DAT_INTERRUPTED_CALL && first ? code : judge(code, first);
    }

    object &made(DAT_HANDLE_TYPE type, DAT_HANDLE handle, std::vector<object *> uses = {})
    {
        if (handle == DAT_HANDLE_NULL)
            fail("makes a null handle");
        for (const auto &each : live_)
            if (each->handle == handle)
                fail("makes a handle that another object has");
        for (object *each : uses)
            ++each->users;
        live_.push_back(std::make_unique<object>(object{type, handle}));
        live_.back()->uses = std::move(uses);
        return *live_.back();
    }
    void gone(object &which)
    {
        for (object *each : which.uses)
            --each->users;
        if (which.cno != nullptr)
            --which.cno->users;
        dead_.push_back(which.handle);
        live_.erase(std::find_if(live_.begin(), live_.end(),
                                 [&](const auto &each) { return each.get() == &which; }));
    }
    template <class Free>
    void free_one(const char *name, Free function, DAT_HANDLE_TYPE type)
    {
        begin(name);
        const choice which = pick(type);
        const DAT_RETURN code = judge(function(which.handle), which.valid());
        if (!which.valid())
            return;
        if (which.of->users != 0 && code == DAT_SUCCESS)
            fail("frees what is in use");
        if (which.of->users == 0 && !which.of->may_be_used && code != DAT_SUCCESS)
            fail("does not free what is not in use", code);
        if (code != DAT_SUCCESS && !is(code, DAT_INVALID_STATE))
            fail("refuses a free with another code than INVALID_STATE", code);
        if (code == DAT_SUCCESS)
            gone(*which.of);
    }
    template <class Query, class Param>
    void query_one(const char *name, Query function, DAT_HANDLE_TYPE type, Param)
    {
        begin(name);
        using mask = decltype(param_mask(function));
        const choice which = pick(type);
        Param into{};
        const auto asked = static_cast<mask>(one_in(4) ? below(0x10000) : 1);
        Param *const where = perhaps_null(into);
        const DAT_RETURN code = judge(function(which.handle, asked, where), which.valid());
        if (which.valid() && where == nullptr && code == DAT_SUCCESS)
            fail("stores through a null pointer");
    }
    template <class Handle, class Mask, class Param>
    static Mask param_mask(DAT_RETURN (*)(Handle, Mask, Param *));

    // -------------------------------------------------------------------------------- calls

    void pz_create()
    {
        begin("dat_pz_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        DAT_PZ_HANDLE out = DAT_HANDLE_NULL;
        if (judge(dat_pz_create(ia, perhaps_null(out)), valid) == DAT_SUCCESS)
            made(DAT_HANDLE_TYPE_PZ, out);
    }
    void pz_free() { free_one("dat_pz_free", dat_pz_free, DAT_HANDLE_TYPE_PZ); }
    void pz_query() { query_one("dat_pz_query", dat_pz_query, DAT_HANDLE_TYPE_PZ, DAT_PZ_PARAM{}); }

    void evd_create()
    {
        begin("dat_evd_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        static constexpr unsigned usual[] = {
            DAT_EVD_DTO_FLAG,
            DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
            DAT_EVD_CONNECTION_FLAG,
            DAT_EVD_CR_FLAG,
            DAT_EVD_SOFTWARE_FLAG,
            DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_SOFTWARE_FLAG,
            DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
        };
        const unsigned streams = one_in(8) ? below(0x400) : usual[below(7)];
        choice cno;
        if (one_in(3))
            cno = pick(DAT_HANDLE_TYPE_CNO);
        const bool cno_fits = cno.valid() || cno.handle == DAT_HANDLE_NULL;
        DAT_EVD_HANDLE out = DAT_HANDLE_NULL;
        const DAT_RETURN code =
            judge(dat_evd_create(ia, count(), cno.handle, static_cast<DAT_EVD_FLAGS>(streams),
                                 perhaps_null(out)),
                  valid, cno_fits);
        if (code != DAT_SUCCESS)
            return;
        object &evd = made(DAT_HANDLE_TYPE_EVD, out);
        evd.streams = streams;
        attach(evd, cno.of);
    }
    void attach(object &evd, object *cno)
    {
        if (evd.cno != nullptr)
            --evd.cno->users;
        evd.cno = cno;
        if (cno != nullptr)
            ++cno->users;
    }
    void evd_free() { free_one("dat_evd_free", dat_evd_free, DAT_HANDLE_TYPE_EVD); }
    void evd_query()
    {
        query_one("dat_evd_query", dat_evd_query, DAT_HANDLE_TYPE_EVD, DAT_EVD_PARAM{});
    }
    void evd_resize()
    {
        begin("dat_evd_resize");
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        judge(dat_evd_resize(evd.handle, count()), evd.valid());
    }
    void evd_modify_cno()
    {
        begin("dat_evd_modify_cno");
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        const choice cno = pick(DAT_HANDLE_TYPE_CNO);
        const bool fits = cno.valid() || cno.handle == DAT_HANDLE_NULL;
        if (judge(dat_evd_modify_cno(evd.handle, cno.handle), evd.valid(), fits) == DAT_SUCCESS)
            attach(*evd.of, cno.of);
    }
    void evd_set_state()
    {
        begin("dat_evd_enable, disable, set_unwaitable, clear_unwaitable");
        static constexpr DAT_RETURN (*all[])(DAT_EVD_HANDLE) = {
            dat_evd_enable, dat_evd_disable, dat_evd_set_unwaitable, dat_evd_clear_unwaitable};
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        judge(all[below(4)](evd.handle), evd.valid());
    }
    void evd_post_se()
    {
        begin("dat_evd_post_se");
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        DAT_EVENT event{};
        event.event_number = one_in(8) ? DAT_DTO_COMPLETION_EVENT : DAT_SOFTWARE_EVENT;
        judge(dat_evd_post_se(evd.handle, perhaps_null(event)), evd.valid());
    }
    void evd_dequeue()
    {
        begin("dat_evd_dequeue");
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        DAT_EVENT event{};
        if (judge(dat_evd_dequeue(evd.handle, perhaps_null(event)), evd.valid()) == DAT_SUCCESS)
            take(event);
    }
    void evd_wait()
    {
        begin("dat_evd_wait");
        const choice evd = pick(DAT_HANDLE_TYPE_EVD);
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        const DAT_COUNT threshold = one_in(4) ? count() : 1;
        const DAT_TIMEOUT timeout = below(4) * 500;
        DAT_EVENT *const into = perhaps_null(event);
        DAT_COUNT *const left = perhaps_null(more);
        if (judge_wait(dat_evd_wait(evd.handle, timeout, threshold, into, left), evd.valid()) ==
            DAT_SUCCESS)
            take(event);
    }
    void async_dequeue()
    {
        begin("dat_evd_dequeue of the asynchronous EVD");
        DAT_EVENT event{};
        judge(dat_evd_dequeue(the_adapter.async(), &event), true);
    }
    /// Connection requests become objects.
    void take(const DAT_EVENT &event)
    {
        if (find(DAT_HANDLE_TYPE_EVD, event.evd_handle) == nullptr)
            fail("stores an event of an EVD that does not exist");
        if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
            made(DAT_HANDLE_TYPE_CR, event.event_data.cr_arrival_event_data.cr_handle);
    }

    void cno_create()
    {
        begin("dat_cno_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        DAT_CNO_HANDLE out = DAT_HANDLE_NULL;
        if (judge(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, perhaps_null(out)), valid) ==
            DAT_SUCCESS)
            made(DAT_HANDLE_TYPE_CNO, out);
    }
    void cno_free() { free_one("dat_cno_free", dat_cno_free, DAT_HANDLE_TYPE_CNO); }
    void cno_query()
    {
        query_one("dat_cno_query", dat_cno_query, DAT_HANDLE_TYPE_CNO, DAT_CNO_PARAM{});
    }
    void cno_wait()
    {
        begin("dat_cno_wait");
        const choice cno = pick(DAT_HANDLE_TYPE_CNO);
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        judge_wait(dat_cno_wait(cno.handle, below(4) * 500, perhaps_null(evd)), cno.valid());
    }

    void lmr_create()
    {
        begin("dat_lmr_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        const choice pz = pick(DAT_HANDLE_TYPE_PZ);
        const choice like = pick(DAT_HANDLE_TYPE_LMR);
        const auto type = static_cast<DAT_MEM_TYPE>(one_in(4) ? below(5) : 0);
        const bool of_lmr = type == DAT_MEM_TYPE_LMR;
        DAT_REGION_DESCRIPTION where{};
        const std::size_t at = below(memory_size);
        if (of_lmr)
            where.for_lmr_handle = like.handle;
        else
            where.for_va = one_in(16) ? nullptr : memory + at;
        const DAT_VLEN length = one_in(8) ? ~DAT_VLEN{0} >> below(64) : below(8192);
        const auto rights =
            static_cast<DAT_MEM_PRIV_FLAGS>(one_in(4) ? below(256) : DAT_MEM_PRIV_ALL_FLAG);
        const auto va_type = static_cast<DAT_VA_TYPE>(one_in(8) ? below(3) : 0);
        DAT_LMR_HANDLE out = DAT_HANDLE_NULL;
        DAT_LMR_CONTEXT local = 0;
        DAT_RMR_CONTEXT remote = 0;
        const DAT_RETURN code =
            judge(dat_lmr_create(ia, type, where, length, pz.handle, rights, va_type,
                                 perhaps_null(out), &local, &remote, nullptr, nullptr),
                  valid, pz.valid() && (!of_lmr || like.valid()));
        if (code != DAT_SUCCESS)
            return;
        if (!of_lmr && at + length > memory_size && length > memory_size)
            return; // what lies behind belongs to the process as well
        object &lmr = made(DAT_HANDLE_TYPE_LMR, out, {pz.of});
        lmr.local = local;
        lmr.remote = remote;
    }
    void lmr_free() { free_one("dat_lmr_free", dat_lmr_free, DAT_HANDLE_TYPE_LMR); }
    void lmr_query()
    {
        query_one("dat_lmr_query", dat_lmr_query, DAT_HANDLE_TYPE_LMR, DAT_LMR_PARAM{});
    }

    void rmr_create()
    {
        begin("dat_rmr_create");
        const choice pz = pick(DAT_HANDLE_TYPE_PZ);
        DAT_RMR_HANDLE out = DAT_HANDLE_NULL;
        const bool for_ep = one_in(4);
        DAT_RMR_HANDLE *const into = perhaps_null(out);
        const DAT_RETURN code =
            for_ep ? dat_rmr_create_for_ep(pz.handle, into) : dat_rmr_create(pz.handle, into);
        if (judge(code, pz.valid()) == DAT_SUCCESS)
            made(DAT_HANDLE_TYPE_RMR, out, {pz.of});
    }
    void rmr_free() { free_one("dat_rmr_free", dat_rmr_free, DAT_HANDLE_TYPE_RMR); }
    void rmr_query()
    {
        query_one("dat_rmr_query", dat_rmr_query, DAT_HANDLE_TYPE_RMR, DAT_RMR_PARAM{});
    }
    void rmr_bind()
    {
        begin("dat_rmr_bind");
        const choice rmr = pick(DAT_HANDLE_TYPE_RMR);
        const choice lmr = pick(DAT_HANDLE_TYPE_LMR);
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        DAT_LMR_TRIPLET part = segment();
        if (lmr.valid())
            part.lmr_context = lmr.of->local;
        DAT_RMR_CONTEXT context = 0;
        const auto rights = static_cast<DAT_MEM_PRIV_FLAGS>(below(256));
        const DAT_RETURN code = dat_rmr_bind(rmr.handle, lmr.handle, perhaps_null(part), rights,
                                             static_cast<DAT_VA_TYPE>(one_in(8) ? below(3) : 0),
                                             ep.handle, {}, flags(), &context);
        const bool unbinds = part.segment_length == 0;
        judge(code, rmr.valid(), ep.valid() && (lmr.valid() || unbinds));
        if (code == DAT_SUCCESS && lmr.valid())
            lmr.of->may_be_used = true;
    }

    void srq_create()
    {
        begin("dat_srq_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        const choice pz = pick(DAT_HANDLE_TYPE_PZ);
        DAT_SRQ_ATTR attr{count(), one_in(4) ? count() : 1, one_in(4) ? count() : 0};
        DAT_SRQ_HANDLE out = DAT_HANDLE_NULL;
        if (judge(dat_srq_create(ia, pz.handle, perhaps_null(attr), perhaps_null(out)), valid,
                  pz.valid()) == DAT_SUCCESS)
            made(DAT_HANDLE_TYPE_SRQ, out, {pz.of});
    }
    void srq_free() { free_one("dat_srq_free", dat_srq_free, DAT_HANDLE_TYPE_SRQ); }
    void srq_query()
    {
        query_one("dat_srq_query", dat_srq_query, DAT_HANDLE_TYPE_SRQ, DAT_SRQ_PARAM{});
    }
    void srq_change()
    {
        begin("dat_srq_resize, dat_srq_set_lw");
        const choice srq = pick(DAT_HANDLE_TYPE_SRQ);
        const bool resize = one_in(2);
        const DAT_COUNT to = count();
        judge(resize ? dat_srq_resize(srq.handle, to) : dat_srq_set_lw(srq.handle, to),
              srq.valid());
    }
    void srq_post_recv()
    {
        begin("dat_srq_post_recv");
        const choice srq = pick(DAT_HANDLE_TYPE_SRQ);
        DAT_LMR_TRIPLET segments[2] = {segment(), segment()};
        const DAT_COUNT number = one_in(4) ? count() % 3 : 1;
        judge(dat_srq_post_recv(srq.handle, number, one_in(16) ? nullptr : segments, {}),
              srq.valid());
    }

    void ep_create()
    {
        begin("dat_ep_create");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        const choice pz = pick(DAT_HANDLE_TYPE_PZ);
        const choice recv = pick(DAT_HANDLE_TYPE_EVD, DAT_EVD_DTO_FLAG);
        const choice request = pick(DAT_HANDLE_TYPE_EVD, DAT_EVD_DTO_FLAG);
        const choice connect = pick(DAT_HANDLE_TYPE_EVD, DAT_EVD_CONNECTION_FLAG);
        choice srq;
        const bool shared = one_in(4);
        if (shared)
            srq = pick(DAT_HANDLE_TYPE_SRQ);
        DAT_EP_ATTR attr{};
        attr.max_message_size = 4096;
        attr.max_rdma_size = 4096;
        attr.max_recv_dtos = count() % 64;
        attr.max_request_dtos = count() % 64;
        attr.max_recv_iov = attr.max_request_iov = one_in(4) ? count() % 8 : 2;
        attr.max_rdma_read_in = attr.max_rdma_read_out = one_in(4) ? count() % 64 : 2;
        attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
        if (one_in(8))
            attr.recv_completion_flags = flags();
        const DAT_EP_ATTR *const how = one_in(2) ? nullptr : &attr;
        DAT_EP_HANDLE out = DAT_HANDLE_NULL;
        DAT_EP_HANDLE *const into = perhaps_null(out);
        const DAT_RETURN code =
            shared ? dat_ep_create_with_srq(ia, pz.handle, recv.handle, request.handle,
                                            connect.handle, srq.handle, how, into)
                   : dat_ep_create(ia, pz.handle, recv.handle, request.handle, connect.handle, how,
                                   into);
        std::vector<object *> uses;
        bool fits = true;
        for (const choice *each : {&pz, &recv, &request, &connect}) {
            if (each->valid())
                uses.push_back(each->of);
            else
                fits = fits && each->handle == DAT_HANDLE_NULL;
        }
        if (srq.valid())
            uses.push_back(srq.of);
        const bool complete = !shared || (srq.valid() && pz.valid() && recv.valid());
        judge_made_ep(code, valid, fits && complete, pz.valid());
        if (code == DAT_SUCCESS)
            made(DAT_HANDLE_TYPE_EP, out, uses);
    }
    /// Whether an endpoint may do without a zone is the provider's matter.
    void judge_made_ep(DAT_RETURN code, bool first, bool others, bool has_zone)
    {
        if (first && others && !has_zone && is(code, DAT_INVALID_HANDLE))
            return;
        judge(code, first, others);
    }
    void ep_free() { free_one("dat_ep_free", dat_ep_free, DAT_HANDLE_TYPE_EP); }
    void ep_query() { query_one("dat_ep_query", dat_ep_query, DAT_HANDLE_TYPE_EP, DAT_EP_PARAM{}); }
    void ep_status()
    {
        begin("dat_ep_get_status");
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        DAT_EP_STATE state{};
        DAT_BOOLEAN recv{}, request{};
        judge(dat_ep_get_status(ep.handle, perhaps_null(state), perhaps_null(recv),
                                perhaps_null(request)),
              ep.valid());
    }
    /// Judges the code of a call on an endpoint, which may lack an object that the call needs; the
    /// code is then an invalid handle's.
    void judge_use(DAT_RETURN code, const choice &ep)
    {
        judge(code, ep.valid(), !is(code, DAT_INVALID_HANDLE));
    }
    void ep_connect()
    {
        begin("dat_ep_connect");
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        const choice psp = pick(DAT_HANDLE_TYPE_PSP);
        sockaddr_in address{};
        address.sin_family = one_in(16) ? 99 : AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        char data[512] = {};
        const DAT_COUNT size = one_in(8) ? count() : static_cast<DAT_COUNT>(below(64));
        const DAT_COUNT within = std::min<DAT_COUNT>(size, sizeof data);
        judge_use(dat_ep_connect(ep.handle, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address),
                                 psp.valid() ? psp.of->qualifier : below(70000), below(3) * 1000,
                                 within, one_in(16) ? nullptr : data,
                                 static_cast<DAT_QOS>(one_in(8) ? below(32) : 0),
                                 static_cast<DAT_CONNECT_FLAGS>(one_in(8) ? below(4) : 0)),
                  ep);
    }
    void ep_disconnect()
    {
        begin("dat_ep_disconnect");
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        judge_use(dat_ep_disconnect(ep.handle, static_cast<DAT_CLOSE_FLAGS>(below(3))), ep);
    }
    void ep_reset()
    {
        begin("dat_ep_reset");
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        judge(dat_ep_reset(ep.handle), ep.valid());
    }
    void ep_post()
    {
        begin("dat_ep_post_*");
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        DAT_LMR_TRIPLET segments[2] = {segment(), segment()};
        const DAT_RMR_TRIPLET there = target();
        const DAT_COUNT number = one_in(4) ? count() % 3 : 1;
        DAT_LMR_TRIPLET *const local = one_in(16) ? nullptr : segments;
        const DAT_RMR_TRIPLET *const remote = one_in(16) ? nullptr : &there;
        const DAT_COMPLETION_FLAGS how = flags();
        DAT_RETURN code{};
        switch (below(5)) {
        case 0:
            code = dat_ep_post_send(ep.handle, number, local, {}, how);
            break;
        case 1:
            code = dat_ep_post_rdma_write(ep.handle, number, local, {}, remote, how);
            break;
        case 2:
            code = dat_ep_post_rdma_read(ep.handle, number, local, {}, remote, how);
            break;
        case 3:
            code = dat_ep_post_send_with_invalidate(ep.handle, number, local, {}, how,
                                                    one_in(2) ? DAT_TRUE : DAT_FALSE,
                                                    there.rmr_context);
            break;
        default:
            code = dat_ep_post_recv(ep.handle, number, local, {}, how);
            break;
        }
        judge_use(code, ep);
    }

    void psp_create()
    {
        begin("dat_psp_create_any");
        bool valid = false;
        const DAT_IA_HANDLE ia = pick_ia(valid);
        const choice evd = pick(DAT_HANDLE_TYPE_EVD, DAT_EVD_CR_FLAG);
        DAT_CONN_QUAL qualifier = 0;
        DAT_PSP_HANDLE out = DAT_HANDLE_NULL;
        const auto how =
            static_cast<DAT_PSP_FLAGS>(one_in(8) ? 2 + below(4) : DAT_PSP_CONSUMER_FLAG);
        if (judge(dat_psp_create_any(ia, &qualifier, evd.handle, how, perhaps_null(out)), valid,
                  evd.valid()) != DAT_SUCCESS)
            return;
        made(DAT_HANDLE_TYPE_PSP, out, {evd.of}).qualifier = qualifier;
    }
    void psp_free() { free_one("dat_psp_free", dat_psp_free, DAT_HANDLE_TYPE_PSP); }
    void psp_query()
    {
        query_one("dat_psp_query", dat_psp_query, DAT_HANDLE_TYPE_PSP, DAT_PSP_PARAM{});
    }
    void cr_query() { query_one("dat_cr_query", dat_cr_query, DAT_HANDLE_TYPE_CR, DAT_CR_PARAM{}); }
    void cr_accept()
    {
        begin("dat_cr_accept");
        const choice cr = pick(DAT_HANDLE_TYPE_CR);
        const choice ep = pick(DAT_HANDLE_TYPE_EP);
        char data[64] = {};
        const DAT_RETURN code =
            dat_cr_accept(cr.handle, ep.handle, static_cast<DAT_COUNT>(below(64)), data);
        judge(code, cr.valid(), ep.valid() && !is(code, DAT_INVALID_HANDLE));
        if (code == DAT_SUCCESS)
            gone(*cr.of);
    }
    void cr_reject()
    {
        begin("dat_cr_reject");
        const choice cr = pick(DAT_HANDLE_TYPE_CR);
        if (judge(dat_cr_reject(cr.handle, 0, nullptr), cr.valid()) == DAT_SUCCESS)
            gone(*cr.of);
    }

    void any_context()
    {
        begin("dat_set_consumer_context, dat_get_consumer_context, dat_get_handle_type");
        if (live_.empty())
            return;
        const object &which = *live_[below(static_cast<unsigned>(live_.size()))];
        DAT_CONTEXT context{}, back{};
        context.as_64 = below(1u << 30);
        DAT_HANDLE_TYPE type{};
        if (dat_set_consumer_context(which.handle, context) != DAT_SUCCESS ||
            dat_get_consumer_context(which.handle, &back) != DAT_SUCCESS ||
            back.as_64 != context.as_64)
            fail("a context is not kept");
        if (dat_get_handle_type(which.handle, &type) != DAT_SUCCESS || type != which.type)
            fail("a handle has another type than the call that made it says");
    }

    // ------------------------------------------------------------------------------- the end

    template <class Free>
    void free_all(const char *name, Free function, DAT_HANDLE_TYPE type)
    {
        for (std::size_t i = live_.size(); i-- != 0;) {
            object &each = *live_[i];
            if (each.type != type)
                continue;
            begin(name);
            if (const DAT_RETURN code = function(each.handle); code != DAT_SUCCESS)
                fail("does not free, in the end, what nothing uses", code);
            gone(each);
        }
    }
    void take_requests()
    {
        std::vector<DAT_EVD_HANDLE> evds;
        for (const auto &each : live_)
            if (each->type == DAT_HANDLE_TYPE_EVD)
                evds.push_back(each->handle);
        DAT_EVENT event{};
        for (DAT_EVD_HANDLE evd : evds)
            while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
                take(event);
    }
    void free_everything()
    {
        free_all("dat_ep_free", dat_ep_free, DAT_HANDLE_TYPE_EP);
        free_all("dat_psp_free", dat_psp_free, DAT_HANDLE_TYPE_PSP);
        take_requests();
        free_all(
            "dat_cr_reject", [](DAT_CR_HANDLE cr) { return dat_cr_reject(cr, 0, nullptr); },
            DAT_HANDLE_TYPE_CR);
        free_all("dat_srq_free", dat_srq_free, DAT_HANDLE_TYPE_SRQ);
        free_all("dat_rmr_free", dat_rmr_free, DAT_HANDLE_TYPE_RMR);
        free_all("dat_lmr_free", dat_lmr_free, DAT_HANDLE_TYPE_LMR);
        free_all("dat_pz_free", dat_pz_free, DAT_HANDLE_TYPE_PZ);
        free_all("dat_evd_free", dat_evd_free, DAT_HANDLE_TYPE_EVD);
        free_all("dat_cno_free", dat_cno_free, DAT_HANDLE_TYPE_CNO);
    }

    FuzzedDataProvider input_;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    std::vector<std::unique_ptr<object>> live_;
    std::vector<DAT_HANDLE> dead_;
};

const std::array<program::call, 40> program::calls = {
    &program::pz_create,     &program::pz_free,       &program::pz_query,
    &program::evd_create,    &program::evd_create,    &program::evd_free,
    &program::evd_query,     &program::evd_resize,    &program::evd_modify_cno,
    &program::evd_set_state, &program::evd_post_se,   &program::evd_dequeue,
    &program::evd_wait,      &program::async_dequeue, &program::cno_create,
    &program::cno_free,      &program::cno_query,     &program::cno_wait,
    &program::lmr_create,    &program::lmr_free,      &program::lmr_query,
    &program::rmr_create,    &program::rmr_free,      &program::rmr_bind,
    &program::srq_create,    &program::srq_free,      &program::srq_change,
    &program::srq_post_recv, &program::ep_create,     &program::ep_free,
    &program::ep_query,      &program::ep_connect,    &program::ep_disconnect,
    &program::ep_reset,      &program::ep_post,       &program::psp_create,
    &program::psp_free,      &program::cr_accept,     &program::cr_reject,
    &program::any_context,
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size)
{
    program(bytes, size).run();
    return 0;
}
