// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A port in memory, under the test's control. It holds the common layer to its side of the
// contract, and keeps the port's side.
#pragma once

#include "dapls_ib.hpp"
#include "lab.hpp"
#include "port_features.hpp"

#include <climits>
#include <memory>
#include <mutex>
#include <vector>

static_assert(DAPLS_IB_VERSION == 5);

namespace dapl::DAPL_TRANSPORT {

struct qp;

/// The stage of an object's life; catches use before alloc and after free.
class alive {
public:
    void begin(const char *what);
    void end(const char *what);
    void check(const char *what) const
    {
        if (!now_.load(std::memory_order_relaxed)) [[unlikely]]
            lab::violation(std::string(what) + " is used, but not alive");
    }
    explicit operator bool() const { return now_.load(); }

private:
    std::atomic<bool> now_{false};
};

/// A request on its way to an answer.
struct request_token {
    explicit request_token(qp *from) : peer(from) { ++lab::live_objects; }
    ~request_token();
    std::atomic<qp *> peer; ///< null when the peer is gone, or is played by the test
    std::atomic<bool> answered{false};
};

struct types {
    struct cq;
    struct hca {
        alive life;
        adapter *owner = nullptr;
        std::shared_ptr<lab::upcall_door> door = std::make_shared<lab::upcall_door>();
        DAT_SOCK_ADDR address{};
        std::atomic<bool> waiting{false};
        osd::wait_object sleeper;
        lab::spin_lock lock;
        bool has_sleeper = false;
        std::vector<cq *> due; ///< CQs whose callbacks the sleeper makes

        /// Returns false when no thread sleeps in cno_wait that could make its callback.
        bool hand_over(cq &armed);
        /// The next CQ that is due, its door held, so that it stays.
        cq *next_due();
    };
    struct pd {
        alive life;
        std::atomic<int> users{0};
    };
    struct mr {
        alive life;
        pd *zone = nullptr;
        std::atomic<int> windows{0}; ///< that are bound to it, or will be
    };
    /// Outlives its mw as long as binds are posted.
    struct window {
        lab::spin_lock lock;
        bool freed = false;
        mr *bound = nullptr;
        bool unsure = false; ///< devices may lose count of the keys with a bind that they do not do
        std::vector<mr *> posted;

        void finish(mr *target, bool done);
        void lose();
        void free();
    };
    struct mw {
        alive life;
        pd *zone = nullptr;
        std::shared_ptr<window> state;
    };
    struct cq {
        alive life;
        hca *device = nullptr;
        evd *owner = nullptr;
        std::shared_ptr<lab::upcall_door> door = std::make_shared<lab::upcall_door>();
        std::atomic<bool> polling{false};
        std::atomic<bool> waiting{false};
        std::atomic<int> users{0};
        lab::spin_lock lock;
        std::unique_ptr<completion[]> ring;
        std::uint32_t depth = 0;
        std::atomic<std::uint32_t> head{0};
        std::atomic<std::uint32_t> tail{0};
        std::atomic<bool> armed{false};
        std::atomic<bool> armed_for_solicited{false};
        std::atomic<bool> waits_for_solicited{false};
        std::atomic<std::uint32_t> threshold{INT_MAX}; ///< that, while no thread waits
        std::atomic<unsigned> sleeps{0};               ///< calls of dapls_ib_cq_wait that slept
        std::atomic<int> events{0};                    ///< events of other streams
        osd::wait_object sleeper;

        bool store(const completion &done);
        /// After a store, with no lock held: wakes, and calls back.
        void announce(bool solicited);
        std::uint32_t size() const { return tail.load() - head.load(); }
        bool holds_solicited();
        bool has_enough() const
        {
            const int others = events.load();
            return waits_for_solicited
                       ? others > 0
                       : static_cast<int>(size()) + others >= static_cast<int>(threshold.load());
        }
        void call_back();
        bool poll(completion &done);
        /// The oldest, if it is plain.
        take_result take(completion &done);
    };
    using qp = dapl::DAPL_TRANSPORT::qp;
    struct wr : work_request {
        DAT_COMPLETION_FLAGS flags;
        extended_request extension;
        std::atomic<bool> silently_done{false};
        bool shared = false; ///< posted with post_srq_recv, as all of its queue are
        std::shared_ptr<types::window> window;
        types::mr *target = nullptr;
    };
    struct srq;
    struct cr {
        std::unique_ptr<request_token> token;
    };
    struct listener {
        alive life;
        service_point *owner = nullptr;
        std::shared_ptr<lab::upcall_door> door = std::make_shared<lab::upcall_door>();
        DAT_CONN_QUAL qualifier = 0;
        listener *next = nullptr;
        std::atomic<bool> busy{false};
    };
};

enum class phase { fresh, pending, connected, down };

/// Posted operations that have not completed, oldest first.
struct posted_list {
    lab::spin_lock order; ///< held from taking one to storing its completion
    lab::spin_lock lock;
    std::unique_ptr<types::wr *[]> ring;
    std::uint32_t size = 0;
    std::uint32_t head = 0;
    std::uint32_t tail = 0;

    void allocate(DAT_COUNT count);
    bool push(types::wr &wr);
    types::wr *pop();
    bool empty();
    std::uint32_t size_now();
    DAT_UINT32 oldest_length();
};

struct types::srq {
    alive life;
    shared_recv_queue *owner = nullptr;
    types::pd *zone = nullptr;
    std::atomic<int> users{0};
    posted_list posted;
    DAT_COUNT limit = 0;
};

struct qp {
    alive life;
    endpoint *owner = nullptr;
    types::pd *zone = nullptr;
    types::cq *recv_cq = nullptr;
    types::cq *send_cq = nullptr;
    std::shared_ptr<lab::upcall_door> door = std::make_shared<lab::upcall_door>();
    std::atomic<phase> now{phase::fresh};
    std::atomic<qp *> peer{nullptr};
    std::atomic<bool> control{false};
    std::atomic<bool> fencing{false};
    std::atomic<bool> sending{false};
    std::atomic<bool> receiving{false};
    posted_list sends;
    posted_list recvs;
    types::srq *shared = nullptr;
    work_queue *receiver = nullptr;
    qp *next = nullptr;
};

struct transport : dapls_ib<types> {
    static constexpr features claims = port_features;

    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);
    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &);
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);
    static status dapls_ib_mw_alloc(pd &, mw &);
    static void dapls_ib_mw_free(mw &);
    static status dapls_ib_mw_bind(qp &, wr &, mw &, mr *, const mw_params &, DAT_COMPLETION_FLAGS,
                                   DAT_RMR_CONTEXT &);
    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);
    static status dapls_ib_cq_resize(cq &, DAT_COUNT &depth);
    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &, DAT_CONN_QUAL &);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);
    static osd::wait_result dapls_ib_cq_wait(cq &, notify_on, DAT_COUNT threshold, osd::deadline);
    static void dapls_ib_cq_wakeup(cq &);
    static void dapls_ib_evd_events(cq &, int change);
    static osd::wait_result dapls_ib_cno_wait(hca &, osd::deadline);
    static void dapls_ib_cno_wakeup(hca &);

    static bool dapls_ib_completion_poll(cq &queue, completion &done)
    {
        queue.life.check("cq");
        const lab::exclusive one(queue.polling, "two threads poll one cq at once");
        if (lab::latch *gate = lab::poll_gate.load(); gate != nullptr)
            gate->wait();
        return queue.poll(done);
    }

    static take_result dapls_ib_completion_take(cq &queue, work_request *&of, DAT_UINT32 &length)
    {
        queue.life.check("cq");
        const lab::exclusive one(queue.polling, "two threads poll one cq at once");
        completion done;
        const take_result found = queue.take(done);
        if (found == take_result::taken) {
            of = done.wr;
            length = done.length;
        }
        return found;
    }

    static bool dapls_ib_completion_progress(cq &queue)
    {
        queue.life.check("cq");
        const lab::exclusive one(queue.polling, "two threads poll one cq at once");
        lab::on_progress();
        return queue.size() != 0;
    }

    static DAT_COUNT dapls_ib_cq_count(cq &queue, DAT_COUNT limit)
    {
        queue.life.check("cq");
        const lab::exclusive one(queue.polling, "two threads poll one cq at once");
        return std::min(static_cast<DAT_COUNT>(queue.size()), limit);
    }

    static void dapls_ib_completion_notify(cq &queue, notify_on what)
    {
        queue.life.check("cq");
        (what == notify_on::any ? queue.armed : queue.armed_for_solicited).store(true);
    }

    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *,
                                     const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *);
    static status dapls_ib_srq_alloc(pd &, srq &, const srq_params &);
    static void dapls_ib_srq_free(srq &);
    static status dapls_ib_srq_resize(srq &, DAT_COUNT max_recv);
    static status dapls_ib_srq_set_limit(srq &, DAT_COUNT low_watermark);
    static status dapls_ib_post_srq_recv(srq &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *);
    static DAT_COUNT dapls_ib_requests_done(qp &, wr &, DAT_COUNT most);
    static status dapls_ib_post_extended(qp &, wr &, const extended_request &);
};

// ------------------------------------------------------------------------ names of the port's own

// The common layer has classes of all these names; it sees none of these.
struct object {};
struct pool {};
struct cr {};
struct lmr {};
struct link {};
struct ring {};
struct binding {};
enum class mark { none };
inline constexpr int claims = 0;

// ------------------------------------------------------------------- what the test does by hand

/// A device that cannot be armed for solicited completions.
inline std::atomic<bool> device_lacks_solicited{false};

/// The qp of an endpoint, or null.
qp *find_qp(const void *endpoint_handle);
/// An upcall about the connection; false when a fence has ended upcalls.
bool fire(qp &, DAT_EVENT_NUMBER, const private_data &data = {});
bool fire_qp_error(qp &);
bool fire_hca_error(types::hca &);
/// The oldest posted operation of a direction comes back. False when there is none.
bool complete_send(qp &, DAT_DTO_COMPLETION_STATUS = DAT_DTO_SUCCESS);
bool complete_recv(qp &, DAT_DTO_COMPLETION_STATUS = DAT_DTO_SUCCESS, DAT_UINT32 length = 0);
/// Completes a receive by a message whose sender asked for solicited wait.
bool complete_recv_solicited(qp &);
/// A write with immediate data takes the oldest receive.
bool complete_recv_immediate(qp &, DAT_UINT32 length, DAT_UINT32 immediate);
/// This one takes the oldest receive of its shared queue.
bool complete_shared_recv(qp &, DAT_UINT32 length = 0);
/// What the latest posted request was given.
const extended_request &latest_extension(qp &);
/// Everything posted comes back as flushed.
void flush(qp &);
/// What a listener that asks for a free qualifier gets next.
DAT_CONN_QUAL next_qualifier();
/// A request arrives at the qualifier. False: refused, or there is no listener.
bool arrive(DAT_CONN_QUAL qualifier, const private_data &data = {}, qp *from = nullptr);

} // namespace dapl::DAPL_TRANSPORT
