#include "app/report/frontier_report.h"

#include "app/report/table.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "engine/loading/machine.h"
#include "measure/drawing/svg.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ridge::app {
namespace {

using convert::Frontier;
using convert::FrontierPoint;
using Json = nlohmann::ordered_json;

constexpr double kWidth = 1080, kHeight = 640;
constexpr double kLeft = 84, kRight = 40, kTop = 84, kBottom = 70;
constexpr const char* kRecipeColor = "#2680c2";
constexpr const char* kMixColor = "#e67e00";

std::string name_of(const FrontierPoint& point) { return point.name.empty() ? "mix" : point.name; }

class Picture {
 public:
  Picture(const Frontier& frontier, const std::string& title)
      : frontier_(frontier), title_(title), least_(static_cast<double>(frontier.points.front().bytes)),
        most_(static_cast<double>(frontier.points.back().bytes)),
        y_(extreme(false) / 1.5, extreme(true) * 1.5, kHeight - kBottom, kTop) {}

  std::string draw() {
    page_.text(kLeft, 36, fmt::format("Cost of quantizing {}", title_), 20, measure::kInk, "start", "600");
    page_.text(
        kLeft, 60,
        fmt::format("Kullback-Leibler divergence from the original model, over {} tokens", frontier_.scored_tokens),
        13.5, measure::kMuted);
    draw_grid();
    draw_mixes();
    for (const FrontierPoint& point : frontier_.points) taken_.push_back(around(point));
    for (const FrontierPoint& point : frontier_.points)
      if (!point.name.empty()) draw_recipe(point);
    page_.circle(kWidth - 250, 56, 5, kRecipeColor);
    page_.text(kWidth - 238, 60, "recipes", 12, measure::kInk);
    page_.circle(kWidth - 170, 56, 4, kMixColor);
    page_.text(kWidth - 158, 60, "mixes of this model", 12, measure::kInk);
    return page_.finish(fmt::format("ridge {} ({})", RIDGE_VERSION, engine::kCommit));
  }

 private:
  double extreme(bool largest) const {
    double found = 0;
    for (const FrontierPoint& point : frontier_.points) {
      const double value = std::max(point.divergence.value, 1e-9);
      found = found == 0 ? value : largest ? std::max(found, value) : std::min(found, value);
    }
    return found;
  }
  double x(double bytes) const {
    return kLeft + 20 + (bytes - least_) / std::max(1.0, most_ - least_) * (kWidth - kLeft - kRight - 110);
  }
  double y(const FrontierPoint& point) const { return y_.at(std::max(point.divergence.value, 1e-9)); }

  void draw_grid() {
    for (const int decade : y_.decades())
      for (const int step : {1, 2, 5}) {
        const double value = step * std::pow(10, decade);
        if (std::log10(value) > y_.high) continue;
        page_.line(kLeft, y_.at(value), kWidth - kRight, y_.at(value), measure::kFaint, step == 1 ? 1.5 : 0.7);
        page_.text(kLeft - 8, y_.at(value) + 4, fmt::format("{:g}", value), 12, measure::kMuted, "end");
      }
    const double step = std::pow(10, std::floor(std::log10(std::max(1.0, most_ - least_) / 2)));
    for (double bytes = std::ceil(least_ / step) * step; bytes <= most_; bytes += step) {
      page_.line(x(bytes), kTop, x(bytes), kHeight - kBottom, measure::kFaint, 0.7);
      page_.text(x(bytes), kHeight - kBottom + 20, core::human_bytes(bytes), 12, measure::kMuted, "middle");
    }
    page_.text((kLeft + kWidth - kRight) / 2, kHeight - 22, "file size", 13, measure::kInk, "middle");
    page_.upward_text(24, (kTop + kHeight - kBottom) / 2, "divergence, nats per token", 13, measure::kInk);
  }

  void draw_mixes() {
    const FrontierPoint* before = nullptr;
    for (const FrontierPoint& point : frontier_.points) {
      if (!point.name.empty()) continue;
      const double at = x(static_cast<double>(point.bytes));
      if (before) page_.line(x(static_cast<double>(before->bytes)), y(*before), at, y(point), kMixColor, 1.2);
      page_.circle(at, y(point), 4, kMixColor, description(point));
      before = &point;
    }
  }

  void draw_recipe(const FrontierPoint& point) {
    const double at = x(static_cast<double>(point.bytes));
    page_.circle(at, y(point), 5, kRecipeColor, description(point));
    draw_label(at, y(point), point.name);
  }

  struct Box {
    double left, top, right, bottom;
    bool meets(const Box& b) const { return left < b.right && b.left < right && top < b.bottom && b.top < bottom; }
  };

  Box around(const FrontierPoint& point) const {
    constexpr double kRadius = 5;
    const double at = x(static_cast<double>(point.bytes));
    return {at - kRadius, y(point) - kRadius, at + kRadius, y(point) + kRadius};
  }

  // Draws it beside its point, or above or below with a line.
  void draw_label(double at, double height, const std::string& name) {
    constexpr double kSize = 11, kLetter = 6.9, kAway = 9, kStep = 13;
    const double width = kLetter * static_cast<double>(name.size());
    for (int step = 0;; ++step)
      for (const double offset : {-5 - kStep * step, kSize + 1 + kStep * step})
        for (const bool left : {false, true}) {
          const double from = left ? at - kAway - width : at + kAway, base = height + offset;
          const Box box = {from, base - kSize + 1, from + width, base + 2};
          const bool on_page =
              box.left > kLeft && box.right < kWidth && box.top > kTop - 10 && box.bottom < kHeight - kBottom;
          const bool free = on_page && std::ranges::none_of(taken_, [&](const Box& b) { return box.meets(b); });
          if (!free && step < kMaxSteps) continue;
          if (step > 0) page_.line(at, height, left ? box.right : box.left, base - 4, kRecipeColor, 0.6);
          page_.text(left ? box.right : box.left, base, name, kSize, kRecipeColor, left ? "end" : "start");
          taken_.push_back(box);
          return;
        }
  }

  static std::string description(const FrontierPoint& point) {
    return fmt::format("{}: {}, {:.2f} bits per weight, {:.3g} nats per token", name_of(point),
                       core::human_bytes(static_cast<double>(point.bytes)), point.bits_per_weight,
                       point.divergence.value);
  }

  const Frontier& frontier_;
  const std::string title_;
  static constexpr int kMaxSteps = 30; // then labels may overlap

  const double least_, most_;
  std::vector<Box> taken_;
  const measure::Axis y_;
  measure::SvgPage page_{kWidth, kHeight};
};

} // namespace

void print_frontier(const Frontier& frontier) {
  const bool calibrated = std::ranges::any_of(frontier.points, [](const auto& p) { return p.plain.has_value(); });
  std::vector<std::vector<std::string>> rows;
  for (const FrontierPoint& p : frontier.points) {
    rows.push_back({p.best ? "*" : "", name_of(p), core::human_bytes(static_cast<double>(p.bytes)),
                    fmt::format("{:.3f}", p.bits_per_weight), fmt::format("{:.6f}", p.divergence.value),
                    fmt::format("{:.6f}", p.divergence.error),
                    p.name.empty() ? fmt::format("{:.6f}", p.expected) : ""});
    if (calibrated) rows.back().push_back(fmt::format("{:.6f}", *p.plain));
  }
  std::vector<TableColumn> columns = {{""},
                                      {"types"},
                                      {"size", true},
                                      {"bpw", true, false, 2},
                                      {"nats/token", true},
                                      {"±", true, false, 3},
                                      {"expected", true, false, 1}};
  if (calibrated) columns.push_back({"plain", true, false, 2});
  print_table(columns, rows);
  fmt::print("\n* no other variant is both as small and as close to the original. {} tokens were scored.\nUse "
             "--target-size, --target-bpw or --target-divergence to write a mix.\n",
             frontier.scored_tokens);
}

Json frontier_json(const Frontier& frontier) {
  Json points = Json::array(), tensors = Json::array();
  for (const FrontierPoint& p : frontier.points) {
    Json point = {{"recipe", p.name.empty() ? Json(nullptr) : Json(p.name)},
                  {"file_bytes", p.bytes},
                  {"bits_per_weight", p.bits_per_weight},
                  {"divergence_nats", p.divergence.value},
                  {"divergence_standard_error_nats", p.divergence.error},
                  {"best", p.best}};
    if (p.name.empty()) point["expected_divergence_nats"] = p.expected;
    if (p.plain) point["plain_divergence_nats"] = *p.plain;
    points.push_back(std::move(point));
  }
  for (const convert::TensorCosts& t : frontier.tensors) {
    Json choices = Json::array();
    for (const auto& c : t.choices)
      choices.push_back({{"type", c.type}, {"bytes", c.bytes}, {"divergence_nats", c.divergence}});
    tensors.push_back({{"name", core::printable(t.name)}, {"choices", std::move(choices)}});
  }
  return {{"scored_tokens", frontier.scored_tokens}, {"points", std::move(points)}, {"tensors", std::move(tensors)}};
}

std::string frontier_svg(const Frontier& frontier, const std::string& title) { return Picture(frontier, title).draw(); }

} // namespace ridge::app
