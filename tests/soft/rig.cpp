// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rig.hpp"

#include "../own_port.hpp"

#include <ctime>
#include <doctest/doctest.h>
#include <fstream>

namespace rig {

namespace {

void on_completion(void *owner)
{
    static_cast<inbox *>(owner)->completion();
}

void on_overflow(void *owner)
{
    ++static_cast<inbox *>(owner)->overflows;
}

void on_connection(void *owner, connection_event what, const void *data, std::size_t size)
{
    static_cast<inbox *>(owner)->put({what, std::string(static_cast<const char *>(data), size)});
}

void on_ended(void *owner, const connection_end &how)
{
    static_cast<inbox *>(owner)->put(how);
}

bool on_request(void *owner, inbound_request &request)
{
    return static_cast<door *>(owner)->offered(request);
}

void on_limit(void *owner)
{
    ++static_cast<inbox *>(owner)->limits;
}

void on_watermark(void *owner)
{
    ++static_cast<inbox *>(owner)->watermarks;
}

std::uint8_t byte_at(std::size_t position, unsigned seed)
{
    return static_cast<std::uint8_t>((position * 131 + seed * 7 + (position >> 8)) & 0xff);
}

} // namespace

void on_path(void *owner, local_obstacle why_not_direct)
{
    auto &of = *static_cast<inbox *>(owner);
    of.why_not_direct = why_not_direct;
    ++of.paths;
}

namespace {

void on_trouble(key_trouble what, const net_address &)
{
    ++troubles[static_cast<int>(what)];
}

} // namespace

std::atomic<int> troubles[2];

const upcalls upcall_table{on_completion, on_overflow, on_connection, on_ended,
                           on_request,    on_limit,    on_watermark,  on_path,
                           on_trouble,    nullptr,     on_connection};

void inbox::put(const told &what)
{
    told_by = std::this_thread::get_id();
    const std::lock_guard hold(lock_);
    queue_.push_back(what);
    arrived_.notify_all();
}

std::optional<told> inbox::next(std::chrono::milliseconds time)
{
    std::unique_lock hold(lock_);
    if (!arrived_.wait_for(hold, time, [this] { return !queue_.empty(); }))
        return std::nullopt;
    told first = queue_.front();
    queue_.pop_front();
    return first;
}

void inbox::put(const connection_end &how)
{
    const std::lock_guard hold(lock_);
    ended_ = how;
}

std::optional<connection_end> inbox::ended()
{
    const std::lock_guard hold(lock_);
    return std::exchange(ended_, std::nullopt);
}

bool becomes_true(const std::function<bool()> &condition, std::chrono::milliseconds time)
{
    const auto until = std::chrono::steady_clock::now() + time;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until)
            return condition();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

// --------------------------------------------------------------------------------------- hosts

host::host(const settings &how, const upcalls &tell)
{
    REQUIRE(hca.open(how, tell) == 0);
}

host::~host()
{
    hca.close();
}

settings on_loopback()
{
    settings how;
    interface_info lo;
    REQUIRE(look_up_interface("127.0.0.1", 4, lo) == 0);
    how.address = lo.address;
    how.datagram = 8192;
    how.keepalive_ms = 500;
    return how;
}

settings inside(inproc_network &network)
{
    settings how = on_loopback();
    how.network = &network;
    how.datagram = 1472;
    return how;
}

settings inside(inproc_network &network, datagrams kind)
{
    static constexpr char key[] = "a key of tests, which is as long as one has to be";
    settings how = inside(network);
    how.checksum = kind == datagrams::checked;
    if (kind == datagrams::sealed) {
        how.key.bytes = key;
        how.key.size = sizeof key;
    }
    return how;
}

// -------------------------------------------------------------------------------------- memory

memory::memory(host &of_, std::size_t size, std::uint32_t rights) : of(of_), bytes(size)
{
    key = of.hca.add_region(region, of.domain, bytes.data(), size, rights);
    REQUIRE(key != 0);
}

memory::~memory()
{
    (void)of.hca.remove_region(region);
}

void memory::fill(std::size_t from, std::size_t size, unsigned seed)
{
    for (std::size_t i = 0; i < size; ++i)
        bytes[from + i] = byte_at(i, seed);
}

bool memory::holds(std::size_t from, std::size_t size, unsigned seed) const
{
    for (std::size_t i = 0; i < size; ++i)
        if (bytes[from + i] != byte_at(i, seed))
            return false;
    return true;
}

remote_segment memory::remote(std::size_t from, std::size_t size) const
{
    return {reinterpret_cast<std::uintptr_t>(bytes.data()) + from, static_cast<std::uint32_t>(size),
            key};
}

local_segment memory::local(std::size_t from, std::size_t size) const
{
    return {reinterpret_cast<std::uintptr_t>(bytes.data()) + from, static_cast<std::uint32_t>(size),
            key};
}

// ---------------------------------------------------------------------------------------- ends

end::end(host &of_, const end_options &options) : of(of_), buffer(of_, options.bytes)
{
    REQUIRE(of.hca.make_queue(send_queue, this, options.queue_depth));
    REQUIRE(of.hca.make_queue(receive_queue, this, options.queue_depth));
    pair_params params;
    params.use = options.use;
    params.owner = this;
    params.domain = options.domain == nullptr ? &of.domain : options.domain;
    params.send_queue = &send_queue;
    params.receive_queue = &receive_queue;
    params.shared = options.shared;
    params.receiver = options.receiver;
    params.max_sends = params.max_receives = options.depth;
    params.reads_in = params.reads_out = options.reads;
    REQUIRE(of.hca.make_pair(pair, params));
    alive = true;
}

end::~end()
{
    if (alive)
        of.hca.free_pair(pair);
    of.hca.free_queue(send_queue);
    of.hca.free_queue(receive_queue);
}

request &end::fresh(work kind)
{
    requests.emplace_back();
    request &r = requests.back();
    r = {};
    r.kind = kind;
    r.context = &r;
    return r;
}

namespace {

void set_local(request &r, const local_segment &s)
{
    r.segments = 1;
    r.local[0] = s;
    r.length = s.length;
}

} // namespace

bool end::send(std::size_t from, std::size_t size, std::uint8_t flags)
{
    request &r = fresh(work::send);
    set_local(r, buffer.local(from, size));
    r.flags = flags;
    return pair.post_send(r);
}

bool end::receive(std::size_t to, std::size_t size)
{
    request &r = fresh(work::receive);
    set_local(r, buffer.local(to, size));
    return pair.post_receive(r);
}

bool end::write(std::size_t from, std::size_t size, const remote_segment &to, std::uint8_t flags)
{
    request &r = fresh(work::write);
    set_local(r, buffer.local(from, size));
    r.remote = to;
    r.flags = flags;
    return pair.post_send(r);
}

bool end::write_immediate(std::size_t from, std::size_t size, const remote_segment &to,
                          std::uint32_t value)
{
    request &r = fresh(work::write_immediate);
    set_local(r, buffer.local(from, size));
    r.remote = to;
    r.immediate = value;
    return pair.post_send(r);
}

bool end::read(std::size_t to, std::size_t size, const remote_segment &from)
{
    request &r = fresh(work::read);
    set_local(r, buffer.local(to, size));
    r.remote = from;
    return pair.post_send(r);
}

bool end::fetch_add(std::size_t to, const remote_segment &at, std::uint64_t add)
{
    request &r = fresh(work::fetch_add);
    set_local(r, buffer.local(to, 8));
    r.remote = at;
    r.atomic.compare_or_add = add;
    return pair.post_send(r);
}

bool end::compare_swap(std::size_t to, const remote_segment &at, std::uint64_t compare,
                       std::uint64_t swap)
{
    request &r = fresh(work::compare_swap);
    set_local(r, buffer.local(to, 8));
    r.remote = at;
    r.atomic.compare_or_add = compare;
    r.atomic.swap = swap;
    return pair.post_send(r);
}

std::optional<completion_record> next_of(completion_queue &queue, std::chrono::milliseconds time)
{
    const auto until = std::chrono::steady_clock::now() + time;
    completion_record done;
    do {
        for (int i = 0; i < 100; ++i) {
            if (queue.pop(done))
                return done;
            queue.progress();
        }
    } while (std::chrono::steady_clock::now() < until);
    return std::nullopt;
}

std::optional<completion_record> end::sent(std::chrono::milliseconds time)
{
    return next_of(send_queue, time);
}

std::optional<completion_record> end::received(std::chrono::milliseconds time)
{
    return next_of(receive_queue, time);
}

queue_pair::counts end::counts()
{
    pair.enter();
    const queue_pair::counts seen = pair.record.counts;
    pair.leave();
    return seen;
}

std::uint64_t end::resent()
{
    pair.enter();
    const std::uint64_t seen = pair.record.counts.packets_resent;
    pair.leave();
    return seen;
}

// --------------------------------------------------------------------------------- connections

std::uint64_t free_number(host &at)
{
    listener trial;
    std::uint64_t number = 0;
    int error = 0;
    do {
        number = test_run::another_port();
        error = at.hca.listening.add(trial, number, nullptr);
    } while (is_address_in_use(error));
    REQUIRE(error == 0);
    at.hca.listening.remove(trial);
    return number;
}

door::door(host &of_, std::uint64_t qualifier) : of(of_), number(qualifier)
{
    REQUIRE(of.hca.listening.add(*this, number, this) == 0);
}

door::~door()
{
    of.hca.listening.remove(*this);
}

bool door::offered(inbound_request &request)
{
    const std::lock_guard hold(lock_);
    if (!takes)
        return false;
    requests_.push_back(&request);
    arrived_.notify_all();
    return true;
}

inbound_request *door::next(std::chrono::milliseconds time)
{
    std::unique_lock hold(lock_);
    if (!arrived_.wait_for(hold, time, [this] { return !requests_.empty(); }))
        return nullptr;
    inbound_request *first = requests_.front();
    requests_.pop_front();
    return first;
}

bool is(const std::optional<told> &got, connection_event what)
{
    return got.has_value() && got->what == what;
}

bool establish(end &active, end &passive)
{
    door at(passive.of);
    if (active.pair.connect(passive.of.hca.settings().address, at.number, nullptr, 0) !=
        queue_pair::start::begun)
        return false;
    inbound_request *request = at.next();
    return request != nullptr &&
           passive.pair.accept(*request, nullptr, 0) == queue_pair::start::begun &&
           is(active.next(), connection_event::established) &&
           is(passive.next(), connection_event::established);
}

std::vector<std::uint8_t> flattened(const out_packet &packet)
{
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t i = 0; i < packet.pieces; ++i) {
        const auto *const at = static_cast<const std::uint8_t *>(packet.piece[i].at);
        bytes.insert(bytes.end(), at, at + packet.piece[i].size);
    }
    return bytes;
}

request_packet::request_packet(const handshake &hello, const base_header &with)
{
    base_header base = with;
    base.kind = packet_kind::request;
    base.from = hello.id;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    out.add(body_, write_request(body_, hello, nullptr, 0));
}

connected_devices::connected_devices(const settings &how) : here(how), there(how)
{
    REQUIRE(establish(a, b));
}

settings with_rings()
{
    settings how = on_loopback();
    how.direct = how.rings = true;
    return how;
}

poller::poller(end &a, end &b)
    : thread_([this, &a, &b] {
          while (!enough_.load())
              for (end *each : {&a, &b})
                  each->receive_queue.progress();
      })
{}

poller::~poller()
{
    enough_.store(true);
    thread_.join();
}

std::vector<direct_board *> own_boards()
{
    std::vector<direct_board *> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("rw-s") != std::string::npos &&
            line.find("soft-hca-board") != std::string::npos)
            found.push_back(reinterpret_cast<direct_board *>(std::stoull(line, nullptr, 16)));
    std::erase_if(found, [](const direct_board *each) { return !each->is_board(); }); // rings
    return found;
}

void expect(const std::optional<completion_record> &done, work_status status)
{
    REQUIRE(done.has_value());
    CHECK(done->status == status);
}

namespace {

double processor_seconds()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

} // namespace

double idle_share(std::chrono::milliseconds time)
{
    double used = 1;
    for (int looks = 0; used >= 0.1 && looks < 5; ++looks) {
        const double before = processor_seconds();
        std::this_thread::sleep_for(time);
        used = (processor_seconds() - before) / std::chrono::duration<double>(time).count();
    }
    return used;
}

namespace {

bool succeeded(const std::optional<completion_record> &done)
{
    return done.has_value() && done->status == work_status::success;
}

/// A message, a write, a read and an add from one side to the other.
void exercise_one_way(end &from, end &to, unsigned round)
{
    constexpr std::size_t target = 256 * 1024;
    constexpr std::size_t back = 512 * 1024;
    constexpr std::size_t word = 900 * 1024;
    const std::size_t size = 1 + (round * 7919) % 40000;
    from.buffer.fill(0, size, round);
    REQUIRE(to.receive(0, 65536));
    REQUIRE(from.write(0, size, to.buffer.remote(target, size)));
    REQUIRE(from.read(back, size, to.buffer.remote(target, size)));
    REQUIRE(from.fetch_add(word, to.buffer.remote(word, 8), 3));
    REQUIRE(from.send(0, size));
    const auto message = to.received();
    REQUIRE(succeeded(message));
    CHECK(message->length == size);
    CHECK(to.buffer.holds(0, size, round));
    CHECK(to.buffer.holds(target, size, round));
    for (int i = 0; i < 4; ++i)
        REQUIRE(succeeded(from.sent()));
    CHECK(from.buffer.holds(back, size, round));
    std::uint64_t before = 0;
    std::memcpy(&before, from.buffer.bytes.data() + word, sizeof before);
    std::uint64_t after = 0;
    std::memcpy(&after, to.buffer.bytes.data() + word, sizeof after);
    CHECK(after == before + 3);
    from.buffer.fill(back, size, round + 1);
    from.requests.clear();
}

} // namespace

void exercise(end &a, end &b, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; ++round) {
        exercise_one_way(round % 2 == 0 ? a : b, round % 2 == 0 ? b : a, round);
        a.requests.clear();
        b.requests.clear();
    }
    completion_record late;
    CHECK(!a.send_queue.pop(late));
    CHECK(!b.receive_queue.pop(late));
}

} // namespace rig
