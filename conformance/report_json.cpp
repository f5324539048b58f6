// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scorecard.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <stdexcept>

namespace conformance {
namespace {

using nlohmann::ordered_json;

ordered_json record_of(const result &each)
{
    ordered_json record{
        {"rule", each.about.id},         {"case", each.about.text}, {"group", each.about.group()},
        {"outcome", name_of(each.what)}, {"reason", each.reason},   {"seconds", each.seconds},
    };
    if (!each.about.needs.empty())
        record["needs"] = each.about.needs;
    if (!each.where.empty())
        record["where"] = each.where;
    if (!each.others.empty())
        record["further_failures"] = each.others;
    if (!each.notes.empty())
        record["notes"] = each.notes;
    if (each.what == outcome::failed || each.what == outcome::waived)
        record["hint"] = each.about.hint;
    if (each.what != outcome::passed && !each.output.empty())
        record["output"] = each.output;
    return record;
}

ordered_json counts_of(const tally &counted)
{
    ordered_json counts;
    for (std::size_t i = 0; i < outcomes; ++i)
        counts[name_of(static_cast<outcome>(i))] = counted.numbers[i];
    return counts;
}

ordered_json device_of(const device &on)
{
    ordered_json made{{"judged", on.is == device::state::open}};
    if (!on.reason.empty())
        made["reason"] = on.reason;
    if (!on.reason.empty() && !on.output.empty())
        made["output"] = on.output;
    ordered_json attributes = ordered_json::object();
    for (const auto &[name, value] : on.attributes)
        attributes[name] = value;
    made["attributes"] = attributes;
    return made;
}

} // namespace

void write_json(const scorecard &card, const std::string &path)
{
    ordered_json results = ordered_json::array();
    for (const result &each : card.results)
        results.push_back(record_of(each));
    const ordered_json all{
        {"adapter", card.adapter},
        {"thread_safe", card.thread_safe},
        {"date", card.date},
        {"libdat2", card.libdat2},
        {"seconds", card.seconds},
        {"device", device_of(card.on)},
        {"counts", counts_of(card.count())},
        {"results", results},
    };
    std::ofstream file(path);
    file << all.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    if (!file.flush())
        throw std::runtime_error(path + ": cannot be written");
}

} // namespace conformance
