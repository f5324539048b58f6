// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Devices and queue pairs for tests, on a network inside the process or on loopback.
#pragma once

#include "device/device.hpp"
#include "net/inproc_io.hpp"

#include "../rounds.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rig {

using namespace soft_hca;
using test_run::rounds;

inline constexpr std::chrono::seconds patience{60};

/// What an upcall said.
struct told {
    connection_event what{};
    std::string data;
};

/// Upcalls arrive here. The owner of an object of the engine derives from it.
class inbox {
public:
    void put(const told &what);
    /// The next, or nothing when none comes in time.
    std::optional<told> next(std::chrono::milliseconds time = patience);
    void put(const connection_end &how);
    /// How the latest connection ended, if no consumer closed it. The device makes this upcall
    /// before the event's.
    std::optional<connection_end> ended();
    void completion()
    {
        completed_by = std::this_thread::get_id();
        ++completions;
    }
    std::atomic<int> completions{0};
    std::atomic<std::thread::id> completed_by{};
    std::atomic<std::thread::id> told_by{};
    std::atomic<int> overflows{0};
    std::atomic<int> limits{0};
    std::atomic<int> watermarks{0};
    std::atomic<int> paths{0};
    std::atomic<local_obstacle> why_not_direct{};

private:
    std::mutex lock_;
    std::condition_variable arrived_;
    std::deque<told> queue_;
    std::optional<connection_end> ended_;
};

/// Waits for something that other threads bring about.
bool becomes_true(const std::function<bool()> &condition,
                  std::chrono::milliseconds time = patience);

/// The number of upcalls of each key_trouble, over all devices.
extern std::atomic<int> troubles[2];

extern const upcalls upcall_table;

/// Adds a completion, and announces it.
inline void push_to(completion_queue &queue, const completion_record &done)
{
    completion_queue::news run;
    queue.add(done, run);
    if (run.any())
        queue.announce(run);
}

/// A device, opened on loopback or on a network inside the process.
struct host {
    explicit host(const settings &how, const upcalls &tell = upcall_table);
    ~host();
    device hca;
    protection_domain domain;
};

settings on_loopback();
settings inside(inproc_network &network);

enum class datagrams { plain, checked, sealed };
/// The kinds that this build can send.
inline constexpr datagrams all_kinds[] = {
    datagrams::plain,
    datagrams::checked,
#ifdef SOFT_HCA_KEYS
    datagrams::sealed,
#endif
};
settings inside(inproc_network &network, datagrams kind);

/// Memory with a key.
struct memory {
    memory(host &of, std::size_t size,
           std::uint32_t rights = local_read | local_write | remote_read | remote_write |
                                  remote_atomic);
    ~memory();
    void fill(std::size_t from, std::size_t size, unsigned seed);
    bool holds(std::size_t from, std::size_t size, unsigned seed) const;
    remote_segment remote(std::size_t from, std::size_t size) const;
    local_segment local(std::size_t from, std::size_t size) const;

    host &of;
    std::vector<std::uint8_t> bytes;
    memory_region region;
    std::uint32_t key = 0;
};

struct end_options {
    std::uint32_t depth = 64;
    std::uint32_t queue_depth = 512;
    std::size_t bytes = 1 << 20;
    std::uint16_t reads = 8;
    shared_receives *shared = nullptr;
    void *receiver = nullptr;
    protection_domain *domain = nullptr;
    pair_use use = pair_use::connection;
};

/// A queue pair with its completion queues and memory.
struct end : inbox {
    explicit end(host &of, const end_options &options = {});
    ~end();

    bool send(std::size_t from, std::size_t size, std::uint8_t flags = 0);
    bool receive(std::size_t to, std::size_t size);
    bool write(std::size_t from, std::size_t size, const remote_segment &to,
               std::uint8_t flags = 0);
    bool write_immediate(std::size_t from, std::size_t size, const remote_segment &to,
                         std::uint32_t value);
    bool read(std::size_t to, std::size_t size, const remote_segment &from);
    bool fetch_add(std::size_t to, const remote_segment &at, std::uint64_t add);
    bool compare_swap(std::size_t to, const remote_segment &at, std::uint64_t compare,
                      std::uint64_t swap);
    /// A request to fill, kept until the end goes.
    request &fresh(work kind);
    bool post(request &r) { return pair.post_send(r); }

    /// The next completion, found by polling.
    std::optional<completion_record> sent(std::chrono::milliseconds time = patience);
    std::optional<completion_record> received(std::chrono::milliseconds time = patience);

    /// The counts of the pair, and how often it sent again.
    queue_pair::counts counts();
    std::uint64_t resent();

    host &of;
    completion_queue send_queue;
    completion_queue receive_queue;
    memory buffer;
    queue_pair pair;
    bool alive = false;
    std::deque<request> requests;
};

/// A number without a listener, which stays free until the test takes it.
std::uint64_t free_number(host &at);

/// Waits for the request that comes in on a listener.
struct door : listener {
    explicit door(host &of, std::uint64_t qualifier = 0);
    ~door();
    inbound_request *next(std::chrono::milliseconds time = patience);
    bool offered(inbound_request &request);

    host &of;
    std::uint64_t number = 0;
    std::atomic<bool> takes{true};

private:
    std::mutex lock_;
    std::condition_variable arrived_;
    std::deque<inbound_request *> requests_;
};

/// Connects two ends; false when one of them does not get there.
bool establish(end &active, end &passive);
bool is(const std::optional<told> &got, connection_event what);

/// The share of a processor that we use while nothing is to be done. The system may charge us with
/// earlier work, or with work of its own: retries allow for that.
double idle_share(std::chrono::milliseconds time);

/// Polls until one comes.
std::optional<completion_record> next_of(completion_queue &queue, std::chrono::milliseconds time);

/// Something has completed, in this way.
void expect(const std::optional<completion_record> &done, work_status status);

/// A packet as it goes into its datagram.
std::vector<std::uint8_t> flattened(const out_packet &packet);

/// A connection request that a stranger writes, without private data.
struct request_packet {
    explicit request_packet(const handshake &hello, const base_header &with = {});
    request_packet(const request_packet &) = delete;
    request_packet &operator=(const request_packet &) = delete;
    out_packet out; ///< refers to the body

private:
    std::uint8_t body_[request_size];
};

/// Two devices of this process, connected.
struct connected_devices {
    explicit connected_devices(const settings &how);
    host here;
    host there;
    end a{here};
    end b{there};
};

/// Settings with direct access and rings.
settings with_rings();

/// The boards of this process's devices, which it may write.
std::vector<direct_board *> own_boards();

/// Polls without a pause, so that the devices' threads leave all packets to it.
class poller {
public:
    poller(end &a, end &b);
    ~poller();

private:
    std::atomic<bool> enough_{false};
    std::thread thread_;
};

/// Moves data of all kinds in both directions, `rounds` times, and looks at every byte.
void exercise(end &a, end &b, unsigned rounds);

} // namespace rig
