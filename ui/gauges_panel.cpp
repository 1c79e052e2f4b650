// How fast it is, against what this machine could do.
#include "ui/panel.h"
#include "ui/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::ui {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kDialStart = 0.75f * kPi, kDialSweep = 1.5f * kPi; // a quarter open at the bottom
constexpr int kDialTicks = 5;
constexpr double kDialRoom = 1.25; // the dial ends this far above the roof

// The least of 1, 2, 2.5, 5 times a power of ten that is not below x.
double nice_above(double x) {
  if (!(x > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(x)));
  for (const double step : {1.0, 2.0, 2.5, 5.0})
    if (step * power >= x * 0.9999) return step * power;
  return 10 * power;
}

void big_number(const std::string& number, const std::string& unit) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = size_of(number, fonts().numeral).x;
  text_at(at, number, theme().text, fonts().numeral);
  text_at({at.x + width + px(8), at.y + fonts().numeral->FontSize - fonts().body->FontSize - px(5)}, unit, theme().dim,
          fonts().body);
  ImGui::Dummy({width + px(60), fonts().numeral->FontSize});
}

void draw_dial(const core::Speed& speed, ImVec2 size) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float radius = std::min(size.x / 2 - px(34), size.y * 0.53f - px(18)), thick = px(14);
  const ImVec2 center{at.x + size.x / 2, at.y + size.y * 0.53f};
  const double roof = speed.roof_bytes_per_s / 1e9, value = speed.bytes_per_s / 1e9;
  const double end = nice_above(std::max(roof * kDialRoom, value));
  const auto angle = [&](double x) {
    return kDialStart + kDialSweep * static_cast<float>(std::clamp(x / end, 0.0, 1.0));
  };
  const auto on = [&](float a, float r) { return ImVec2(center.x + std::cos(a) * r, center.y + std::sin(a) * r); };
  const auto arc = [&](double from, double to, ImU32 color, float width) {
    draw->PathArcTo(center, radius, angle(from), angle(to), 96);
    draw->PathStroke(color, 0, width);
  };
  arc(0, end, t.raised, thick);
  arc(roof, end, mix(t.raised, t.red, 0.3f), thick);
  if (value > 0) arc(0, value, t.accent, thick);
  for (int i = 0; i <= kDialTicks; ++i) {
    const double x = end * i / kDialTicks;
    draw->AddLine(on(angle(x), radius - thick), on(angle(x), radius - thick - px(5)), t.dim, px(1.5f));
    const ImVec2 label = on(angle(x), radius - thick - px(20));
    text_at({label.x, label.y - fonts().small->FontSize / 2}, fmt::format("{:g}", x), t.dim, fonts().small, 0.5f);
  }
  draw->AddLine(on(angle(roof), radius - thick), on(angle(roof), radius + thick), t.red, px(3));
  const ImVec2 label = on(angle(roof), radius + px(16));
  text_at({label.x + px(2), label.y - px(14)}, "roof", t.red, fonts().small, std::cos(angle(roof)) < 0 ? 1.0f : 0.0f);

  const float big = fonts().numeral->FontSize;
  text_at({center.x, center.y - big * 0.62f}, value > 0 ? fmt::format("{:.{}f}", value, value < 100 ? 1 : 0) : "–",
          t.text, fonts().numeral, 0.5f);
  text_at({center.x, center.y + big * 0.42f}, "GB/s", t.dim, fonts().body, 0.5f);
  const float foot = at.y + size.y - px(44);
  if (value > 0)
    text_at({center.x, foot}, fmt::format("{:.0f} % of the roof", 100 * value / roof), t.text, fonts().bold, 0.5f);
  else
    text_at({center.x, foot}, "ask something in the chat", t.dim, fonts().body, 0.5f);
  text_at({center.x, foot + px(22)}, fmt::format("measured: {:.1f} GB/s of memory reads", roof), t.dim, fonts().small,
          0.5f);
  ImGui::Dummy(size);
}

void draw_history(const std::vector<core::Speed::Sample>& history, ImVec2 size) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float left = px(44), bottom = px(22);
  const ImVec2 area{size.x - left, size.y - bottom};
  double top = 0;
  for (const auto& sample : history) top = std::max(top, sample.tokens_per_s);
  top = nice_above(top * 1.05);
  for (int i = 0; i <= 4; ++i) {
    const float y = at.y + area.y * (1 - static_cast<float>(i) / 4);
    draw->AddLine({at.x + left, y}, {at.x + size.x, y}, t.border, 1);
    if (!history.empty())
      text_at({at.x + left - px(8), y - fonts().small->FontSize / 2}, fmt::format("{:g}", top * i / 4), t.dim,
              fonts().small, 1);
  }
  if (history.size() < 2) {
    text_at({at.x + left + area.x / 2, at.y + area.y / 2 - px(24)}, "the speed of coming answers", t.dim, fonts().small,
            0.5f);
    ImGui::Dummy(size);
    return;
  }
  const double begin = history.front().seconds, span = std::max(1e-9, history.back().seconds - begin);
  const auto place = [&](const core::Speed::Sample& s) {
    return ImVec2(at.x + left + static_cast<float>((s.seconds - begin) / span) * area.x,
                  at.y + area.y * (1 - static_cast<float>(s.tokens_per_s / top)));
  };
  std::vector<ImVec2> line;
  for (const auto& sample : history) line.push_back(place(sample));
  for (size_t i = 1; i < line.size(); ++i)
    draw->AddQuadFilled(line[i - 1], line[i], {line[i].x, at.y + area.y}, {line[i - 1].x, at.y + area.y},
                        with_alpha(t.accent, 0.15f));
  draw->AddPolyline(line.data(), static_cast<int>(line.size()), t.accent, 0, px(2));
  draw->AddCircleFilled(line.back(), px(4), t.accent);
  text_at({at.x + left, at.y + area.y + px(6)}, fmt::format("{:.1f} s", begin), t.dim, fonts().small);
  text_at({at.x + size.x, at.y + area.y + px(6)}, fmt::format("{:.1f} s of writing", history.back().seconds), t.dim,
          fonts().small, 1);
  ImGui::Dummy(size);
}

// What the next token moves, op kind beside op kind.
void draw_step(const std::vector<core::StepShare>& step) {
  const Theme& t = theme();
  struct Part {
    std::string name;
    double bytes;
  };
  std::vector<Part> parts;
  double total = 0, kv = 0;
  for (const auto& share : step) {
    kv += share.kv_bytes;
    parts.push_back({share.kind, share.weight_bytes + share.activation_bytes});
    total += share.weight_bytes + share.activation_bytes + share.kv_bytes;
  }
  parts.push_back({"KV cache", kv});
  std::ranges::sort(parts, std::greater{}, &Part::bytes);
  constexpr size_t kNamed = 6;
  if (parts.size() > kNamed) {
    for (size_t i = kNamed; i < parts.size(); ++i) parts[kNamed - 1].bytes += parts[i].bytes;
    parts[kNamed - 1].name = "other";
    parts.resize(kNamed);
  }
  dim_text(fmt::format("Bytes that the next token moves: {}", bytes_text(total)));
  ImGui::Dummy({0, px(2)});
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = px(26);
  float x = at.x;
  draw->PushClipRect(at, {at.x + width, at.y + height}, true);
  for (size_t i = 0; i < parts.size(); ++i) {
    const float part = total > 0 ? static_cast<float>(parts[i].bytes / total) * width : 0;
    draw->AddRectFilled({x, at.y}, {x + std::max(1.0f, part - px(1)), at.y + height}, t.series[i]);
    x += part;
  }
  draw->PopClipRect();
  ImGui::Dummy({width, height + px(6)});
  for (size_t i = 0; i < parts.size(); ++i) {
    const ImVec2 key = ImGui::GetCursorScreenPos();
    draw->AddRectFilled({key.x, key.y + px(3)}, {key.x + px(11), key.y + px(14)}, t.series[i], px(3));
    ImGui::Dummy({px(17), 0});
    ImGui::SameLine(0, 0);
    text(fmt::format("{} {} ({:.{}f} %)", parts[i].name, bytes_text(parts[i].bytes), 100 * parts[i].bytes / total,
                     parts[i].bytes < 0.01 * total ? 2 : 0),
         t.text, fonts().small);
    if (i + 1 < parts.size()) ImGui::SameLine(0, px(18));
  }
}

class GaugesPanel : public Panel {
 public:
  void draw(const View& view) override {
    const core::Snapshot& now = view.now;
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float gap = px(12), step = px(112), small = px(118);
    const float top = area.y - step - small - 2 * gap, dial = std::clamp(area.x * 0.36f, px(300), px(420));
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));

    begin_card("dial", {dial, top}, "Effective bandwidth");
    draw_dial(now.speed, ImGui::GetContentRegionAvail());
    end_card();
    ImGui::SameLine();
    begin_card("speed", {0, top}, "Generation");
    big_number(now.speed.tokens_per_s > 0 ? fmt::format("{:.1f}", now.speed.tokens_per_s) : "–", "tok/s");
    ImGui::Dummy({0, px(4)});
    draw_history(now.speed.history, ImGui::GetContentRegionAvail());
    end_card();

    const float third = (area.x - 2 * gap) / 3;
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, px(6)));
    begin_card("prompt", {third, small}, "Prompt");
    big_number(now.speed.prompt_tokens_per_s > 0 ? fmt::format("{:.0f}", now.speed.prompt_tokens_per_s) : "–", "tok/s");
    dim_text(fmt::format("{} tokens read · {} written", now.speed.prompt_tokens, now.speed.answer_tokens));
    end_card();
    ImGui::SameLine(0, gap);
    begin_card("kv", {third, small}, "KV cache");
    big_number(fmt::format("{}", now.kv.tokens), fmt::format("of {} tokens", now.kv.context));
    bar(static_cast<float>(now.kv.tokens) / static_cast<float>(std::max<int64_t>(1, now.kv.context)), {0, px(6)},
        theme().accent);
    end_card();
    ImGui::SameLine(0, gap);
    begin_card("memory", {0, small}, "Memory");
    big_number(bytes_text(static_cast<double>(now.model->bytes) + now.engine_bytes), "");
    dim_text(fmt::format("model {} · KV cache {} · scratch {}", bytes_text(static_cast<double>(now.model->bytes)),
                         bytes_text(now.kv.capacity_bytes),
                         bytes_text(std::max(0.0, now.engine_bytes - now.kv.capacity_bytes))));
    end_card();
    ImGui::Dummy({0, gap - 2 * px(6)});
    begin_card("step", {0, step});
    draw_step(now.step);
    end_card();
    ImGui::PopStyleVar(2);
  }
};

} // namespace

std::unique_ptr<Panel> make_gauges_panel() { return std::make_unique<GaugesPanel>(); }

} // namespace ridge::ui
