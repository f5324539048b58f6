// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plan.hpp"

#include "dat_names.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>

namespace dapl::DAPL_TRANSPORT::faults {

namespace {

constexpr std::uint64_t always = ~std::uint64_t{0};
constexpr std::uint64_t told = 3; ///< calls of each fault that are shown

constinit plan instance;

/// To standard error, or to the file that DAPL_FAULT_LOG names.
void say(const char *format, ...) OSD_PRINTF(1, 2);
void say(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *const path = std::getenv("DAPL_FAULT_LOG");
    std::FILE *const log = path == nullptr ? nullptr : std::fopen(path, "ae");
    std::fprintf(log == nullptr ? stderr : log, "DAPL_FAULT: %s\n", text);
    if (log != nullptr)
        std::fclose(log);
}

/// The number with the wanted name, among the names that `name_of` knows up to `most`.
template <class Names>
std::int64_t number_named(const char *wanted, std::int64_t most, Names name_of)
{
    for (std::int64_t number = 0; number <= most; ++number) {
        const char *name = name_of(number);
        if (name != nullptr && std::strcmp(name, wanted) == 0)
            return number;
    }
    return -1;
}

/// What DAT answers without the class of errors, as it does success.
bool is_bare(std::int64_t type)
{
    const std::int64_t code = type << 16;
    return code == DAT_SUCCESS || code == DAT_TIMEOUT_EXPIRED || code == DAT_QUEUE_EMPTY ||
           code == DAT_INTERRUPTED_CALL;
}

/// "DAT_TYPE" or "DAT_TYPE/DAT_SUBTYPE".
bool parse_code(char *text, DAT_RETURN &code)
{
    char *const subtype = std::strchr(text, '/');
    if (subtype != nullptr)
        *subtype = '\0';
    const std::int64_t type = number_named(text, 0x3fff, [](std::int64_t number) {
        return dat::return_type_name(static_cast<DAT_RETURN>(number << 16));
    });
    const std::int64_t sub =
        subtype == nullptr ? 0 : number_named(subtype + 1, 0xffff, [](std::int64_t number) {
            return dat::return_subtype_name(static_cast<DAT_RETURN>(number));
        });
    if (subtype != nullptr)
        *subtype = '/';
    code = static_cast<DAT_RETURN>(type << 16) | static_cast<DAT_RETURN>(sub);
    if (!is_bare(type))
        code |= static_cast<DAT_RETURN>(DAT_CLASS_ERROR);
    return type >= 0 && sub >= 0;
}

bool parse_number(const char *text, std::int64_t &number)
{
    char *end = nullptr;
    number = std::strtoll(text, &end, 10);
    return end != text && *end == '\0';
}

struct action_word {
    const char *name; ///< word of the plan; with '=': a number or a name follows
    action does;
};
constexpr action_word action_words[] = {
    {"answer=", action::answer},
    {"refusal=", action::refusal},
    {"outcome=", action::outcome},
    {"accepts", action::accepts},
    {"stores=", action::stores},
    {"evd", action::evd},
    {"object", action::object},
    {"operation", action::operation},
    {"data", action::private_data},
    {"skip", action::skip},
    {"unrestarted", action::unrestarted},
    {"restarted", action::restarted},
    {"slow=", action::slow},
    {"argument=", action::argument},
    {"out=", action::out},
    {"wrong", action::wrong},
    {"twice", action::twice},
    {"early", action::early},
    {"event=", action::event},
    {"late=", action::late},
    {"never", action::never},
    {"swap", action::swap},
    {"status=", action::status},
    {"length=", action::length},
    {"cookie", action::cookie},
    {"immediate", action::immediate},
    {"invalidated", action::invalidated},
    {"receiver", action::receiver},
    {"solicited", action::solicited},
};

/// Its number, where it has one; codes, event and status have names.
bool parse_amount(fault &made, char *text)
{
    if (made.does == action::answer || made.does == action::refusal || made.does == action::outcome)
        return parse_code(text, made.code);
    if (made.does == action::event)
        made.amount = number_named(text, 0xffff, [](std::int64_t number) {
            return dat::event_name(static_cast<DAT_EVENT_NUMBER>(number));
        });
    else if (made.does == action::status)
        made.amount = number_named(text, 0xff, [](std::int64_t number) {
            return dat::dto_status_name(static_cast<DAT_DTO_COMPLETION_STATUS>(number));
        });
    else
        return parse_number(text, made.amount);
    return made.amount >= 0;
}

/// Returns null if this can be done to a call of DAT; otherwise why not.
const char *objection_to_call(action does, const subject_facts &of)
{
    switch (does) {
    case action::skip:
        return of.makes_object ? "cannot be left out" : nullptr;
    case action::fail:
    case action::answer:
    case action::refusal:
    case action::outcome:
    case action::accepts:
    case action::stores:
    case action::unrestarted:
    case action::restarted:
    case action::slow:
    case action::argument:
    case action::out:
    case action::twice:
        return nullptr;
    default:
        return "is a call";
    }
}

const char *objection_to_event(action does)
{
    switch (does) {
    case action::event:
    case action::status:
    case action::length:
    case action::cookie:
    case action::evd:
    case action::object:
    case action::operation:
    case action::private_data:
    case action::never:
    case action::swap:
    case action::twice:
        return nullptr;
    default:
        return "is an event";
    }
}

const char *objection_to_completion(action does)
{
    switch (does) {
    case action::fail:
        return "has no status";
    case action::skip:
        return "cannot be left out";
    case action::slow:
        return "is no call";
    case action::argument:
        return "has no arguments";
    case action::out:
    case action::wrong:
        return "answers nothing";
    case action::twice:
    case action::late:
    case action::never:
    case action::swap:
    case action::status:
    case action::length:
    case action::cookie:
    case action::immediate:
    case action::invalidated:
    case action::receiver:
    case action::solicited:
        return nullptr;
    default:
        return "is a completion";
    }
}

/// Why the action cannot be done to an operation or upcall.
const char *objection_to_operation(action does, subject name)
{
    const subject_facts &of = facts_of_subjects[static_cast<int>(name)];
    const bool is_upcall = of.kind == subject_kind::upcall;
    switch (does) {
    case action::fail:
        return of.has_status ? nullptr : "has no status";
    case action::skip:
        if (name == subject::qp_free || name == subject::qp_reset)
            return "what is posted would be used after it is gone";
        return of.makes_object || name == subject::any ? "cannot be left out" : nullptr;
    case action::slow:
        return nullptr;
    case action::argument:
        return name == subject::any ? "has no arguments" : nullptr;
    case action::out:
    case action::wrong:
        if (does == action::wrong && of.has_status)
            return "answers a status";
        return is_upcall || name == subject::any ? "answers nothing" : nullptr;
    case action::twice:
        if (name == subject::cr_callback)
            return "gives its cr away";
        return is_upcall ? nullptr : "is neither upcall nor completion";
    case action::early:
        return is_upcall && name != subject::cr_callback ? nullptr : "cannot come early";
    case action::late:
        return name == subject::completion_notify ? nullptr : "is no completion";
    case action::event:
        return name == subject::evd_connection_callback || name == subject::datagram_peer_callback
                   ? nullptr
                   : "has no event";
    default:
        return "is no completion";
    }
}

const char *objection(action does, subject name)
{
    const subject_facts &of = facts_of_subjects[static_cast<int>(name)];
    switch (of.kind) {
    case subject_kind::call:
        return objection_to_call(does, of);
    case subject_kind::event:
        return objection_to_event(does);
    case subject_kind::completion:
        return objection_to_completion(does);
    default:
        return objection_to_operation(does, name);
    }
}

/// Takes what the pattern names and this can be done to. Null if there is any; otherwise why not.
const char *take_subjects(fault &made, const char *pattern)
{
    const char *why = "is no name";
    bool taken = false;
    for (int i = 0; i < static_cast<int>(subject::number); ++i) {
        if (::fnmatch(pattern, facts_of_subjects[i].name, 0) != 0)
            continue;
        const char *against = objection(made.does, static_cast<subject>(i));
        made.of[i] = against == nullptr;
        taken = taken || made.of[i];
        why = against;
    }
    return taken ? nullptr : why;
}

bool names_any(const char *pattern)
{
    for (const subject_facts &each : facts_of_subjects)
        if (::fnmatch(pattern, each.name, 0) == 0)
            return true;
    return false;
}

std::uint64_t mixed(std::uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

} // namespace

plan &the_plan()
{
    return instance;
}

bool fault::is_due(subject met)
{
    const std::uint64_t call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
    const bool due =
        one_in != 0 ? mixed(mixed(seed) + call) % one_in == 0 : call >= first && call <= last;
    if (due && (one_in != 0 || call - first < told))
        say("%.*s: call %llu, %s", text_length, text, static_cast<unsigned long long>(call),
            facts_of_subjects[static_cast<int>(met)].name);
    return due;
}

fault *plan::look(subject of, bool early)
{
    fault *found = nullptr;
    for (int i = 0; i < count_; ++i)
        if (faults_[i].of[static_cast<int>(of)] && (faults_[i].does == action::early) == early &&
            faults_[i].is_due(of) && found == nullptr)
            found = &faults_[i];
    return found;
}

bool plan::parse_when(fault &made, const char *when)
{
    char *end = nullptr;
    if (std::strcmp(when, "*") == 0) {
        made.last = always;
        return true;
    }
    if (*when == '~') {
        made.one_in = static_cast<std::uint32_t>(std::strtoul(when + 1, &end, 10));
        made.seed = seed_;
        return end != when + 1 && *end == '\0' && made.one_in != 0;
    }
    made.first = made.last = std::strtoull(when, &end, 10);
    if (*end == '+') {
        made.last = always;
        ++end;
    }
    return end != when && *end == '\0' && made.first != 0;
}

bool plan::parse_action(fault &made, const char *what)
{
    char text[128] = {};
    std::strncpy(text, what, sizeof text - 1);
    if (parse_code(text, made.code) && made.code != DAT_SUCCESS) {
        made.does = action::fail;
        return true;
    }
    for (const action_word &each : action_words) {
        const std::size_t length = std::strlen(each.name);
        const bool has_amount = each.name[length - 1] == '=';
        if (std::strncmp(text, each.name, length) != 0 || (!has_amount && text[length] != '\0'))
            continue;
        made.does = each.does;
        return !has_amount || parse_amount(made, text + length);
    }
    return false;
}

/// NAME:WHEN:WHAT, or seed:NUMBER for the words after it.
bool plan::parse_word(char *word)
{
    const char *const whole = text_ + (word - words_);
    const int length = static_cast<int>(std::strlen(word));
    char *const when = std::strchr(word, ':');
    if (when == nullptr) {
        say("'%.*s' is not of the form NAME:WHEN:WHAT", length, whole);
        return false;
    }
    *when = '\0';
    if (std::strcmp(word, "seed") == 0) {
        seed_ = std::strtoull(when + 1, nullptr, 10);
        return true;
    }
    char *const what = std::strchr(when + 1, ':');
    const bool known = names_any(word);
    if (!known || what == nullptr || count_ == most) {
        say(!known            ? "there is nothing of the name in '%.*s'"
            : what == nullptr ? "'%.*s' is not of the form NAME:WHEN:WHAT"
                              : "'%.*s' is one fault too many",
            length, whole);
        return false;
    }
    *what = '\0';
    fault &made = faults_[count_];
    made.text = whole;
    made.text_length = length;
    if (!parse_when(made, when + 1)) {
        say("'%s' in '%.*s' is not a time: N, N+, * or ~N", when + 1, length, whole);
        return false;
    }
    if (!parse_action(made, what + 1)) {
        say("there is no fault '%s' as in '%.*s'", what + 1, length, whole);
        return false;
    }
    if (const char *why = take_subjects(made, word); why != nullptr) {
        say("'%.*s' cannot be done: %s %s", length, whole, word, why);
        return false;
    }
    ++count_;
    for (int i = 0; i < static_cast<int>(subject::number); ++i)
        subjects_[i] = subjects_[i] || made.of[i];
    return true;
}

bool plan::parse(const char *text)
{
    if (std::strlen(text) >= sizeof text_) {
        say("more than %zu characters", sizeof text_ - 1);
        return false;
    }
    std::strcpy(text_, text);
    std::strcpy(words_, text);
    for (char *word = words_; word != nullptr && *word != '\0';) {
        char *const comma = std::strchr(word, ',');
        if (comma != nullptr)
            *comma = '\0';
        if (!parse_word(word))
            return false;
        word = comma == nullptr ? nullptr : comma + 1;
    }
    return true;
}

/// Calls are counted from the first device on that opens while no other is open. A device that
/// fails to open and is opened again counts as well. Chance goes on: otherwise it would fail equal
/// calls of each open, and a program that repeats an open would never succeed.
bool plan::read()
{
    const char *const set = std::getenv("DAPL_FAULT");
    const char *const text = set == nullptr ? "" : set;
    const bool same = valid_ && std::strcmp(text, text_) == 0;
    if (devices_.fetch_add(1) != 0 || (!stale_ && same))
        return true;
    stale_ = false;
    if (same) {
        for (int i = 0; i < count_; ++i)
            if (faults_[i].one_in == 0)
                faults_[i].calls = 0;
        return true;
    }
    for (int i = 0; i < count_; ++i) {
        faults_[i].~fault();
        new (&faults_[i]) fault;
    }
    std::memset(subjects_, 0, sizeof subjects_);
    count_ = 0;
    seed_ = 1;
    valid_ = parse(text);
    if (!valid_)
        device_closed();
    return valid_;
}

bool plan::has_chance() const
{
    for (int i = 0; i < count_; ++i)
        if (faults_[i].one_in != 0)
            return true;
    return false;
}

void plan::device_closed()
{
    stale_ = true;
    devices_.fetch_sub(1);
}

} // namespace dapl::DAPL_TRANSPORT::faults
