// The roofline as a picture: operations per byte against operations per second, both logarithmic. Drawn by hand into
// SVG, because that is one string and needs no library; text sizes and margins are in pixels of the drawing.
#include "app/roofline_report.h"

#include "app/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace ridge::app {
namespace {

constexpr double kWidth = 1080, kHeight = 700;
constexpr double kLeft = 84, kRight = 210, kTop = 76, kBottom = 74;
constexpr const char* kInk = "#1f2933";
constexpr const char* kFaint = "#e4e7eb";
constexpr const char* kMuted = "#7b8794";

struct Group {
  const char *key, *title, *color;
};
constexpr Group kGroups[] = {{"matvec", "matrix × vector", "#2680c2"},
                             {"attention", "attention", "#d64545"},
                             {"product", "matrix × prompt", "#3f9142"},
                             {"vector", "norms, sums", "#9aa5b1"},
                             {"model", "whole model", "#e67e00"}};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

// One axis: decades between powers of ten.
struct Axis {
  double low, high; // log10
  double from, to;  // pixels

  Axis(double least, double most, double from, double to)
      : low(std::floor(std::log10(least))), high(std::ceil(std::log10(most))), from(from), to(to) {}
  double at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

class Picture {
 public:
  explicit Picture(const RooflineReport& report)
      : report_(report), x_(least_intensity(), most_intensity(), kLeft, kWidth - kRight),
        y_(least_rate(), most_rate(), kHeight - kBottom, kTop) {}

  std::string draw() {
    out_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                       "font-family=\"Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif\">\n"
                       "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
                       kWidth, kHeight);
    text(kLeft, 34, fmt::format("Roofline of {}", report_.device), 20, kInk, "start", "600");
    text(kLeft, 56,
         report_.model.empty() ? "measured ceilings"
                               : fmt::format("{}; measured by ridge {} ({})", report_.model, RIDGE_VERSION, kCommit),
         13, kMuted);
    draw_grid();
    draw_roofs();
    draw_points();
    draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  double least_intensity() const {
    double least = 0.25;
    for (const Placement& p : report_.placements) least = std::min(least, p.flops_per_byte());
    return std::max(least, 0.01);
  }
  double most_intensity() const {
    double most = 4 * report_.peak() / report_.read();
    for (const Placement& p : report_.placements) most = std::max(most, p.flops_per_byte());
    return most;
  }
  double least_rate() const {
    double least = report_.read() * 0.25;
    for (const Placement& p : report_.placements)
      if (p.group != "vector") least = std::min(least, p.flops_per_second());
    return least;
  }
  double most_rate() const {
    double most = 0;
    for (const core::Ceiling& c : report_.ceilings)
      if (c.unit == core::Ceiling::Unit::operations_per_second) most = std::max(most, c.value);
    return 1.2 * most;
  }

  void text(double x, double y, const std::string& what, double size, const char* color, const char* anchor = "start",
            const char* weight = "400") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" "
                        "font-weight=\"{}\">{}</text>\n",
                        x, y, size, color, anchor, weight, escaped(what));
  }
  void line(double x1, double y1, double x2, double y2, const char* color, double width, const char* dashes = "") {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                        "stroke-width=\"{}\"{}/>\n",
                        x1, y1, x2, y2, color, width,
                        *dashes ? fmt::format(" stroke-dasharray=\"{}\"", dashes) : std::string());
  }

  void draw_grid() {
    static constexpr std::pair<double, const char*> kPrefixes[] = {{15, "P"}, {12, "T"}, {9, "G"}, {6, "M"}, {3, "k"}};
    for (double decade = x_.low; decade <= x_.high; ++decade) {
      const double x = x_.at(std::pow(10, decade));
      line(x, kTop, x, kHeight - kBottom, kFaint, 1);
      text(x, kHeight - kBottom + 20, fmt::format("{:g}", std::pow(10, decade)), 12, kMuted, "middle");
    }
    for (double decade = y_.low; decade <= y_.high; ++decade) {
      const double y = y_.at(std::pow(10, decade));
      line(kLeft, y, kWidth - kRight, y, kFaint, 1);
      std::string label = fmt::format("{:g}", std::pow(10, decade));
      for (const auto& [power, prefix] : kPrefixes)
        if (decade >= power) {
          label = fmt::format("{:g} {}", std::pow(10, decade - power), prefix);
          break;
        }
      text(kLeft - 8, y + 4, label, 12, kMuted, "end");
    }
    text((kLeft + kWidth - kRight) / 2, kHeight - 24, "operations per byte", 13, kInk, "middle");
    const double middle = (kTop + kHeight - kBottom) / 2;
    out_ += fmt::format("<g transform=\"rotate(-90 24 {0:.1f})\">", middle);
    text(24, middle, "operations per second", 13, kInk, "middle");
    out_ += "</g>\n";
  }

  // A bandwidth is a diagonal from the left edge up to the highest rate it is drawn to.
  void diagonal(double bandwidth, double to_rate, const char* color, double width, const char* dashes,
                const std::string& label) {
    double intensity = std::pow(10, x_.low), rate = bandwidth * intensity;
    const double bottom = std::pow(10, y_.low);
    if (rate < bottom) rate = bottom, intensity = bottom / bandwidth;
    const double x1 = x_.at(intensity), y1 = y_.at(rate), x2 = x_.at(to_rate / bandwidth), y2 = y_.at(to_rate);
    line(x1, y1, x2, y2, color, width, dashes);
    if (label.empty()) return;
    const double angle = std::atan2(y2 - y1, x2 - x1) * 180 / std::acos(-1.0), at = 0.16; // low, where few kernels are
    const double x = x1 + at * (x2 - x1), y = y1 + at * (y2 - y1) - 7;
    out_ += fmt::format("<g transform=\"rotate({:.2f} {:.1f} {:.1f})\">", angle, x, y);
    text(x, y, label, 12, color, "middle", "600");
    out_ += "</g>\n";
  }

  void draw_roofs() {
    const double peak = report_.peak(), read = report_.read();
    if (const core::Ceiling* l2 = core::find_ceiling(report_.ceilings, "l2_read"))
      diagonal(l2->value, peak, kMuted, 1, "2 4", fmt::format("L2 read {:.1f} TB/s", l2->value / 1e12));
    if (report_.datasheet && report_.datasheet->memory_bytes_per_second > 0)
      diagonal(report_.datasheet->memory_bytes_per_second, peak, kMuted, 1, "6 4", "");
    const bool tera = read >= 1e12;
    diagonal(read, peak, kInk, 2.2, "",
             fmt::format("memory read {:.2f} {}", read / (tera ? 1e12 : 1e9), tera ? "TB/s" : "GB/s"));
    // Rates, highest first; labels stand right of the plot and make room for each other.
    std::vector<const core::Ceiling*> rates;
    for (const core::Ceiling& c : report_.ceilings)
      if (c.unit == core::Ceiling::Unit::operations_per_second) rates.push_back(&c);
    std::ranges::sort(rates, [](const core::Ceiling* a, const core::Ceiling* b) { return a->value > b->value; });
    double last_label = 0;
    for (const core::Ceiling* c : rates) {
      const bool main = c->value == peak;
      const double y = y_.at(c->value), label = std::max(y + 4, last_label + 14);
      line(x_.at(std::min(c->value / read, std::pow(10, x_.high))), y, kWidth - kRight, y, main ? kInk : "#cbd2d9",
           main ? 2.2 : 1);
      const bool tera_rate = c->value >= 1e12;
      text(kWidth - kRight + 8, label,
           fmt::format("{} {:.{}f} {}", c->name, c->value / (tera_rate ? 1e12 : 1e9), c->value >= 1e13 ? 0 : 1,
                       tera_rate ? "TOP/s" : "GOP/s"),
           11.5, main ? kInk : kMuted, "start", main ? "600" : "400");
      last_label = label;
    }
  }

  // "Q4_K" of a product, "depth 8192" of attention, else the name.
  static std::string shown_label(const Placement& p) {
    if (p.group == "attention") return p.name.substr(p.name.rfind("depth"));
    return p.group == "model" ? p.name : p.name.substr(0, p.name.find(' '));
  }

  void draw_points() {
    std::set<std::string> labelled;
    std::vector<Box> taken;
    for (const Placement& p : report_.placements) {
      const double x = x_.at(p.flops_per_byte()), y = y_.at(p.flops_per_second());
      taken.push_back({x - 4, y - 4, x + 4, y + 4});
    }
    for (size_t pass = 0; pass < std::size(kGroups); ++pass) { // the whole model is labelled first and drawn last
      const Group& group = kGroups[std::size(kGroups) - 1 - pass];
      for (const Placement& p : report_.placements) {
        if (p.group != group.key) continue;
        // What is slower than the plot is high stands at its lower edge.
        const double x = x_.at(p.flops_per_byte()), y = std::min(y_.at(p.flops_per_second()), kHeight - kBottom);
        const bool whole = p.group == "model";
        points_ = fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"0.85\" "
                              "stroke=\"#ffffff\" stroke-width=\"0.8\"><title>{}: {:.0f} GB/s, {:.2f} TFLOP/s, "
                              "{:.0f} % of its roof</title></circle>\n",
                              x, y, whole ? 6.5 : 4, group.color, escaped(p.name), p.bytes_per_second() / 1e9,
                              p.flops_per_second() / 1e12, 100 * report_.floor_seconds(p) / p.seconds) +
                  points_;
        if (p.group == "vector") continue;                               // their place says enough
        if (!labelled.insert(p.group + shown_label(p)).second) continue; // once per format
        const std::string shown = shown_label(p);
        const double width = 6.1 * static_cast<double>(shown.size()) * (whole ? 1.12 : 1);
        for (const auto& [dx, dy, anchor] :
             {std::tuple(8.0, 4.0, 0), std::tuple(-8.0, 4.0, 1), std::tuple(8.0, 15.0, 0), std::tuple(-8.0, -9.0, 1),
              std::tuple(8.0, -9.0, 0), std::tuple(-8.0, 15.0, 1)}) {
          const double left = anchor ? x + dx - width : x + dx;
          const Box box{left, y + dy - 10, left + width, y + dy + 2};
          const bool inside = box.left > kLeft && box.right < kWidth - kRight && box.bottom < kHeight - kBottom;
          if (!inside || std::ranges::any_of(taken, [&](const Box& other) { return box.meets(other); })) continue;
          taken.push_back(box);
          text(x + dx, y + dy, shown, whole ? 12.5 : 10.5, whole ? kInk : group.color, anchor ? "end" : "start",
               whole ? "600" : "400");
          break;
        }
      }
    }
    out_ += points_;
  }

  void draw_legend() {
    double y = kHeight - kBottom - 18.0 * static_cast<double>(std::size(kGroups)) - 14;
    for (const Group& group : kGroups) {
      if (std::ranges::find(report_.placements, group.key, &Placement::group) == report_.placements.end()) continue;
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", kWidth - kRight + 16, y - 4,
                          group.color);
      text(kWidth - kRight + 28, y, group.title, 12, kInk);
      y += 18;
    }
    if (report_.datasheet) text(kWidth - kRight + 8, y + 2, "dashed: datasheet", 11, kMuted);
  }

  const RooflineReport& report_;
  Axis x_, y_;
  std::string out_, points_;
};

} // namespace

std::string roofline_svg(const RooflineReport& report) { return Picture(report).draw(); }

} // namespace ridge::app
