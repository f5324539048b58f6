// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The faults that the environment variable DAPL_FAULT asks for; README.md has its words.
#pragma once

#include "fault_subjects.hpp"
#include "osd_annotations.hpp"

#include <atomic>
#include <cstdint>
#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::faults {

enum class action : std::uint8_t {
    fail,        ///< the operation answers `code` and does nothing
    answer,      ///< the call is made, and answers `code`
    refusal,     ///< an error is answered as `code`
    outcome,     ///< an answer that is neither success nor error becomes `code`
    accepts,     ///< an error is answered as success
    stores,      ///< an error stores something through argument number `amount`
    skip,        ///< the operation does nothing; an upcall is lost
    unrestarted, ///< all handlers of signals are without SA_RESTART
    restarted,   ///< all are with it
    slow,        ///< it begins `amount` ms later
    argument,    ///< argument number `amount` gets another value
    out,         ///< the value stored through argument number `amount` is another
    wrong,       ///< the opposite answer, or one more
    twice,       ///< the upcall or completion comes twice
    early,       ///< the upcall comes once more, before there is a reason
    event,       ///< the upcall has event number `amount`
    late,        ///< the completion comes `amount` ms later; so the CQ is armed
    never,       ///< the completion does not come
    swap,        ///< the completion comes after the next one
    status,      ///< a success has status `amount`
    length,      ///< `amount` bytes more
    cookie,
    immediate,
    invalidated,
    receiver,
    solicited,
    evd, ///< the event names another EVD
    object,
    operation,
    private_data,
};

/// One word of the plan: what happens to whom, and when.
struct fault {
    bool of[static_cast<int>(subject::number)] = {};
    action does = action::skip;
    DAT_RETURN code = DAT_SUCCESS;
    std::int64_t amount = 0;
    const char *text = ""; ///< the word itself, for messages
    int text_length = 0;
    std::uint64_t first = 1; ///< the calls that it is for, counted from 1
    std::uint64_t last = 1;
    std::uint32_t one_in = 0; ///< with a seed, in place of first and last
    std::uint64_t seed = 0;
    std::atomic<std::uint64_t> calls{0};

    bool is_due(subject met);
};

class plan {
public:
    /// Called when a device opens. False when the variable has a word that is none; says which.
    bool read();
    void device_closed();
    void open_failed() { devices_.fetch_sub(1); }

    /// Whether there is a fault that comes by chance.
    bool has_chance() const;

    /// The fault that this call meets, or null. Each call counts once.
    fault *due(subject of) { return has(of) ? look(of, false) : nullptr; }
    /// Whether the upcall comes early, at a place where it can.
    bool is_early(subject upcall) { return has(upcall) && look(upcall, true) != nullptr; }
    bool has(subject of) const { return subjects_[static_cast<int>(of)]; }
    bool touches_completions() const
    {
        return has(subject::completion) || has(subject::receive_completion) ||
               has(subject::request_completion);
    }

private:
    static constexpr int most = 16;
    fault *look(subject of, bool early) OSD_COLD;
    bool parse(const char *text);
    bool parse_word(char *word);
    bool parse_when(fault &made, const char *when);
    bool parse_action(fault &made, const char *what);

    char text_[1024] = {};  ///< text as parsed, to be compared
    char words_[1024] = {}; ///< the text cut into words
    fault faults_[most];
    int count_ = 0;
    std::uint64_t seed_ = 1;
    bool subjects_[static_cast<int>(subject::number)] = {};
    std::atomic<int> devices_{0};
    bool stale_ = true;  ///< the text has to be read again
    bool valid_ = false; ///< text_ was parsed to its end
};

plan &the_plan();

} // namespace dapl::DAPL_TRANSPORT::faults
