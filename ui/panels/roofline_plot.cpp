#include "ui/panels/roofline_plot.h"

#include "core/units.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace ridge::ui {
namespace {

using api::StepRoofline;
using Op = RooflineOp;

struct LogAxis {
  double low, high;
  float from, to;
  float at(double value) const {
    return from + static_cast<float>((std::log10(value) - low) / (high - low)) * (to - from);
  }
};

std::string rate_text(double rate, const char* unit) {
  for (const auto& [factor, prefix] : {std::pair(1e12, "T"), std::pair(1e9, "G"), std::pair(1e6, "M")})
    if (rate >= factor) return fmt::format("{:.3g} {}{}", rate / factor, prefix, unit);
  return fmt::format("{:.3g} {}", rate, unit);
}

} // namespace

ImU32 color_of(const Op& op) {
  switch (op.op_class) {
  case core::OpClass::matrix: return theme().accent;
  case core::OpClass::attention: return theme().amber;
  default: return theme().green;
  }
}

Op sum_of(const StepRoofline& step) {
  Op sum{"whole step", "", {}, fmt::format("{} ops", step.ops.size()), 1};
  for (const Op& op : step.ops) {
    sum.bytes += op.bytes;
    sum.flops += op.flops;
    sum.floor_seconds += op.floor_seconds;
    sum.seconds += op.seconds;
  }
  if (step.seconds > 0) sum.seconds = step.seconds;
  return sum;
}

std::string description_of(const Op& op) {
  const auto each = static_cast<double>(std::max<int64_t>(1, op.count));
  std::string text = fmt::format(
      "{}{}\n{}\n{} · {} · {:.3g} operations per byte\n", op.name, op.count > 1 ? fmt::format(" (× {})", op.count) : "",
      op.shape, core::human_bytes(op.bytes / each), rate_text(op.flops / each, "FLOP"), op.flops / op.bytes);
  if (op.seconds > 0)
    text += fmt::format("measured: {} · {} · {}\n", seconds_text(op.seconds / each),
                        rate_text(op.bytes / op.seconds, "B/s"), rate_text(op.flops / op.seconds, "FLOP/s"));
  if (op.floor_seconds > 0)
    text +=
        fmt::format("minimum by roof: {} · {} · {}\n", seconds_text(op.floor_seconds / each),
                    rate_text(op.bytes / op.floor_seconds, "B/s"), rate_text(op.flops / op.floor_seconds, "FLOP/s"));
  if (op.seconds > 0 && op.floor_seconds > 0)
    text += fmt::format("{:.0f} % of the roof\n", 100 * op.floor_seconds / op.seconds);
  if (!op.bound_by.empty()) text += fmt::format("bound by {}", op.bound_by);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

namespace {

struct Box {
  float left, top, right, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};
struct Point {
  ImVec2 at;
  Op op;
  bool measured, whole;
};

ImU32 color(const Point& p) { return p.whole ? theme().text : color_of(p.op); }

void draw_point(const Point& p, bool marked) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float radius = px(p.whole ? 7.0f : 5.0f) * (marked ? 1.4f : 1.0f);
  if (p.whole) {
    const ImVec2 corners[] = {
        {p.at.x, p.at.y - radius}, {p.at.x + radius, p.at.y}, {p.at.x, p.at.y + radius}, {p.at.x - radius, p.at.y}};
    if (p.measured)
      draw->AddConvexPolyFilled(corners, 4, color(p));
    else
      draw->AddPolyline(corners, 4, color(p), ImDrawFlags_Closed, px(1.8f));
  } else if (p.measured) {
    draw->AddCircleFilled(p.at, radius, color(p));
  } else {
    draw->AddCircle(p.at, radius, color(p), 0, px(1.8f));
  }
}

void draw_grid(const LogAxis& x, const LogAxis& y) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (double decade = std::ceil(x.low); decade <= x.high; ++decade) {
    const float at = x.at(std::pow(10, decade));
    draw->AddLine({at, y.to}, {at, y.from}, t.raised, 1);
    text_at({at, y.from + px(6)}, fmt::format("{:g}", std::pow(10, decade)), t.dim, fonts().small, 0.5f);
  }
  for (double decade = std::ceil(y.low); decade <= y.high; ++decade) {
    const float at = y.at(std::pow(10, decade));
    draw->AddLine({x.from, at}, {x.to, at}, t.raised, 1);
    static constexpr std::pair<double, const char*> kPrefixes[] = {{15, "P"}, {12, "T"}, {9, "G"}, {6, "M"}, {0, ""}};
    for (const auto& [power, prefix] : kPrefixes)
      if (decade >= power) {
        text_at({x.from - px(8), at - fonts().small->FontSize / 2},
                fmt::format("{:g} {}", std::pow(10, decade - power), prefix), t.dim, fonts().small, 1);
        break;
      }
  }
  draw->AddLine({x.from, y.to}, {x.from, y.from}, t.border, 1);
  draw->AddLine({x.from, y.from}, {x.to, y.from}, t.border, 1);
  text_at({(x.from + x.to) / 2, y.from + px(22)}, "operations per byte", t.dim, fonts().small, 0.5f);
  text_at({x.from + px(8), y.to + px(4)}, "FLOP/s", t.dim, fonts().small);
}

// Returns the labels' boxes.
std::vector<Box> draw_roofs(const api::Roofs& roofs, const LogAxis& x, const LogAxis& y) {
  std::vector<Box> taken;
  const auto label = [&](ImVec2 at, const std::string& what, ImU32 color, float align) {
    const ImVec2 size = size_of(what, fonts().small);
    text_at(at, what, color, fonts().small, align);
    taken.push_back({at.x - align * size.x, at.y, at.x + (1 - align) * size.x, at.y + size.y});
    record_widget_position(what, {taken.back().left, at.y}, {taken.back().right, at.y + size.y});
  };
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const auto diagonal = [&](double bandwidth, ImU32 color, float width) {
    const double first = std::pow(10, x.low);
    draw->AddLine({x.at(first), y.at(first * bandwidth)},
                  {x.at(roofs.peak_ops_per_s / bandwidth), y.at(roofs.peak_ops_per_s)}, color, width);
  };
  diagonal(roofs.read_bytes_per_s, t.red, px(2.5f));
  float last = -INFINITY;
  std::vector<const core::Ceiling*> rates;
  for (const core::Ceiling& c : roofs.ceilings)
    if (c.unit == core::Ceiling::Unit::operations_per_second) rates.push_back(&c);
  std::ranges::sort(rates, std::greater(), &core::Ceiling::value);
  for (const core::Ceiling* c : rates) {
    const bool main = c->name == roofs.peak_name;
    const float height = y.at(c->value), start = x.at(c->value / roofs.read_bytes_per_s);
    draw->AddLine({start, height}, {x.to, height}, main ? t.red : t.border, px(main ? 2.5f : 1));
    const float text_y = std::max(height - px(18), last + px(15));
    if (main || text_y < height) {
      label({x.to - px(4), text_y}, fmt::format("{} {}", c->name, rate_text(c->value, "OP/s")), main ? t.text : t.dim,
            1);
      last = text_y;
    }
  }
  for (const core::Ceiling& c : roofs.ceilings)
    if (c.unit == core::Ceiling::Unit::bytes_per_second && c.name.ends_with("_read") && c.name != "dram_read" &&
        c.value > roofs.read_bytes_per_s * 1.3) {
      diagonal(c.value, t.border, px(1));
      // Labelled where it meets the highest roof.
      const float at = x.at(roofs.peak_ops_per_s / c.value);
      std::string name = c.name.substr(0, c.name.find('_'));
      name[0] = static_cast<char>(std::toupper(name[0]));
      ImVec2 free{at - px(4), y.at(roofs.peak_ops_per_s) - px(18)};
      const ImVec2 size = size_of(name, fonts().small);
      for (const Box& other : taken) // rate names are on the right
        if (other.meets({free.x - size.x, free.y, free.x + size.x, free.y + size.y})) free.x = other.left - size.x;
      label(free, name, t.dim, 0.5f);
    }
  const std::string memory = fmt::format("memory {}", rate_text(roofs.read_bytes_per_s, "B/s"));
  const ImVec2 size = size_of(memory, fonts().small);
  const auto place = [&](double at) { return ImVec2{x.at(at) + px(14), y.at(at * roofs.read_bytes_per_s) - px(4)}; };
  const auto has_room = [&](ImVec2 at) {
    const Box box{at.x, at.y - px(6), at.x + size.x + px(6), at.y + size.y + px(6)};
    return box.right < x.to && std::ranges::none_of(taken, [&](const Box& other) { return box.meets(other); });
  };
  double high = roofs.ridge_ops_per_byte * 0.4;
  while (high > std::pow(10, x.low) && !has_room(place(high))) high *= 0.8; // further down the line
  label(place(high), memory, t.text, 0);
  return taken;
}

// The memory roof, a rising line.
struct Line {
  ImVec2 from, to;
  float at(float x) const { return from.y + (x - from.x) * (to.y - from.y) / (to.x - from.x); }
  bool meets(const Box& box) const { return at(box.right) < box.bottom && at(box.left) > box.top; }
};

// Slowest ops first, where they fit, and beside the line if they can.
void draw_labels(const std::vector<Point>& points, const Box& frame, const Line& line, std::vector<Box> taken) {
  for (const Point& p : points) taken.push_back({p.at.x - px(6), p.at.y - px(6), p.at.x + px(6), p.at.y + px(6)});
  const bool measured = std::ranges::any_of(points, &Point::measured);
  std::vector<const Point*> order;
  for (const Point& p : points)
    if (p.measured == measured || p.whole) order.push_back(&p);
  std::ranges::stable_sort(order, std::greater(), [](const Point* p) {
    return p->whole ? INFINITY : std::max(p->op.seconds, p->op.floor_seconds);
  });
  for (const Point* p : order) {
    const std::string shown = p->whole ? p->measured ? "step" : "step, predicted" : p->op.name;
    const ImVec2 size = size_of(shown, fonts().small);
    const auto place = [&](bool beside_line) {
      for (const auto& [dx, dy] : {std::pair(px(10), -size.y / 2), std::pair(-px(10) - size.x, -size.y / 2),
                                   std::pair(px(8), px(5)), std::pair(px(8), -px(5) - size.y),
                                   std::pair(-px(8) - size.x, px(5)), std::pair(-px(8) - size.x, -px(5) - size.y)}) {
        const Box box{p->at.x + dx, p->at.y + dy, p->at.x + dx + size.x, p->at.y + dy + size.y};
        const bool inside =
            box.left > frame.left && box.right < frame.right && box.top > frame.top && box.bottom < frame.bottom;
        if (!inside || (beside_line && line.meets(box)) ||
            std::ranges::any_of(taken, [&](const Box& other) { return box.meets(other); }))
          continue;
        taken.push_back(box);
        text_at({box.left, box.top}, shown, p->whole ? theme().text : theme().dim, fonts().small);
        return true;
      }
      return false;
    };
    if (!place(true)) place(false);
  }
}

void draw_legend(const api::Snapshot& now, ImVec2 at) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float middle = at.y + fonts().small->FontSize / 2;
  const auto label = [&](const std::string& what) {
    text_at({at.x + px(12), at.y}, what, t.dim, fonts().small);
    at.x += px(12) + size_of(what, fonts().small).x + px(18);
  };
  for (const auto& [color, name] :
       {std::pair(t.accent, "matrices"), std::pair(t.amber, "attention"), std::pair(t.green, "others")}) {
    draw->AddCircleFilled({at.x + px(4), middle}, px(4), color);
    label(name);
  }
  draw->AddCircleFilled({at.x + px(4), middle}, px(4), t.dim);
  label(now.measured ? fmt::format("measured at {} tokens", now.measured->past) : "measured");
  draw->AddCircle({at.x + px(4), middle}, px(4), t.dim, 0, px(1.8f));
  label("predicted");
}

void hover(const std::vector<Point>& points) {
  if (!ImGui::IsWindowHovered()) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point* nearest = nullptr;
  float best = px(14) * px(14);
  for (const Point& p : points) {
    const float dx = p.at.x - mouse.x, dy = p.at.y - mouse.y;
    if (dx * dx + dy * dy > best) continue;
    best = dx * dx + dy * dy;
    nearest = &p;
  }
  if (nearest) show_tooltip((nearest->measured ? "" : "predicted: ") + description_of(nearest->op));
}

} // namespace

void draw_roofline_plot(const api::Snapshot& now, const std::string& marked) {
  const api::Roofs& roofs = *now.roofs;
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  text_at(at, fmt::format("Roofline of {}", roofs.device), t.dim, fonts().small);

  // Fixed range, so that only points move.
  const double highest = [&] {
    double most = roofs.peak_ops_per_s;
    for (const core::Ceiling& c : roofs.ceilings)
      if (c.unit == core::Ceiling::Unit::operations_per_second) most = std::max(most, c.value);
    return most;
  }();
  const float left = at.x + px(62), right = at.x + size.x - px(10), top = at.y + px(34),
              bottom = at.y + size.y - px(74);
  const LogAxis x{std::log10(0.05), std::log10(roofs.ridge_ops_per_byte * 6), left, right};
  const LogAxis y{std::log10(roofs.read_bytes_per_s * 0.02), std::log10(highest * 3), bottom, top};
  draw_grid(x, y);
  draw->PushClipRect({left, top}, {right, bottom}, true);
  std::vector<Box> taken = draw_roofs(roofs, x, y);
  std::vector<Point> points;
  const auto add = [&](const Op& op, double seconds, bool measured, bool whole) {
    if (op.flops <= 0 || seconds <= 0) return;
    const double rate = op.flops / seconds;
    points.push_back({{std::clamp(x.at(op.flops / op.bytes), left + px(5), right - px(5)),
                       std::clamp(y.at(rate), top + px(5), bottom - px(5))},
                      op,
                      measured,
                      whole});
  };
  if (now.predicted) {
    for (const Op& op : now.predicted->ops) add(op, op.floor_seconds, false, false);
    const Op sum = sum_of(*now.predicted);
    add(sum, sum.floor_seconds, false, true);
  }
  if (now.measured) {
    for (const Op& op : now.measured->ops) add(op, op.seconds, true, false);
    const Op sum = sum_of(*now.measured);
    add(sum, sum.seconds, true, true);
  }
  for (const Point& p : points) // gap to the roof
    if (p.measured && p.op.floor_seconds > 0)
      draw->AddLine(p.at, {p.at.x, y.at(p.op.flops / p.op.floor_seconds)}, with_alpha(color(p), 0.45f), px(1));
  for (const Point& p : points) draw_point(p, p.op.name == marked);
  const auto of_memory = [&](double intensity) {
    return ImVec2{x.at(intensity), y.at(intensity * roofs.read_bytes_per_s)};
  };
  const Line line{of_memory(std::pow(10, x.low)), of_memory(roofs.ridge_ops_per_byte)};
  draw_labels(points, {left, top, right, bottom}, line, std::move(taken));
  draw->PopClipRect();
  draw_legend(now, {at.x, bottom + px(46)});
  hover(points);
}

} // namespace ridge::ui
