// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Decisions of a shard. Of its thread: whether to spin for packets or to sleep, and whether
// consumers poll so often that the socket can be left to them. Of who polls: when to read the
// socket.
#pragma once

#include <algorithm>
#include <cstdint>

namespace soft_hca {

/// Spinning for more packets saves a wake-up where a processor is idle. Where no processor is idle,
/// it displaces the thread that would respond, or that spins on the memory which was just written.
/// The number of packets is the criterion: a spin that receives few packets has failed, and the
/// next 1, 3, 7 and so on up to 255 are skipped (exponential back-off).
class spin_policy {
public:
    explicit spin_policy(std::int64_t patience_ns = 0) : patience_ns_(patience_ns) {}

    /// Decides after each poll: true, poll again; false, sleep.
    bool looks_on(bool found, std::int64_t now)
    {
        if (found)
            return until_ != 0 ? extend(now) : begin(now);
        if (until_ > now)
            return true;
        if (until_ != 0)
            end();
        return false;
    }
    /// Consumers poll from now on.
    void stop() { until_ = 0; }

private:
    bool begin(std::int64_t now)
    {
        if (patience_ns_ == 0)
            return false;
        if (skip_ != 0) {
            --skip_;
            return false;
        }
        came_ = 0;
        until_ = now + patience_ns_;
        return true;
    }
    bool extend(std::int64_t now)
    {
        if (++came_ >= worthwhile)
            failed_ = 0;
        until_ = now + patience_ns_;
        return true;
    }
    void end()
    {
        until_ = 0;
        if (came_ >= worthwhile)
            return;
        failed_ = std::min(failed_ + 1, most_failed);
        skip_ = (1U << failed_) - 1;
    }

    /// Fewer may be acknowledgements, which come whether or not the consumers run.
    static constexpr std::uint32_t worthwhile = 8;
    static constexpr std::uint32_t most_failed = 8;
    std::int64_t patience_ns_;
    std::int64_t until_ = 0; ///< 0: not spinning
    std::uint32_t came_ = 0; ///< packets since the spin began
    std::uint32_t failed_ = 0;
    std::uint32_t skip_ = 0;
};

/// Consumers attend to a socket when they poll all the time, or sleep on it; not when they poll now
/// and then and spin on memory otherwise. The required evidence doubles each time that they have
/// left packets waiting, and halves while they do not. Consumers that poll often keep it when the
/// thread finds packets: others had the processor at that moment.
class attendance {
public:
    /// What happened since the last time: the number of polls; whether a consumer slept on the
    /// socket or was polling when the thread woke; whether the thread found packets. True when
    /// consumers attend.
    bool note(std::uint32_t polls, bool met, bool found, std::int64_t now)
    {
        measure(polls, now);
        if (polls != 0)
            polled_ns_ = now;
        if (shown_ >= needed_ && polls != 0)
            needed_ = std::max(needed_ / 2, least);
        if (met)
            shown_ = std::min(shown_ + least, most);
        else if (polls >= dense || (polls != 0 && !found))
            shown_ = std::min(shown_ + 1, most);
        else if ((found && !often_) || now - polled_ns_ >= longest_pause_ns)
            shown_ = 0;
        return shown_ >= needed_;
    }
    /// Consumers have left packets waiting.
    void neglected()
    {
        shown_ = 0;
        needed_ = std::min(2 * needed_, most);
    }

    static constexpr std::int64_t longest_pause_ns = 1'000'000;
    static constexpr std::uint32_t often = 32; ///< polls within the longest pause

private:
    void measure(std::uint32_t polls, std::int64_t now)
    {
        measured_ += polls;
        if (now - since_ns_ < longest_pause_ns)
            return;
        often_ = measured_ >= (now - since_ns_) / longest_pause_ns * often;
        measured_ = 0;
        since_ns_ = now;
    }

    static constexpr std::uint32_t dense = 4;
    static constexpr std::uint32_t least = 4;
    static constexpr std::uint32_t most = 256;
    std::int64_t polled_ns_ = 0;
    std::uint32_t shown_ = 0; ///< evidence; times in a row
    std::uint32_t needed_ = least;
    std::int64_t since_ns_ = 0;
    std::int64_t measured_ = 0; ///< polls since then
    bool often_ = false;        ///< consumers poll all the time, when they have a processor
};

/// Whether a consumer polls all the time, as it finds out itself: it has polled so often in a row,
/// and in vain, that a thread that was about to sleep would not have gone on.
class poll_run {
public:
    static constexpr std::uint32_t long_run = 32;       ///< polls
    static constexpr std::int64_t longest_ns = 200'000; ///< that they take

    /// After each poll. True at the end of a long run; then the next one begins.
    bool ends(bool received, std::int64_t now)
    {
        if (received)
            return false;
        if (polls_ == 0 || now - began_ns_ > longest_ns) {
            polls_ = 0;
            began_ns_ = now;
        }
        if (++polls_ < long_run)
            return false;
        polls_ = 0;
        return true;
    }

private:
    std::uint32_t polls_ = 0;
    std::int64_t began_ns_ = 0;
};

/// Reading the socket is a system call, as long as half a poll of rings. While packets come by
/// rings it is read now and then: after pauses that double as long as nothing is found there.
class socket_pause {
public:
    static constexpr std::int64_t shortest_ns = 2'000;
    static constexpr std::int64_t longest_ns = 16'000;
    static constexpr std::int64_t rings_deliver_ns = 100'000; ///< after a packet more are expected

    void ring_delivered(std::int64_t now) { ring_ns_ = now; }
    /// Whether rings have delivered lately.
    bool rings_deliver(std::int64_t now) const { return now - ring_ns_ < rings_deliver_ns; }
    /// Whether the socket need not be read yet.
    bool lasts(std::int64_t now) const { return rings_deliver(now) && now - read_ns_ < pause_ns_; }
    /// The socket was read.
    void begin(std::int64_t now, bool found)
    {
        read_ns_ = now;
        pause_ns_ = found ? shortest_ns : std::min(2 * pause_ns_, longest_ns);
    }

private:
    std::int64_t ring_ns_ = INT64_MIN / 2;
    std::int64_t read_ns_ = INT64_MIN / 2;
    std::int64_t pause_ns_ = shortest_ns;
};

} // namespace soft_hca
