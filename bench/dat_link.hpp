// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// An adapter, and one connection over it, as a DAT consumer makes them. The operations on the data
// path are inline: nothing but the DAT call stands between a measurement and the library.
//
// Where a process is over DAT 1.2, posts and polls are made as programs of that generation make
// them. All other calls go through libdat2-over-dat12.so, which translates in front of libdat.
//
// Memory of a link: it sends from [0, max_size) and reads into it; it receives into [max_size, 2 *
// max_size), which its peer may write and read.
#pragma once

#include "channel.hpp"
#include "dat12_calls.hpp"
#include "link_memory.hpp"
#include "program/failure.hpp"
#include "program/libdat2.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace bench {

/// An open interface adapter with a protection zone.
class dat_adapter {
public:
    explicit dat_adapter(const std::string &name, bool threadsafe = false);
    ~dat_adapter();
    dat_adapter(const dat_adapter &) = delete;

    DAT_IA_HANDLE ia() const { return ia_; }
    DAT_PZ_HANDLE pz() const { return pz_; }
    const DAT_IA_ATTR &attr() const { return attr_; }
    sockaddr_storage address() const;

private:
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr_{};
};

/// The address and key by which a peer writes to and reads from the memory of a link.
struct remote_memory {
    std::uint64_t address;
    std::uint64_t key;
};

/// Listens on a connection qualifier.
class dat_listener {
public:
    /// Qualifier 0 asks the adapter for a free one.
    dat_listener(dat_adapter &adapter, DAT_CONN_QUAL qualifier);
    ~dat_listener();
    dat_listener(const dat_listener &) = delete;

    DAT_CONN_QUAL qualifier() const { return qualifier_; }
    DAT_CR_HANDLE next_request(patience &p);

private:
    DAT_EVD_HANDLE evd_ = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE psp_ = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier_;
};

/// An EVD of software events; with `completions`, completions could come there, too.
class software_events {
public:
    software_events(dat_adapter &adapter, bool completions);
    ~software_events();
    software_events(const software_events &) = delete;

    void post();
    /// Blocks until there are `threshold` events, and takes them.
    void wait(DAT_COUNT threshold, patience &p);

private:
    DAT_EVD_HANDLE evd_;
};

/// An endpoint that is only connected and disconnected: no buffers, nothing posted.
class dat_endpoint {
public:
    /// With `merged`, completions and connection events have one EVD.
    explicit dat_endpoint(dat_adapter &adapter, bool merged = false);
    ~dat_endpoint();
    dat_endpoint(const dat_endpoint &) = delete;

    void start_connecting(const sockaddr_storage &address, DAT_CONN_QUAL qualifier);
    /// A short wait; whether a connection was established meanwhile.
    bool is_established_soon();
    void await_established(patience &p);
    void connect(const sockaddr_storage &address, DAT_CONN_QUAL qualifier, patience &p)
    {
        start_connecting(address, qualifier);
        await_established(p);
    }
    /// Accepts, and waits for the peer to disconnect.
    void serve(DAT_CR_HANDLE request, patience &p);
    void disconnect(patience &p);

private:
    DAT_EVD_HANDLE dto_evd_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE conn_evd_ = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep_ = DAT_HANDLE_NULL;
};

class dat_link {
public:
    /// Receives that are posted at any time on both sides of every link.
    static constexpr int receive_pool = 66;
    /// Maximum number of outstanding requests.
    static constexpr int request_depth = 80;

    /// Chooses one EVD or two. With one EVD for both directions the polls below take whatever comes
    /// first: for consumers that know which completion is next. With `notifying`, the EVD of
    /// receives has a CNO. With `merged`, the EVD of requests takes the connection events, too.
    enum class evds { separate, one, notifying, merged };
    /// Its EVDs have room for the completions of `links` such links.
    dat_link(dat_adapter &adapter, std::uint32_t max_size, evds layout = evds::separate,
             int links = 1);
    /// Its completions go to the EVDs of another link, which is destroyed after it.
    dat_link(dat_adapter &adapter, std::uint32_t max_size, const dat_link &owner);
    ~dat_link();
    dat_link(const dat_link &) = delete;

    void connect(const sockaddr_storage &address, DAT_CONN_QUAL qualifier, patience &p);
    void accept(DAT_CR_HANDLE request, patience &p);
    /// Both sides of a connection inside one process.
    static void connect_pair(dat_link &active, dat_link &passive, dat_adapter &adapter,
                             patience &p);

    remote_memory memory() const;
    void set_peer_memory(const remote_memory &memory) { peer_ = memory; }

    DAT_EP_HANDLE endpoint() const { return ep_; }
    DAT_EVD_HANDLE receive_evd() const { return recv_evd_; }
    DAT_EVD_HANDLE request_evd() const { return request_evd_; }
    std::uint32_t max_size() const { return max_size_; }
    std::byte *send_buffer() { return memory_.get(); }
    volatile std::byte *receive_buffer() { return memory_.get() + max_size_; }

    DAT_LMR_TRIPLET send_segment(std::uint32_t size) const { return {base_, size, lmr_context_}; }
    DAT_LMR_TRIPLET receive_segment() const { return {base_ + max_size_, max_size_, lmr_context_}; }
    DAT_RMR_TRIPLET peer_segment(std::uint32_t size) const
    {
        return {peer_.address, size, static_cast<DAT_RMR_CONTEXT>(peer_.key)};
    }

    // The data path. Each poll takes one completion and throws when the operation failed.

    void post_receive()
    {
        DAT_LMR_TRIPLET local = receive_segment();
        program::must("dat_ep_post_recv", dat12_ ? dat12_calls::post_recv(ep_, local, cookie_)
                                                 : dat_ep_post_recv(ep_, 1, &local, cookie_,
                                                                    DAT_COMPLETION_DEFAULT_FLAG));
    }
    void post_send(std::uint32_t size)
    {
        DAT_LMR_TRIPLET local = send_segment(size);
        program::must("dat_ep_post_send", dat12_ ? dat12_calls::post_send(ep_, local, cookie_)
                                                 : dat_ep_post_send(ep_, 1, &local, cookie_,
                                                                    DAT_COMPLETION_DEFAULT_FLAG));
    }
    void post_write(std::uint32_t size) { post_write(size, DAT_COMPLETION_DEFAULT_FLAG); }
    /// Makes no event when it succeeds. A later write that makes one has to follow before the queue
    /// is full.
    void post_silent_write(std::uint32_t size) { post_write(size, DAT_COMPLETION_SUPPRESS_FLAG); }
    void post_read(std::uint32_t size)
    {
        DAT_LMR_TRIPLET local = send_segment(size);
        DAT_RMR_TRIPLET remote = peer_segment(size);
        program::must("dat_ep_post_rdma_read",
                      dat12_ ? dat12_calls::post_read(ep_, local, cookie_, remote)
                             : dat_ep_post_rdma_read(ep_, 1, &local, cookie_, &remote,
                                                     DAT_COMPLETION_DEFAULT_FLAG));
    }
    bool poll_request() { return poll(request_evd_); }
    bool poll_receive() { return poll(recv_evd_); }
    /// Blocks in dat_evd_wait, or in dat_cno_wait where there is a CNO.
    void wait_receive(patience &p);
    /// Blocks in dat_evd_wait until there are `threshold` receives, and takes them.
    void wait_receives(DAT_COUNT threshold, patience &p);

private:
    void post_write(std::uint32_t size, DAT_COMPLETION_FLAGS flags)
    {
        DAT_LMR_TRIPLET local = send_segment(size);
        DAT_RMR_TRIPLET remote = peer_segment(size);
        program::must("dat_ep_post_rdma_write",
                      dat12_ ? dat12_calls::post_write(ep_, local, cookie_, remote, flags)
                             : dat_ep_post_rdma_write(ep_, 1, &local, cookie_, &remote, flags));
    }
    bool poll(DAT_EVD_HANDLE evd)
    {
        DAT_EVENT event;
        auto &status = event.event_data.dto_completion_event_data.status;
        const DAT_RETURN code =
            dat12_ ? dat12_calls::dequeue(evd, status) : dat_evd_dequeue(evd, &event);
        if (code == DAT_SUCCESS) {
            check_completion(event);
            return true;
        }
        if (DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY) [[unlikely]]
            program::fail("dat_evd_dequeue", code);
        return false;
    }
    static void check_completion(const DAT_EVENT &event)
    {
        if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) [[unlikely]]
            fail_completion(event);
    }
    [[noreturn]] static void fail_completion(const DAT_EVENT &event);
    void await_notification(patience &p);
    void post_pool();
    void register_memory(dat_adapter &adapter);

    std::uint32_t max_size_;
    std::shared_ptr<std::byte> memory_;
    DAT_VADDR base_ = 0;
    DAT_LMR_CONTEXT lmr_context_ = 0;
    DAT_RMR_CONTEXT rmr_context_ = 0;
    DAT_CNO_HANDLE cno_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE recv_evd_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE request_evd_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE conn_evd_ = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr_ = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep_ = DAT_HANDLE_NULL;
    remote_memory peer_{};
    DAT_DTO_COOKIE cookie_{};
    bool dat12_ = program::is_over_dat12();
    bool owns_evds_ = true;
};

} // namespace bench
