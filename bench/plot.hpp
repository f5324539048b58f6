// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Plots over message sizes, as one self-contained SVG file: both axes logarithmic, for light and
// dark backgrounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// "64 B", "8 KiB", "1 MiB".
std::string size_text(std::uint32_t size);
/// The text of a value with its unit: "2.5 µs" of 2.5e-6 and "s"; "0.9 times" of 0.9.
std::string value_text(double value, const std::string &unit);

} // namespace bench

namespace bench::plot {

struct point {
    double size;              ///< bytes, at least 1
    double value;             ///< above 0
    double low = 0, high = 0; ///< the band around the value; none while `high` is 0
};

struct curve {
    std::string name; ///< a name has one colour in all panels
    std::vector<point> points;
};

/// A figure that does not depend on the message size: "85 µs", "from call to event".
struct note {
    std::string value, caption;
};

struct panel {
    std::string title;
    std::string unit; ///< unit of the values: "s" is shown as µs if the values are small
    std::vector<curve> curves;
    std::vector<note> notes; ///< instead of curves
    std::string band;        ///< what the bands span: "best to 99 %"

    /// The curve of this name, a new one if there is none.
    curve &named(const std::string &name);
};

struct figure {
    std::string title, subtitle;
    std::vector<std::string> footnotes; ///< host, date, program and options
    std::vector<panel> panels;          ///< without curves and notes a panel is left out
};

/// Lines on this host and this run.
std::vector<std::string> footnotes();

std::string svg(const figure &shown);

/// Throws a failure.
void write_svg(const std::string &path, const figure &shown);

} // namespace bench::plot
