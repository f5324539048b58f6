// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures libdapl-am between ranks 0 and 1 of a job: latency, rate and bandwidth of each kind of
// message and transfer. The other ranks wait in a barrier.
#include "am_ranks.hpp"
#include "dat_link.hpp"
#include "plot.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <sched.h>

namespace {

using bench::must;
using bench::seconds_of;
using bench::segment_of;

constexpr std::size_t largest = 4 << 20;

enum handler : int { ping = 1, pong, count_up, serve };

std::atomic<std::uint64_t> pongs{0};
std::atomic<std::uint64_t> arrived{0};
std::atomic<std::uint32_t> sends_to_answer{0}; // through DAT; ~0: no more

void on_ping(dapl_am_token *token, void *payload, std::size_t size, int, const std::int32_t *args,
             void *)
{
    switch (args[0]) {
    case DAPL_AM_SHORT:
        (void)dapl_am_reply_short(token, pong, 0, nullptr);
        break;
    case DAPL_AM_MEDIUM:
        (void)dapl_am_reply_medium(token, pong, payload, size, 0, nullptr);
        break;
    default: {
        void *segment = nullptr;
        std::size_t length = 0;
        (void)dapl_am_segment(dapl_am_token_rank(token), &segment, &length);
        (void)dapl_am_reply_long(token, pong, payload, size, segment, 0, nullptr);
    }
    }
}

void on_pong(dapl_am_token *, void *, std::size_t, int, const std::int32_t *, void *)
{
    ++pongs;
}

void on_count(dapl_am_token *, void *, std::size_t, int, const std::int32_t *, void *)
{
    ++arrived;
}

void on_serve(dapl_am_token *, void *, std::size_t, int, const std::int32_t *args, void *)
{
    sends_to_answer = std::uint32_t(args[0]);
}

constexpr unsigned every = DAPL_AM_SHORT | DAPL_AM_MEDIUM | DAPL_AM_LONG;
DAPL_AM_HANDLER table[] = {
    {ping, every | DAPL_AM_REQUEST, 1, on_ping, nullptr, "ping"},
    {pong, every | DAPL_AM_REPLY, 0, on_pong, nullptr, "pong"},
    {count_up, DAPL_AM_SHORT | DAPL_AM_REQUEST, 0, on_count, nullptr, "count"},
    {serve, DAPL_AM_SHORT | DAPL_AM_REQUEST, 1, on_serve, nullptr, "serve"},
};

struct options {
    std::string json, svg;
    std::vector<std::uint32_t> sizes{8, 64, 512, 4096, 65536, 1 << 20};
    std::uint32_t rounds = 1000;
    bool beside_dat = false;
};

struct result {
    std::string test; ///< "latency", "rate", "bandwidth"
    std::string kind;
    std::string unit;
    std::uint32_t size;
    double value;
};

/// A connection between ranks 0 and 1 through DAT alone, on the job's adapter opened once more.
class plain_dat {
public:
    static constexpr std::uint32_t size = 1 << 20;

    plain_dat() : adapter_(dapl_am_adapter()), link_(adapter_, size), patience_(bench::seconds(60))
    {
        const int other = 1 - dapl_am_rank();
        std::optional<bench::dat_listener> listener;
        if (other == 0)
            listener.emplace(adapter_, DAT_CONN_QUAL(0));
        const meeting here{adapter_.address(), listener ? listener->qualifier() : 0,
                           link_.memory()};
        must(dapl_am_put(other, segment_of(other), &here, sizeof here));
        must(dapl_am_barrier(2, 0));
        meeting there;
        std::memcpy(&there, segment_of(dapl_am_rank()), sizeof there);
        link_.set_peer_memory(there.memory);
        if (listener)
            link_.accept(listener->next_request(patience_), patience_);
        else
            link_.connect(there.address, there.qualifier, patience_);
    }

    /// Until the data are in the peer's memory, which only a read behind them may tell.
    void write_and_poll(bool confirmed_by_read)
    {
        link_.post_write(8);
        if (confirmed_by_read) {
            link_.post_read(1);
            bench::await_request(link_, patience_);
        }
        bench::await_request(link_, patience_);
    }
    void send_and_receive() { bench::ping(link_, 8, patience_); }
    void write_many(std::uint32_t count)
    {
        bench::write_many(link_, size, count, count, patience_);
    }
    /// Rank 1: until rank 0 says that there will be no more.
    void answer()
    {
        for (std::uint32_t count = 0; count != ~0U; count = sends_to_answer.exchange(0)) {
            if (count > 0)
                bench::pong_many(link_, 8, count, patience_);
            (void)dapl_am_poll();
        }
    }

private:
    struct meeting {
        sockaddr_storage address;
        DAT_CONN_QUAL qualifier;
        bench::remote_memory memory;
    };

    bench::dat_adapter adapter_;
    bench::dat_link link_;
    bench::patience patience_;
};

/// Rank 1 answers so many sends next.
void ask_for_answers(std::uint32_t count)
{
    const auto arg = std::int32_t(count);
    must(dapl_am_request_short(1, serve, 1, &arg, 0));
}

/// Measures, on rank 0.
class bench_run {
public:
    explicit bench_run(const options &o) : options_(o)
    {
        std::size_t bytes = 0;
        must(dapl_am_segment(0, &here_, &bytes));
        must(dapl_am_segment(1, &there_, &bytes));
        // Memory that was never written is one page of zeros, which stays in the cache.
        std::memset(here_, 1, largest);
    }

    /// The same through the library and through DAT alone, in turns.
    std::vector<result> beside(plain_dat &dat)
    {
        const std::uint32_t many = std::max(10U, options_.rounds / 10);
        const bool by_read = puts_are_confirmed_by_read();
        compare(
            dat, "put", 8, [&] { repeat(many, [&] { must(dapl_am_put(1, there_, here_, 8)); }); },
            [&] { repeat(many, [&] { dat.write_and_poll(by_read); }); }, 0);
        compare(
            dat, "short round trip", 0,
            [&] { repeat(many, [&] { round_trip(DAPL_AM_SHORT, 0); }); },
            [&] { repeat(many, [&] { dat.send_and_receive(); }); }, many);
        compare(
            dat, "put", plain_dat::size,
            [&] {
                for (int i = 0; i < 16; ++i)
                    must(dapl_am_put_nbi_bulk(1, there_, here_, plain_dat::size));
                dapl_am_wait_nbi();
                if (!by_read) // an exchange with rank 1 behind the writes, as in write_many()
                    round_trip(DAPL_AM_SHORT, 0);
            },
            [&] { dat.write_many(16); }, 1);
        ask_for_answers(~0U);
        return results_;
    }

    std::vector<result> all()
    {
        latencies();
        rates();
        bandwidths();
        return results_;
    }

private:
    using step = std::function<void()>;

    bool puts_are_confirmed_by_read()
    {
        DAPL_AM_COUNTERS counters{};
        must(dapl_am_put(1, there_, here_, 8));
        dapl_am_get_counters(&counters);
        return counters.confirmations > 0;
    }

    static void repeat(std::uint32_t count, const step &once)
    {
        for (std::uint32_t i = 0; i < count; ++i)
            once();
    }

    /// Rank 1 looks for messages meanwhile, of the side that is measured: where the look moves the
    /// data, a thread would have to wake up otherwise.
    /// @param answers by rank 1 to messages through DAT in one turn
    void compare(plain_dat &dat, const char *kind, std::uint32_t size, const step &ours,
                 const step &through_dat, std::uint32_t answers)
    {
        std::vector<double> of_ours, of_dat;
        for (int i = 0; i < 61; ++i) {
            ours(); // a connection that was idle is slow at first
            of_ours.push_back(seconds_of(ours));
            ask_for_answers(2 * answers + 1);
            through_dat();
            of_dat.push_back(seconds_of(through_dat));
            dat.send_and_receive(); // rank 1 has come back to the library
        }
        // Of the faster batches: others use the processors, too.
        const double ratio = bench::quantile(of_ours, 0.1) / bench::quantile(of_dat, 0.1);
        add("beside DAT", kind, "times", size, ratio);
    }

    void latency(const char *kind, std::uint32_t size, const std::function<void()> &once)
    {
        for (std::uint32_t i = 0; i < options_.rounds / 10 + 5; ++i)
            once();
        std::vector<double> samples;
        for (std::uint32_t i = 0; i < options_.rounds; ++i)
            samples.push_back(seconds_of(once));
        add("latency", kind, "s", size, bench::median(samples));
    }

    void round_trip(std::int32_t kind, std::uint32_t size)
    {
        const std::uint64_t before = pongs;
        switch (kind) {
        case DAPL_AM_SHORT:
            must(dapl_am_request_short(1, ping, 1, &kind, 0));
            break;
        case DAPL_AM_MEDIUM:
            must(dapl_am_request_medium(1, ping, here_, size, 1, &kind, 0));
            break;
        default:
            must(dapl_am_request_long(1, ping, here_, size, there_, 1, &kind, 0));
        }
        while (pongs == before)
            (void)dapl_am_poll();
    }

    void latencies()
    {
        latency("short round trip", 0, [&] { round_trip(DAPL_AM_SHORT, 0); });
        for (const std::uint32_t size : options_.sizes) {
            if (size <= dapl_am_max_medium())
                latency("medium round trip", size, [&] { round_trip(DAPL_AM_MEDIUM, size); });
            latency("long round trip", size, [&] { round_trip(DAPL_AM_LONG, size); });
            latency("put", size, [&] { must(dapl_am_put(1, there_, here_, size)); });
            latency("get", size, [&] { must(dapl_am_get(1, here_, there_, size)); });
        }
        std::uint64_t value = 0;
        latency("get_val", 8, [&] { must(dapl_am_get_val(1, there_, 8, &value)); });
        latency("memset", 1 << 20, [&] { must(dapl_am_memset(1, there_, 1, 1 << 20)); });
    }

    /// The median of several batches.
    void per_second(const char *test, const char *kind, const char *unit, std::uint32_t size,
                    double work, const std::function<void()> &batch)
    {
        std::vector<double> samples;
        for (int i = 0; i < 7; ++i)
            samples.push_back(work / seconds_of(batch));
        add(test, kind, unit, size, bench::median(samples));
    }

    void rates()
    {
        const std::uint32_t many = options_.rounds * 5;
        per_second("rate", "short requests", "1/s", 0, many, [&] {
            for (std::uint32_t i = 0; i < many; ++i)
                must(dapl_am_request_short(1, count_up, 0, nullptr, 0));
        });
        per_second("rate", "puts", "1/s", 8, many, [&] {
            for (std::uint32_t i = 0; i < many; ++i)
                must(dapl_am_put_nbi_val(1, there_, i, 8));
            dapl_am_wait_nbi();
        });
    }

    void bandwidths()
    {
        for (const std::uint32_t size : options_.sizes) {
            const std::uint32_t count = std::max(8U, std::min(2000U, (32U << 20) / size));
            per_second("bandwidth", "put", "B/s", size, double(count) * size, [&] {
                for (std::uint32_t i = 0; i < count; ++i)
                    must(dapl_am_put_nbi_bulk(1, there_, here_, size));
                dapl_am_wait_nbi();
            });
            per_second("bandwidth", "get", "B/s", size, double(count) * size, [&] {
                for (std::uint32_t i = 0; i < count; ++i)
                    must(dapl_am_get_nbi_bulk(1, here_, there_, size));
                dapl_am_wait_nbi();
            });
        }
    }

    void add(const char *test, const char *kind, const char *unit, std::uint32_t size, double value)
    {
        results_.push_back({test, kind, unit, size, value});
        std::fprintf(stderr, "%-10s %-18s %10s %14s\n", test, kind,
                     size > 0 ? bench::size_text(size).c_str() : "-",
                     bench::value_text(value, unit).c_str());
    }

    const options &options_;
    void *here_ = nullptr;
    void *there_ = nullptr;
    std::vector<result> results_;
};

void write_results(const options &o, const std::vector<result> &results)
{
    if (!o.json.empty()) {
        program::json root;
        root["adapter"] = dapl_am_adapter();
        root["origin"] = program::origin_json();
        root["ranks"] = dapl_am_size();
        root["results"] = program::json::array();
        for (const result &r : results)
            root["results"].push_back({{"test", r.test},
                                       {"kind", r.kind},
                                       {"size", r.size},
                                       {"value", r.value},
                                       {"unit", r.unit}});
        program::write_json(o.json, root);
    }
    if (o.svg.empty())
        return;
    bench::plot::figure figure{"libdapl-am", dapl_am_adapter(), bench::plot::footnotes(), {}};
    for (const char *test : {"latency", "bandwidth"}) {
        bench::plot::panel panel;
        panel.title = test;
        panel.unit = test[0] == 'l' ? "s" : "B/s";
        for (const result &r : results) {
            if (r.test == test && r.size != 0)
                panel.named(r.kind).points.push_back({double(r.size), r.value});
        }
        figure.panels.push_back(panel);
    }
    bench::plot::write_svg(o.svg, figure);
}

int run(const options &o)
{
    must(dapl_am_init(nullptr));
    must(dapl_am_attach(table, std::size(table), largest));
    if (dapl_am_size() < 2) {
        std::fprintf(stderr, "dat-am-perf: measures between two ranks; start it by a launcher: "
                             "mpirun -n 2 dat-am-perf\n");
        return 1;
    }
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
    std::optional<plain_dat> dat;
    if (o.beside_dat && dapl_am_rank() < 2)
        dat.emplace();
    else if (o.beside_dat)
        must(dapl_am_barrier(2, 0));
    if (dapl_am_rank() == 0)
        write_results(o, dat ? bench_run(o).beside(*dat) : bench_run(o).all());
    else if (dat)
        dat->answer();
    must(dapl_am_barrier(1, DAPL_AM_ANONYMOUS));
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("dat-am-perf",
                               "Latency, rate and bandwidth of active messages, puts and gets\n"
                               "between ranks 0 and 1 of a job");
    line.sizes("--sizes", o.sizes, largest, "bytes of the transfers");
    line.number("--rounds", o.rounds, 10U, 1'000'000U, "samples of each latency");
    line.flag("--beside-dat", o.beside_dat,
              "instead, compare puts and messages with the same through DAT alone");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    line.text("--svg", "FILE", o.svg, "plot the results to this file");
    line.footer("The adapter is that of DAPL_AM_ADAPTER. Example:\n"
                "  DAPL_AM_ADAPTER=soft-lo mpirun -n 2 dat-am-perf");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-am-perf: %s\n", e.what());
        return 1;
    }
}
