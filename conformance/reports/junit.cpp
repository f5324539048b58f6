// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The scorecard as build servers read it: the XML that JUnit's runner of Ant writes.
#include "reports/markup.hpp"
#include "reports/scorecard.hpp"

#include "program/origin.hpp"

#include <fstream>
#include <stdexcept>

namespace conformance {
namespace {

/// The element that says why a case has not passed, or nothing. What the adapter does not claim, or
/// a waiver expects, counts as skipped there.
const char *element_of(outcome what)
{
    if (what == outcome::error)
        return "error";
    if (what == outcome::not_claimed || what == outcome::waived)
        return "skipped";
    return is_bad(what) ? "failure" : nullptr;
}

void write_case(std::ostream &out, const result &each)
{
    out << "<testcase classname=\"" << escaped(each.about.group()) << "\" name=\""
        << escaped(each.about.id + ": " + each.about.text) << "\" time=\"" << each.seconds
        << "\">\n";
    if (const char *element = element_of(each.what)) {
        out << "<" << element << " message=\""
            << escaped(std::string(name_of(each.what)) + ": " + each.reason) << "\">";
        for (const std::string &other : each.others)
            out << escaped(other) << "\n";
        out << (each.where.empty() ? "" : escaped(each.where) + "\n") << "</" << element << ">\n";
    }
    if (!each.output.empty())
        out << "<system-out>" << escaped(each.output) << "</system-out>\n";
    out << "</testcase>\n";
}

} // namespace

void write_junit(const scorecard &card, const std::string &path)
{
    const tally counted = card.count();
    const unsigned errors = counted[outcome::error];
    const unsigned skipped = counted[outcome::not_claimed] + counted[outcome::waived];
    std::ofstream file(path);
    file << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\""
         << escaped(card.adapter + (card.thread_safe ? " threadsafe" : "")) << "\" tests=\""
         << counted.total() << "\" failures=\"" << counted.bad() - errors << "\" errors=\""
         << errors << "\" skipped=\"" << skipped << "\" time=\"" << card.seconds << "\" hostname=\""
         << escaped(program::this_origin().host) << "\">\n";
    for (const result &each : card.results)
        write_case(file, each);
    if (card.on.is != device::state::open)
        file << "<testcase classname=\"adapter\" name=\"the adapter opens\"><error message=\""
             << escaped(card.on.reason) << "\"/></testcase>\n";
    file << "</testsuite>\n</testsuites>\n";
    if (!file.flush())
        throw std::runtime_error(path + ": cannot write file");
}

} // namespace conformance
