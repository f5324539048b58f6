// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "perf_leader.hpp"

#include "osd_address.hpp"
#include "plot.hpp"
#include "statistics.hpp"

namespace bench::perf {

leader::leader(channel &peer, const options &o)
    : o_(o), peer_(peer), p_(peer, seconds(o.limit)), progress_(!o.in_job),
      adapter_(o.adapter, o.threads > 1), links_(make_links(adapter_, o.threads, o.largest()))
{
    greeting hello;
    hello.max_size = o.largest();
    hello.threads = o.threads;
    hello.limit_s = o.limit;
    peer_.send(hello);
    to_ = peer_.receive<invitation>(seconds(o.limit));
    if (to_.max_size < wanted_bytes(hello))
        throw program::failure(
            "the server refuses messages of " + size_text(hello.max_size) +
            over_connections(hello) + ": it allows " +
            size_text(static_cast<std::uint32_t>(to_.max_size)) +
            "\n  start it with a larger --max-size, or choose smaller --size and --sizes");
    if (osd::address::is_loopback(reinterpret_cast<const sockaddr *>(&to_.address)) &&
        !peer_.is_local())
        throw program::failure("the adapter of the server has a loopback address, which cannot be "
                               "reached from here\n  start the server on an adapter of a network");
    for (const auto &link : links_) {
        link->connect(to_.address, to_.qualifier, p_);
        link->set_peer_memory(peer_.receive<remote_memory>(seconds(o.limit)));
        peer_.send(link->memory());
    }
}

void leader::run()
{
    if (o_.quick)
        return run_quick();
    if (o_.threads > 1)
        say("%s, bandwidth and rate over %u connections, a thread for each\n", o_.adapter.c_str(),
            o_.threads);
    else
        say("%s\n", o_.adapter.c_str());
    if (o_.wants("latency"))
        for (const std::uint32_t size : o_.small_sizes())
            run_latency(size);
    if (o_.wants("bandwidth"))
        run_bandwidth();
    if (o_.wants("rate"))
        for (const std::uint32_t size : o_.small_sizes())
            run_rate(size);
    if (o_.wants("connections"))
        run_connections();
}

void leader::run_quick()
{
    latency("send, polling", pattern::ping_pong, o_.size);
    const std::uint32_t size = std::min(o_.largest(), adapter_.attr().max_rdma_size);
    const stream_rates &rates = bandwidth("RDMA write", pattern::write_stream, size);
    if (!o_.in_columns)
        say("bandwidth  RDMA write     %8s  %8.2f GB/s\n", size_text(size).c_str(),
            rates.median / 1e9);
}

/// The number of operations that take a fifth of the duration, up to `most`; one operation takes
/// `one_s`.
std::uint32_t leader::fitting(double most, double one_s) const
{
    return static_cast<std::uint32_t>(std::clamp(o_.duration / 5 / one_s, 1.0, most));
}

// --- latency

/// One sample is half a round trip.
void leader::batch_latency(pattern what, std::uint32_t size, std::uint32_t count,
                           std::vector<double> &samples_us)
{
    if (what == pattern::write_pong)
        clear_mark(link_, size);
    ask(what, size, count);
    auto before = clock::now();
    for (std::uint32_t n = 0; n < count; ++n) {
        if (what == pattern::ping_pong)
            ping(link_, size, p_);
        else if (what == pattern::blocking)
            ping_blocking(link_, size, p_);
        else
            write_ping(link_, size, n, p_);
        const auto now = clock::now();
        samples_us.push_back(seconds(now - before).count() * 1e6 / 2);
        before = now;
    }
}

void leader::latency(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("latency, ") + name + ", " + size_text(size));
    std::vector<double> samples;
    batch_latency(what, size, 1, samples);
    batch_latency(what, size, fitting(20, samples.front() / 1e6), samples); // warms up
    const std::uint32_t count = fitting(size < 65536 ? 200 : 20, samples.back() / 1e6);
    samples.clear();
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        batch_latency(what, size, count, samples);
        progress_.go_on();
    } while (clock::now() < end);
    progress_.clear();
    const double best = quantile(samples, 0), p99 = quantile(samples, 0.99);
    if (o_.in_columns) {
        say_columns(latency_columns("latency, " + std::string(name)));
        say("%s", latency_row(size, samples).c_str());
    } else {
        say("latency    %-*s %8s  %8.2f us   (best %.2f, 99 %% below %.2f, %zu round trips)\n",
            name_width(), name, size_text(size).c_str(), median(samples), best, p99,
            samples.size());
    }
    program::json &added = result("latency", name, size, "us", median(samples));
    added["best"] = best;
    added["quantile_99"] = p99;
    added["quantile_999"] = quantile(samples, 0.999);
    added["worst"] = quantile(samples, 1);
    added["mean"] = mean(samples);
    added["deviation"] = deviation(samples);
    added["samples"] = samples.size();
    measurements_.back().low = best;
    measurements_.back().high = p99;
}

/// Prints the names of columns, unless rows with these are just being printed.
void leader::say_columns(const std::string &columns)
{
    if (columns != columns_)
        say("%s", columns.c_str());
    columns_ = columns;
}

bool leader::usable(std::uint32_t size, std::uint32_t limit, const char *what)
{
    if (size <= limit)
        return true;
    say("%-25s %8s  exceeds the maximum of this adapter (%u bytes)\n", what,
        size_text(size).c_str(), limit);
    return false;
}

void leader::run_latency(std::uint32_t size)
{
    if (usable(size, adapter_.attr().max_message_size, "latency    send")) {
        latency("send, polling", pattern::ping_pong, size);
        latency("send, waiting", pattern::blocking, size);
    }
    if (usable(size, adapter_.attr().max_rdma_size, "latency    RDMA write"))
        latency("RDMA write", pattern::write_pong, size);
}

// --- bandwidth and rate

seconds leader::stream_once(pattern what, std::uint32_t size, std::uint32_t count)
{
    ask(what, size, count);
    return for_all(links_, peer_, seconds(o_.limit), [&](dat_link &link, patience &p) {
        switch (what) {
        case pattern::write_stream:
        case pattern::write_both:
            return write_many(link, size, count, o_.window, p);
        case pattern::read_stream:
        case pattern::read_both:
            return read_many(link, size, count, o_.window, p);
        case pattern::message_both:
            return exchange_many(link, size, count, p);
        default:
            return send_many(link, size, count, p);
        }
    });
}

/// Bandwidth and rate may ask for one and the same stream.
const stream_rates &leader::rates_of(pattern what, std::uint32_t size)
{
    const auto [known, is_new] = streams_.try_emplace({what, size});
    if (is_new)
        known->second = measure_stream(what, size);
    return known->second;
}

/// What batches carry whose length is found by trying.
stream_rates leader::measure_stream(pattern what, std::uint32_t size)
{
    const double first = stream_once(what, size, 1).count();
    const std::uint32_t some = size < 65536 ? 64 : fitting(64, first);
    progress_.go_on();
    const double trial = stream_once(what, size, some).count() / some;
    progress_.go_on();
    const std::uint32_t count = fitting(2e6, trial);
    const double bytes =
        double(count) * size * double(links_.size()) * (goes_both_ways(what) ? 2 : 1);
    std::vector<double> rates;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        rates.push_back(bytes / stream_once(what, size, count).count());
        progress_.go_on();
    } while (clock::now() < end);
    return {median(rates), quantile(rates, 1), mean(rates), std::uint64_t{count} * rates.size()};
}

const stream_rates &leader::bandwidth(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("bandwidth, ") + name + ", " + size_text(size));
    const stream_rates &rates = rates_of(what, size);
    progress_.clear();
    program::json &added = result("bandwidth", name, size, "B/s", rates.median);
    added["best"] = rates.best;
    added["connections"] = links_.size();
    if (o_.in_columns) {
        say_columns(bandwidth_columns("bandwidth, " + std::string(name)));
        say("%s", bandwidth_row(size, rates).c_str());
    }
    return rates;
}

void leader::run_bandwidth()
{
    struct way {
        const char *name;
        pattern what;
        std::uint32_t limit;
    };
    const DAT_IA_ATTR &attr = adapter_.attr();
    for (const way &w : {way{"RDMA write", pattern::write_stream, attr.max_rdma_size},
                         way{"RDMA read", pattern::read_stream, attr.max_rdma_size},
                         way{"send", pattern::message_stream, attr.max_message_size},
                         way{"RDMA write, both ways", pattern::write_both, attr.max_rdma_size},
                         way{"RDMA read, both ways", pattern::read_both, attr.max_rdma_size},
                         way{"send, both ways", pattern::message_both, attr.max_message_size}}) {
        if (goes_both_ways(w.what) && !o_.both_ways)
            continue;
        for (const std::uint32_t size : o_.sizes) {
            if (!usable(size, w.limit, "bandwidth"))
                continue;
            const stream_rates &rates = bandwidth(w.name, w.what, size);
            if (!o_.in_columns)
                say("bandwidth  %-*s %8s  %11s\n", name_width(), w.name, size_text(size).c_str(),
                    value_text(rates.median, "B/s").c_str());
        }
    }
}

void leader::message_rate(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("message rate, ") + name + ", " + size_text(size));
    const stream_rates &rates = rates_of(what, size);
    const double rate = rates.median / size;
    progress_.clear();
    if (o_.in_columns) {
        say_columns(bandwidth_columns("rate, " + std::string(name)));
        say("%s", bandwidth_row(size, rates).c_str());
    } else {
        say("rate       %-*s %8s  %11s\n", name_width(), name, size_text(size).c_str(),
            value_text(rate, "messages/s").c_str());
    }
    result("rate", name, size, "1/s", rate)["connections"] = links_.size();
}

void leader::run_rate(std::uint32_t size)
{
    if (!usable(size, adapter_.attr().max_message_size, "rate"))
        return;
    message_rate("send", pattern::message_stream, size);
    if (o_.both_ways)
        message_rate("send, both ways", pattern::message_both, size);
}

// --- connections

std::vector<double> leader::connect_many(std::uint32_t count)
{
    ask(pattern::connections, 1, count);
    std::vector<double> samples_us;
    for (std::uint32_t i = 0; i < count; ++i) {
        dat_endpoint end(adapter_);
        const auto start = clock::now();
        end.connect(to_.address, to_.qualifier, p_);
        samples_us.push_back(seconds(clock::now() - start).count() * 1e6);
        end.disconnect(p_);
    }
    return samples_us;
}

void leader::run_connections()
{
    progress_.show("connection rate");
    connect_many(2);
    std::vector<double> samples;
    std::vector<double> rates;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        const auto start = clock::now();
        const auto some = connect_many(20);
        rates.push_back(20 / seconds(clock::now() - start).count());
        progress_.go_on();
        samples.insert(samples.end(), some.begin(), some.end());
    } while (clock::now() < end);
    progress_.clear();
    say("connecting %-*s %8s  %8.1f us   (%.0f connections made and ended per second)\n",
        name_width(), "one by one", "", median(samples), median(rates));
    result("connections", "one by one", 0, "us", median(samples))["per_second"] = median(rates);
    measurements_.push_back({"connection rate", "", 0, median(rates)});
}

} // namespace bench::perf
