// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plot.hpp"

#include "program/failure.hpp"
#include "program/origin.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

namespace bench {

std::string size_text(std::uint32_t size)
{
    if (size >= 1 << 30 && size % (1 << 30) == 0)
        return std::to_string(size >> 30) + " GiB";
    if (size >= 1 << 20 && size % (1 << 20) == 0)
        return std::to_string(size >> 20) + " MiB";
    if (size >= 1024 && size % 1024 == 0)
        return std::to_string(size >> 10) + " KiB";
    return std::to_string(size) + " B";
}

std::string value_text(double value, const std::string &unit)
{
    constexpr const char *prefixes[] = {"n", "\u00b5", "m", "", "k", "M", "G", "T"};
    if (value <= 0)
        return "0 " + unit;
    // a little more, because 999.5 is written as 1000
    const double power = std::floor(std::log10(value * 1.0005) / 3);
    const int thousands = unit == "times" ? 0 : static_cast<int>(std::clamp(power, -3.0, 4.0));
    char text[32];
    std::snprintf(text, sizeof text, "%.3g ", value / std::pow(1000.0, thousands));
    return text + std::string(prefixes[thousands + 3]) + unit;
}

} // namespace bench

namespace bench::plot {
namespace {

// The page, in pixels.
constexpr double margin = 24;
constexpr double head_height = 70, foot_height = 16;
constexpr double cell_width = 470, cell_height = 380;
constexpr double left_of_area = 78, right_of_area = 20, above_area = 66, below_area = 54;

/// Colours that remain distinct for common kinds of colour blindness; marks distinguish them in
/// grey.
constexpr const char *style = R"(<style>
  svg { color-scheme: light dark; --page: #ffffff; --text: #1d2125; --soft: #5b646e;
    --grid: #e3e6ea; --frame: #9aa3ad;
    --c0: #0b62b0; --c1: #c2500a; --c2: #0a7f5f; --c3: #9c3f8f; }
  @media (prefers-color-scheme: dark) { svg { --page: #14171a; --text: #e4e7ea; --soft: #9aa4ae;
    --grid: #2a3037; --frame: #5d6771;
    --c0: #5fb0f5; --c1: #f59a52; --c2: #45cfa5; --c3: #e391d6; } }
  text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
    fill: #1d2125; fill: var(--text); }
  .title { font-size: 20px; font-weight: 600; }
  .large { font-size: 30px; }
  .small { font-size: 11px; }
  .panel { font-size: 15px; font-weight: 600; }
  .soft { fill: #5b646e; fill: var(--soft); }
  .page { fill: #ffffff; fill: var(--page); }
  .grid { stroke: #e3e6ea; stroke: var(--grid); }
  .frame { fill: none; stroke: #9aa3ad; stroke: var(--frame); }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
  .band { fill-opacity: .15; stroke-opacity: .4; }
  .end { text-anchor: end; } .middle { text-anchor: middle; }
)";

/// The rules for colours. The plain colour comes first, for viewers that know no variables.
std::string colour_rules()
{
    constexpr const char *plain[] = {"#0b62b0", "#c2500a", "#0a7f5f", "#9c3f8f"};
    std::string rules;
    for (int i = 0; i < 4; ++i) {
        const std::string name = std::to_string(i), colour = plain[i];
        rules += "  .s" + name + " { stroke: " + colour + "; stroke: var(--c" + name +
                 "); }\n  .f" + name + " { fill: " + colour + "; fill: var(--c" + name + "); }\n";
    }
    return rules + "</style>\n";
}

std::string escaped(const std::string &text)
{
    std::string safe;
    for (const char c : text) {
        if (c == '&')
            safe += "&amp;";
        else if (c == '<')
            safe += "&lt;";
        else
            safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return safe;
}

std::string number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string text_at(double x, double y, const std::string &kind, const std::string &text)
{
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + kind + "\">" +
           escaped(text) + "</text>\n";
}

std::string line_to(double x1, double y1, double x2, double y2)
{
    return "<path class=\"grid\" d=\"M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " +
           number(y2) + "\"/>\n";
}

/// One logarithmic axis: values onto pixels.
struct axis {
    double least, most; ///< range of the values
    double from, to;    ///< range of the pixels

    double at(double value) const
    {
        return from + (to - from) * std::log(value / least) / std::log(most / least);
    }
};

/// Each power of ten, and where there are few of them 2 and 5 times that.
std::vector<double> ticks_of(const axis &along)
{
    const bool few = along.most / along.least < 300;
    std::vector<double> ticks;
    for (double power = std::pow(10.0, std::floor(std::log10(along.least)));
         power <= along.most * 1.001; power *= 10)
        for (const double factor : {1.0, 2.0, 5.0})
            if ((factor == 1 || few) && power * factor >= along.least * 0.999 &&
                power * factor <= along.most * 1.001)
                ticks.push_back(power * factor);
    return ticks;
}

/// 1, 2 or 5 times a power of ten, next to `value` on that side.
double rounded_down(double value)
{
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    return value >= power * 5 ? power * 5 : value >= power * 2 ? power * 2 : power;
}

double rounded_up(double value)
{
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (value <= power * factor)
            return power * factor;
    return power * 10;
}

struct bounds {
    double least = std::numeric_limits<double>::max();
    double most = 0;

    void include(double value)
    {
        least = std::min(least, value);
        most = std::max(most, value);
    }
};

class drawing {
public:
    explicit drawing(const figure &shown);
    std::string text();

private:
    void draw(const panel &shown, double left, double top);
    void draw_notes(const panel &shown, double left, double top);
    void draw_curves(const panel &shown, double left, double top);
    void draw_grid(const panel &shown, const axis &x, const axis &y);
    void draw_legend(const panel &shown, double left, double y);
    void draw_curve(const curve &shown, const axis &x, const axis &y);
    void draw_band(const curve &shown, const axis &x, const axis &y);
    void draw_mark(std::size_t series, double x, double y);
    std::size_t series_of(const std::string &name);

    const figure &shown_;
    std::vector<const panel *> panels_;
    std::vector<std::string> series_;
    std::string out_;
};

drawing::drawing(const figure &shown) : shown_(shown)
{
    for (const panel &each : shown.panels)
        if (!each.curves.empty() || !each.notes.empty())
            panels_.push_back(&each);
}

std::size_t drawing::series_of(const std::string &name)
{
    const auto known = std::find(series_.begin(), series_.end(), name);
    if (known != series_.end())
        return static_cast<std::size_t>(known - series_.begin());
    series_.push_back(name);
    return series_.size() - 1;
}

std::string drawing::text()
{
    const std::size_t columns = std::clamp<std::size_t>(panels_.size(), 1, 2);
    const std::size_t rows = (panels_.size() + columns - 1) / columns;
    const double width = 2 * margin + cell_width * double(columns);
    const double foot = foot_height * double(shown_.footnotes.size());
    const double height = head_height + cell_height * double(rows) + margin + foot;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
           number(height) + "\" width=\"100%\" style=\"max-width: " + number(width) +
           "px\" role=\"img\">\n<title>" + escaped(shown_.title) + "</title>\n" + style +
           colour_rules() + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" +
           text_at(margin, margin + 14, "title", shown_.title) +
           text_at(margin, margin + 36, "soft", shown_.subtitle);
    for (std::size_t i = 0; i < panels_.size(); ++i)
        draw(*panels_[i], margin + cell_width * double(i % columns),
             head_height + cell_height * double(i / columns));
    double below = height - margin - foot;
    for (const std::string &each : shown_.footnotes)
        out_ += text_at(margin, below += foot_height, "small soft", each);
    return out_ + "</svg>\n";
}

void drawing::draw(const panel &shown, double left, double top)
{
    out_ += text_at(left, top + 22, "panel", shown.title);
    if (shown.curves.empty())
        draw_notes(shown, left, top + 22);
    else
        draw_curves(shown, left, top);
}

void drawing::draw_notes(const panel &shown, double left, double top)
{
    for (const note &each : shown.notes) {
        out_ += text_at(left, top + 64, "large", each.value);
        out_ += text_at(left, top + 88, "soft", each.caption);
        top += 88;
    }
}

void drawing::draw_curves(const panel &shown, double left, double top)
{
    bounds sizes, values;
    for (const curve &each : shown.curves)
        for (const point &p : each.points) {
            sizes.include(p.size);
            for (const double value : {p.value, p.low, p.high})
                if (value > 0)
                    values.include(value);
        }
    axis x{sizes.least, sizes.most, left + left_of_area, left + cell_width - right_of_area};
    axis y{rounded_down(values.least), rounded_up(values.most), top + cell_height - below_area,
           top + above_area};
    if (x.most <= x.least) { // one size only: in the middle
        x.least /= 2;
        x.most *= 2;
    }
    if (y.most <= y.least)
        y.most = y.least * 10;
    draw_legend(shown, left, top + 46);
    draw_grid(shown, x, y);
    for (const curve &each : shown.curves)
        draw_band(each, x, y);
    for (const curve &each : shown.curves)
        draw_curve(each, x, y);
    if (!shown.band.empty())
        out_ += text_at(x.to, y.from + 42, "small soft end", "shaded: " + shown.band);
}

void drawing::draw_grid(const panel &shown, const axis &x, const axis &y)
{
    for (const double value : ticks_of(y)) {
        out_ += line_to(x.from, y.at(value), x.to, y.at(value));
        out_ += text_at(x.from - 8, y.at(value) + 4.5, "soft end", value_text(value, shown.unit));
    }
    constexpr double label_width = 62;
    double labelled = -label_width;
    for (double size = std::exp2(std::ceil(std::log2(x.least))); size <= x.most; size *= 2) {
        if (x.at(size) - labelled < label_width)
            continue;
        labelled = x.at(size);
        out_ += line_to(labelled, y.from, labelled, y.to);
        out_ += text_at(labelled, y.from + 20, "soft middle",
                        size_text(static_cast<std::uint32_t>(size)));
    }
    out_ += "<path class=\"frame\" d=\"M" + number(x.from) + " " + number(y.to) + "V" +
            number(y.from) + "H" + number(x.to) + "\"/>\n";
    out_ += text_at((x.from + x.to) / 2, y.from + 42, "soft middle", "message size");
}

void drawing::draw_legend(const panel &shown, double left, double y)
{
    constexpr double letter = 7; // width of a letter, on the average and a little more
    for (const curve &each : shown.curves) {
        const std::size_t series = series_of(each.name);
        out_ += "<path class=\"line s" + std::to_string(series % 4) + "\" d=\"M" + number(left) +
                " " + number(y - 4.5) + "h22\"/>\n";
        draw_mark(series, left + 11, y - 4.5);
        out_ += text_at(left + 28, y, "", each.name);
        left += 28 + letter * double(each.name.size()) + 18;
    }
}

void drawing::draw_curve(const curve &shown, const axis &x, const axis &y)
{
    const std::size_t series = series_of(shown.name);
    std::string path;
    for (const point &p : shown.points) {
        path += path.empty() ? 'M' : 'L';
        path += number(x.at(p.size)) + " " + number(y.at(p.value));
    }
    out_ += "<path class=\"line s" + std::to_string(series % 4) + "\" d=\"" + path + "\"/>\n";
    for (const point &p : shown.points)
        draw_mark(series, x.at(p.size), y.at(p.value));
}

/// A band over one size is a line, which its stroke shows.
void drawing::draw_band(const curve &shown, const axis &x, const axis &y)
{
    std::string lower, upper;
    for (const point &p : shown.points) {
        if (p.low <= 0 || p.high <= 0)
            continue;
        const std::string across = number(x.at(p.size)) + " ";
        lower += (lower.empty() ? "M" : "L") + across + number(y.at(p.low));
        upper = "L" + across + number(y.at(p.high)) + upper;
    }
    if (lower.empty())
        return;
    const std::string series = std::to_string(series_of(shown.name) % 4);
    out_ += "<path class=\"band s" + series + " f" + series + "\" d=\"" + lower + upper + "Z\"/>\n";
}

void drawing::draw_mark(std::size_t series, double x, double y)
{
    constexpr const char *shapes[] = {
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", // circle
        "m-3.6 -3.6h7.2v7.2h-7.2z",            // square
        "m0 -5.2l5.2 5.2l-5.2 5.2l-5.2 -5.2z", // diamond
        "m0 -5l4.8 8.4h-9.6z",                 // triangle
    };
    out_ += "<path class=\"f" + std::to_string(series % 4) + "\" d=\"M" + number(x) + " " +
            number(y) + shapes[series % 4] + "\"/>\n";
}

} // namespace

std::vector<std::string> footnotes()
{
    const program::origin &made = program::this_origin();
    std::string command = made.program;
    for (const std::string &each : made.arguments)
        command += " " + each;
    return {made.text(), command};
}

curve &panel::named(const std::string &name)
{
    const auto is_it = [&](const curve &known) { return known.name == name; };
    auto found = std::find_if(curves.begin(), curves.end(), is_it);
    if (found == curves.end())
        found = curves.insert(found, curve{name, {}});
    return *found;
}

std::string svg(const figure &shown)
{
    return drawing(shown).text();
}

void write_svg(const std::string &path, const figure &shown)
{
    std::ofstream file(path);
    file << svg(shown);
    if (!file.flush())
        throw program::failure(path + ": " + std::strerror(errno));
}

} // namespace bench::plot
