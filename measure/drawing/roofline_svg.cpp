// Operations per byte against operations per second, log-log.
#include "measure/roofline_report.h"

#include "engine/loading/machine.h"
#include "measure/drawing/svg.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace ridge::measure {
namespace {

constexpr double kWidth = 1080, kHeight = 700;
constexpr double kLeft = 84, kRight = 210, kTop = 76, kBottom = 74;

struct Group {
  const char *key, *title, *color;
};
constexpr Group kGroups[] = {{"matvec", "matrix × vector", "#2680c2"},
                             {"attention", "attention", "#d64545"},
                             {"product", "matrix × prompt", "#3f9142"},
                             {"model", "whole model", "#e67e00"}};

struct Rate {
  const char* title;
  std::initializer_list<const char*> ceilings;
};
const Rate kRates[] = {
    {"int8 tensor cores", {"wgmma_int8", "mma_int8"}}, {"fp8 tensor cores", {"wgmma_fp8", "mma_fp8"}},
    {"f16 tensor cores", {"wgmma_f16", "mma_f16"}},    {"tf32 tensor cores", {"wgmma_tf32", "mma_tf32"}},
    {"int8 dot products", {"dp4a", "int8"}},           {"f32", {"fp32"}}};

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

// Attention, the model, each format's largest matrix; the table has the rest.
std::vector<RooflinePoint> shown_points(const std::vector<RooflinePoint>& all) {
  std::vector<RooflinePoint> shown;
  for (const RooflinePoint& p : all) {
    if (p.group == "vector") continue;
    if (!p.format.empty()) {
      const auto stored = quant::stored_formats();
      if (std::ranges::find(stored, p.format, &quant::FormatInfo::name) == stored.end()) continue;
      std::erase_if(shown, [&](const RooflinePoint& o) { return o.group == p.group && o.format == p.format; });
    }
    shown.push_back(p);
  }
  return shown;
}

class Picture {
 public:
  explicit Picture(const RooflineReport& report)
      : report_(report), shown_(shown_points(report.points)),
        x_(least_intensity(), most_intensity(), kLeft, kWidth - kRight),
        y_(least_rate(), most_rate(), kHeight - kBottom, kTop) {}

  std::string draw() {
    page_.text(kLeft, 36, fmt::format("Roofline of {}", report_.device), 22, kInk, "start", "600");
    page_.text(kLeft, 60, subtitle(), 13.5, kMuted);
    draw_grid();
    draw_roofs();
    draw_points();
    draw_legend();
    return page_.finish(fmt::format("ridge {} ({})", RIDGE_VERSION, engine::kCommit));
  }

 private:
  std::string subtitle() const {
    std::string text = report_.model.empty() ? "measured ceilings" : report_.model;
    for (const RooflinePoint& p : report_.points)
      if (p.group == "model" && p.name.find('@') == std::string::npos)
        text += fmt::format(" · {}: {:.0f} tokens/s, {:.0f} % of the roof", p.name,
                            static_cast<double>(p.tokens) / p.seconds, 100 * roof_share(p));
    return text;
  }
  double roof_share(const RooflinePoint& p) const { return report_.floor_seconds(p) / p.seconds; }

  double least_intensity() const {
    double least = 0.5;
    for (const RooflinePoint& p : shown_) least = std::min(least, p.flops_per_byte());
    return std::max(least / 2, 0.01);
  }
  double most_intensity() const {
    double most = 4 * report_.peak() / report_.read();
    for (const RooflinePoint& p : shown_) most = std::max(most, p.flops_per_byte());
    return 2 * most;
  }
  double least_rate() const {
    double least = report_.read();
    for (const RooflinePoint& p : shown_) least = std::min(least, p.flops_per_second());
    return least / 3;
  }
  double most_rate() const {
    double most = 0;
    for (const Rate& rate : kRates)
      if (const core::Ceiling* c = fastest(rate)) most = std::max(most, c->value);
    return 2 * most;
  }
  const core::Ceiling* fastest(const Rate& rate) const {
    const core::Ceiling* best = nullptr;
    for (const char* name : rate.ceilings)
      if (const core::Ceiling* c = core::find_ceiling(report_.ceilings, name); c && (!best || c->value > best->value))
        best = c;
    return best;
  }

  void draw_grid() {
    static constexpr std::pair<double, const char*> kPrefixes[] = {{15, "P"}, {12, "T"}, {9, "G"}, {6, "M"}, {3, "k"}};
    for (const int decade : x_.decades()) {
      const double x = x_.at(std::pow(10, decade));
      page_.line(x, kTop, x, kHeight - kBottom, kFaint, 1);
      page_.text(x, kHeight - kBottom + 20, fmt::format("{:g}", std::pow(10, decade)), 12, kMuted, "middle");
    }
    for (const int decade : y_.decades()) {
      const double y = y_.at(std::pow(10, decade));
      page_.line(kLeft, y, kWidth - kRight, y, kFaint, 1);
      std::string label = fmt::format("{:g}", std::pow(10, decade));
      for (const auto& [power, prefix] : kPrefixes)
        if (decade >= power) {
          label = fmt::format("{:g} {}", std::pow(10, decade - power), prefix);
          break;
        }
      page_.text(kLeft - 8, y + 4, label, 12, kMuted, "end");
    }
    page_.text((kLeft + kWidth - kRight) / 2, kHeight - 24, "operations per byte", 13, kInk, "middle");
    page_.upward_text(24, (kTop + kHeight - kBottom) / 2, "operations per second", 13, kInk);
  }

  // From the left or lower edge up to `to_rate`; the label is near the top, where few points are.
  void diagonal(double bandwidth, double to_rate, const char* color, double width, const char* dashes,
                const std::string& label) {
    double intensity = std::pow(10, x_.low), rate = bandwidth * intensity;
    const double bottom = std::pow(10, y_.low);
    if (rate < bottom) rate = bottom, intensity = bottom / bandwidth;
    const double x1 = x_.at(intensity), y1 = y_.at(rate), x2 = x_.at(to_rate / bandwidth), y2 = y_.at(to_rate);
    page_.line(x1, y1, x2, y2, color, width, dashes);
    for (double along = 0; along < 1; along += 0.005)
      taken_.push_back(around(x1 + along * (x2 - x1), y1 + along * (y2 - y1), 2));
    if (label.empty()) return;
    const double angle = std::atan2(y2 - y1, x2 - x1) * 180 / std::acos(-1.0), at = 0.72;
    const double x = x1 + at * (x2 - x1), y = y1 + at * (y2 - y1);
    page_.add(fmt::format("<g transform=\"rotate({0:.2f} {1:.1f} {2:.1f}) translate(0 -8)\">", angle, x, y));
    page_.text(x, y, label, 13, color, "middle", "600");
    page_.add("</g>\n");
  }

  static Box around(double x, double y, double by) { return {x - by, y - by, x + by, y + by}; }

  static std::string in_units(double value, const char* unit) {
    const bool tera = value >= 1e12;
    const double shown = value / (tera ? 1e12 : 1e9);
    return fmt::format("{:.{}f} {}{}", shown, shown >= 100 ? 0 : shown >= 10 ? 1 : 2, tera ? "T" : "G", unit);
  }

  void draw_roofs() {
    const double peak = report_.peak(), read = report_.read(), right = kWidth - kRight;
    if (const core::Ceiling* l2 = core::find_ceiling(report_.ceilings, "l2_read"))
      diagonal(l2->value, peak, kMuted, 1, "2 4", "L2 read " + in_units(l2->value, "B/s"));
    if (const Datasheet* sheet = report_.datasheet) {
      const double bytes = sheet->memory_bytes_per_second, flops = std::max(sheet->tensor_f16_flops, peak);
      if (bytes > 0) diagonal(bytes, flops, kMuted, 1, "6 4", "");
      if (bytes > 0) page_.line(x_.at(flops / bytes), y_.at(flops), right, y_.at(flops), kMuted, 1, "6 4");
    }
    // Highest first; labels are spread.
    std::vector<std::pair<double, std::string>> rates;
    for (const Rate& rate : kRates)
      if (const core::Ceiling* c = fastest(rate))
        rates.emplace_back(c->value, fmt::format("{} {}", rate.title, in_units(c->value, "OP/s")));
    std::ranges::sort(rates, std::greater());
    double last_label = 0;
    for (const auto& [rate, label] : rates) {
      const bool main = rate == peak;
      const double y = y_.at(rate), label_y = std::max(y + 4, last_label + 15);
      if (main) taken_.push_back({x_.at(rate / read), y - 3, right, y + 3});
      page_.line(x_.at(rate / read), y, right, y, main ? kInk : "#cbd2d9", main ? 2.4 : 1);
      page_.text(right + 8, label_y, label, 12, main ? kInk : kMuted, "start", main ? "600" : "400");
      last_label = label_y;
    }
    diagonal(read, peak, kInk, 2.4, "", "memory read " + in_units(read, "B/s"));
  }

  // "Q4_K", "depth 8192", or the name; for the model also its share of the roof.
  std::string label_of(const RooflinePoint& p) const {
    if (p.group == "attention") return p.name.substr(p.name.rfind("depth"));
    if (p.group == "model") return fmt::format("{}: {:.0f} %", p.name, 100 * roof_share(p));
    return p.format;
  }

  void draw_points() {
    std::vector<std::function<void()>> points; // drawn above labels
    for (const RooflinePoint& p : shown_) {
      const double x = x_.at(p.flops_per_byte()), y = y_.at(p.flops_per_second());
      const bool whole = p.group == "model";
      const auto group = std::ranges::find(kGroups, p.group, &Group::key);
      taken_.push_back(around(x, y, whole ? 7 : 4));
      points.push_back([=, this, &p] {
        page_.circle(x, y, whole ? 6.5 : 4, group->color,
                     fmt::format("{}: {:.0f} GB/s, {:.2f} TFLOP/s, {:.0f} % of its roof, bound by {}", p.name,
                                 p.bytes_per_second() / 1e9, p.flops_per_second() / 1e12, 100 * roof_share(p),
                                 report_.bound_by(p)));
      });
      if (whole) {
        const double roof = y_.at(p.flops / report_.floor_seconds(p));
        page_.add(fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
                              "stroke-width=\"1.2\" stroke-opacity=\"0.6\"/>\n",
                              x, y, roof, group->color));
        taken_.push_back({x - 2, roof, x + 2, y});
      }
    }
    // Priority if space is short.
    for (const char* first : {"model", "attention", "Q4_K", "Q8_0", "Q6_K", "IQ3_S", "Q2_K", "MXFP4", ""})
      for (const RooflinePoint& p : shown_)
        if (p.group == first || p.format == first || !*first) draw_label(p);
    for (const auto& draw : points) draw();
  }

  // Beside the point, if there is room. The model's label may also be further away, with a line.
  void draw_label(const RooflinePoint& p) {
    const bool whole = p.group == "model";
    const double x = x_.at(p.flops_per_byte()), y = y_.at(p.flops_per_second());
    const std::string label = label_of(p);
    if (!labelled_.insert(p.group + p.name).second) return;
    const double size = whole ? 13 : 10.5, width = 0.6 * size * static_cast<double>(label.size()), half = size / 2;
    const auto group = std::ranges::find(kGroups, p.group, &Group::key);
    for (const double distance : {9.0, 14.0, 26.0, 40.0, 56.0, 75.0, 95.0}) {
      if (!whole && distance > (p.group == "product" ? 20 : 30)) return;
      for (const double degrees : {0, 180, -30, 30, 150, 210, -60, 60, 120, 240, 90, 270}) {
        const double angle = degrees * std::acos(-1.0) / 180;
        const double end_x = x + distance * std::cos(angle), middle_y = y + distance * std::sin(angle);
        const bool leftwards = std::cos(angle) < -0.1;
        const double left = leftwards ? end_x - width : end_x;
        const Box box{left - 2, middle_y - half, left + width + 2, middle_y + half};
        const bool inside =
            box.left > kLeft && box.right < kWidth - kRight && box.bottom < kHeight - kBottom && box.top > kTop;
        if (!inside || std::ranges::any_of(taken_, [&](const Box& other) { return box.meets(other); })) continue;
        taken_.push_back(box);
        if (distance > 20)
          page_.line(x, y, end_x + (leftwards ? 2 : -2), middle_y, whole ? group->color : "#cbd2d9", 0.8);
        page_.text(end_x, middle_y + 0.36 * size, label, size, whole ? kInk : group->color, leftwards ? "end" : "start",
                   whole ? "600" : "400");
        return;
      }
    }
  }

  void draw_legend() {
    double y = kHeight - kBottom - 20.0 * static_cast<double>(std::size(kGroups)) - 26;
    for (const Group& group : kGroups) {
      if (std::ranges::find(shown_, group.key, &RooflinePoint::group) == shown_.end()) continue;
      page_.circle(kWidth - kRight + 16, y - 4, 5, group.color);
      page_.text(kWidth - kRight + 28, y, group.title, 12, kInk);
      y += 20;
    }
    page_.text(kWidth - kRight + 8, y + 4, "%: share of the roof above", 11, kMuted);
    if (report_.datasheet) page_.text(kWidth - kRight + 8, y + 20, "dashed: datasheet", 11, kMuted);
  }

  const RooflineReport& report_;
  const std::vector<RooflinePoint> shown_;
  const Axis x_, y_;
  SvgPage page_{kWidth, kHeight};
  std::vector<Box> taken_;
  std::set<std::string> labelled_;
};

} // namespace

std::string roofline_svg(const RooflineReport& report) { return Picture(report).draw(); }

} // namespace ridge::measure
