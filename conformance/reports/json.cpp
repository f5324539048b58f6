// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reports/scorecard.hpp"

#include "program/json.hpp"

namespace conformance {
namespace {

program::json record_of(const result &each)
{
    program::json record{
        {"rule", each.about.id},         {"case", each.about.text}, {"group", each.about.group()},
        {"outcome", name_of(each.what)}, {"reason", each.reason},   {"seconds", each.seconds},
    };
    if (!each.about.needs.empty())
        record["needs"] = each.about.needs;
    if (!each.refused_call.empty())
        record["refused_call"] = each.refused_call;
    if (!each.where.empty())
        record["where"] = each.where;
    if (!each.others.empty())
        record["further_failures"] = each.others;
    if (!each.notes.empty())
        record["notes"] = each.notes;
    if (!each.failed_at_first.empty())
        record["failed_at_first"] = each.failed_at_first;
    if (is_failure(each.what) || each.what == outcome::waived)
        record["hint"] = each.about.hint;
    if (each.what != outcome::passed && !each.output.empty())
        record["output"] = each.output;
    return record;
}

program::json counts_of(const tally &counted)
{
    program::json counts;
    for (std::size_t i = 0; i < outcomes; ++i)
        counts[name_of(static_cast<outcome>(i))] = counted.numbers[i];
    return counts;
}

program::json value_of(const attribute &one)
{
    if (one.kind == "text")
        return one.value;
    if (one.kind == "yes/no")
        return one.value == "yes";
    return std::stoll(one.value);
}

program::json device_of(const device &on)
{
    program::json made{{"judged", on.is == device::state::open}};
    if (!on.reason.empty())
        made["reason"] = on.reason;
    if (!on.reason.empty() && !on.output.empty())
        made["output"] = on.output;
    program::json attributes = program::json::object();
    for (const attribute &each : on.attributes)
        attributes[each.name] = value_of(each);
    made["attributes"] = attributes;
    return made;
}

} // namespace

void write_json(const scorecard &card, const std::string &path)
{
    program::json results = program::json::array();
    for (const result &each : card.results)
        results.push_back(record_of(each));
    const program::json all{
        {"adapter", card.adapter},
        {"thread_safe", card.thread_safe},
        {"date", card.date},
        {"origin", program::origin_json()},
        {"libdat2", card.libdat2},
        {"seconds", card.seconds},
        {"device", device_of(card.on)},
        {"counts", counts_of(card.count())},
        {"passed_on_repetition", card.passed_on_repetition()},
        {"results", results},
    };
    program::write_json(path, all);
}

} // namespace conformance
