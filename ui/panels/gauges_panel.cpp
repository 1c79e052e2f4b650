// Speed compared with the machine's limits.
#include "core/units.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::ui {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kDialStart = 0.75f * kPi, kDialSweep = 1.5f * kPi; // open at the bottom
constexpr int kDialTicks = 5;
constexpr double kDialRoom = 1.25; // relative to the roof
constexpr size_t kNamedParts = 7;

// 1, 2, 2.5 or 5 times a power of ten, at least x.
double nice_above(double x) {
  if (!(x > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(x)));
  for (const double step : {1.0, 2.0, 2.5, 5.0})
    if (step * power >= x * 0.9999) return step * power;
  return 10 * power;
}

std::string rate_text(double rate) {
  return rate > 0 ? fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0) : std::string("–");
}

void big_number(const std::string& number, const std::string& unit) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = size_of(number, fonts().numeral).x;
  text_at(at, number, theme().text, fonts().numeral);
  text_at({at.x + width + px(8), at.y + fonts().numeral->FontSize - fonts().body->FontSize - px(5)}, unit, theme().dim,
          fonts().body);
  ImGui::Dummy({width + px(60), fonts().numeral->FontSize});
}

void draw_dial(const api::Speed& speed, ImVec2 size) {
  const Theme& t = theme();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float foot = px(58), thick = px(14); // foot: for text below the dial
  const float radius = std::min(size.x / 2 - px(34), (size.y - foot - px(40)) / (1 + std::sin(kPi / 4)));
  const float spare = size.y - foot - px(40) - radius * (1 + std::sin(kPi / 4));
  const ImVec2 center{at.x + size.x / 2, at.y + px(26) + radius + spare / 2};
  const bool tera = speed.roof_bytes_per_s >= 1e12;
  const double unit = tera ? 1e12 : 1e9, roof = speed.roof_bytes_per_s / unit, value = speed.bytes_per_s / unit;
  const bool known = roof > 0; // measured later if unknown
  const double end = nice_above(std::max({roof * kDialRoom, value, known ? 0.0 : 1.5 * value, 1.0}));
  const auto angle = [&](double x) {
    return kDialStart + kDialSweep * static_cast<float>(std::clamp(x / end, 0.0, 1.0));
  };
  const auto on = [&](float a, float r) { return ImVec2(center.x + std::cos(a) * r, center.y + std::sin(a) * r); };
  const auto arc = [&](double from, double to, ImU32 color, float width) {
    draw->PathArcTo(center, radius, angle(from), angle(to), 96);
    draw->PathStroke(color, 0, width);
  };
  arc(0, end, t.raised, thick);
  if (known) arc(roof, end, mix(t.raised, t.red, 0.3f), thick);
  if (value > 0) arc(0, value, t.accent, thick);
  for (int i = 0; i <= kDialTicks; ++i) {
    const double x = end * i / kDialTicks;
    draw->AddLine(on(angle(x), radius - thick), on(angle(x), radius - thick - px(5)), t.dim, px(1.5f));
    const ImVec2 label = on(angle(x), radius - thick - px(20));
    text_at({label.x, label.y - fonts().small->FontSize / 2}, fmt::format("{:g}", x), t.dim, fonts().small, 0.5f);
  }
  if (known) {
    draw->AddLine(on(angle(roof), radius - thick), on(angle(roof), radius + thick), t.red, px(3));
    const ImVec2 label = on(angle(roof), radius + px(16));
    text_at({label.x + px(2), label.y - px(14)}, "roof", t.red, fonts().small, std::cos(angle(roof)) < 0 ? 1.0f : 0.0f);
  }

  const float big = fonts().numeral->FontSize;
  text_at({center.x, center.y - big * 0.62f},
          value > 0 ? fmt::format("{:.{}f}", value,
                                  tera          ? 2
                                  : value < 100 ? 1
                                                : 0)
                    : "–",
          t.text, fonts().numeral, 0.5f);
  text_at({center.x, center.y + big * 0.42f}, tera ? "TB/s" : "GB/s", t.dim, fonts().body, 0.5f);
  const float below = at.y + size.y - px(42);
  if (value > 0 && known)
    text_at({center.x, below},
            fmt::format("{:.0f} % of the roof{}", 100 * value / roof, value > roof ? ": from caches" : ""), t.text,
            fonts().bold, 0.5f);
  else if (value <= 0)
    text_at({center.x, below}, "ask something in the chat", t.dim, fonts().body, 0.5f);
  text_at(
      {center.x, below + px(22)},
      known ? fmt::format("measured: {}/s of memory reads", core::human_bytes(speed.roof_bytes_per_s))
            : fitting({"memory bandwidth is measured once, when the machine is idle", "the roof is measured when idle"},
                      size.x, fonts().small),
      t.dim, fonts().small, 0.5f);
  ImGui::Dummy(size);
}

void draw_history(const std::vector<api::Speed::Sample>& history, ImVec2 size) {
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
    text_at({at.x + left + area.x / 2, at.y + area.y * 0.5f - px(24)}, "tok/s of coming answers over time", t.dim,
            fonts().small, 0.5f);
    ImGui::Dummy(size);
    return;
  }
  const double begin = history.front().seconds, span = std::max(1e-9, history.back().seconds - begin);
  const auto place = [&](const api::Speed::Sample& s) {
    return ImVec2(at.x + left + static_cast<float>((s.seconds - begin) / span) * area.x,
                  at.y + area.y * (1 - static_cast<float>(s.tokens_per_s / top)));
  };
  std::vector<ImVec2> line;
  for (const auto& sample : history) line.push_back(place(sample));
  draw->Flags &= ~ImDrawListFlags_AntiAliasedFill; // avoids seams
  for (size_t i = 1; i < line.size(); ++i)
    draw->AddQuadFilled(line[i - 1], line[i], {line[i].x, at.y + area.y}, {line[i - 1].x, at.y + area.y},
                        with_alpha(t.accent, 0.15f));
  draw->Flags |= ImDrawListFlags_AntiAliasedFill;
  for (size_t i = 1; i < line.size(); ++i)
    draw->AddLine(line[i - 1], line[i], t.accent, px(2)); // mitred joints fail at spikes
  draw->AddCircleFilled(line.back(), px(4), t.accent);
  text_at({at.x + left, at.y + area.y + px(6)}, fmt::format("{:.1f} s", begin), t.dim, fonts().small);
  text_at({at.x + size.x, at.y + area.y + px(6)}, fmt::format("{:.1f} s of generation", history.back().seconds), t.dim,
          fonts().small, 1);
  ImGui::Dummy(size);
}

struct Part {
  std::string name;
  double amount;
};

// Largest parts; the rest is "other".
void stacked_bar(std::vector<Part> parts, const std::function<std::string(double)>& amount_text) {
  const Theme& t = theme();
  double total = 0;
  for (const Part& part : parts) total += part.amount;
  std::ranges::stable_sort(parts, std::greater(), &Part::amount);
  const float width = ImGui::GetContentRegionAvail().x, height = px(26);
  const auto legend = [&](const Part& part) {
    const double share = total > 0 ? 100 * part.amount / total : 0;
    return fmt::format("{} {} ({:.{}f} %)", part.name, amount_text(part.amount), share, share < 1 ? 2 : 0);
  };
  const auto cut = [&](size_t named) {
    std::vector<Part> kept(parts.begin(), parts.begin() + static_cast<long>(std::min(named, parts.size())));
    if (kept.size() < parts.size()) kept.push_back({"other", 0});
    for (size_t i = named; i < parts.size(); ++i) kept.back().amount += parts[i].amount;
    return kept;
  };
  std::vector<Part> shown = cut(kNamedParts);
  const auto legend_width = [&] {
    float sum = 0;
    for (const Part& part : shown) sum += px(17) + size_of(legend(part), fonts().small).x + px(16);
    return sum - px(16);
  };
  for (size_t named = kNamedParts; named > 1 && legend_width() > width;) shown = cut(--named);

  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  float x = at.x;
  draw->PushClipRect(at, {at.x + width, at.y + height}, true);
  for (size_t i = 0; i < shown.size(); ++i) {
    const float part = total > 0 ? static_cast<float>(shown[i].amount / total) * width : 0;
    draw->AddRectFilled({x, at.y}, {x + std::max(1.0f, part - px(1)), at.y + height}, t.series[i]);
    if (ImGui::IsMouseHoveringRect({x, at.y}, {x + part, at.y + height})) show_tooltip(legend(shown[i]));
    x += part;
  }
  draw->PopClipRect();
  ImGui::Dummy({width, height + px(4)});
  for (size_t i = 0; i < shown.size(); ++i) {
    const ImVec2 key = ImGui::GetCursorScreenPos();
    draw->AddRectFilled({key.x, key.y + px(3)}, {key.x + px(11), key.y + px(14)}, t.series[i], px(3));
    ImGui::Dummy({px(17), 0});
    ImGui::SameLine(0, 0);
    text(legend(shown[i]), t.text, fonts().small);
    if (i + 1 < shown.size()) ImGui::SameLine(0, px(16));
  }
}

void limited(const char* name, double value, double limit, const std::string& text_of_it, ImU32 color) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  text_at(at, name, theme().dim, fonts().small);
  text_at({at.x + width, at.y}, text_of_it, theme().text, fonts().small, 1);
  ImGui::Dummy({width, fonts().small->FontSize});
  if (limit > 0) bar(static_cast<float>(value / limit), {0, px(4)}, color);
}

class GaugesPanel : public Panel {
 public:
  void draw(const View& view) override {
    const api::Snapshot& now = view.now;
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float bottom = ImGui::GetCursorPosY() + area.y;
    const float gap = px(12), step = px(116), small = px(118);
    const float top = area.y - step - small - 2 * gap;
    const float dial = std::clamp(area.x * 0.36f, px(300), px(420)), gpu = now.gpus.empty() ? 0 : px(216);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("dial", {dial, top}, "Effective bandwidth");
    draw_dial(now.speed, ImGui::GetContentRegionAvail());
    end_card();
    ImGui::SameLine();
    begin_card("speed", {area.x - dial - gap - (gpu > 0 ? gpu + gap : 0), top}, "Generation");
    big_number(rate_text(now.speed.tokens_per_s), "tok/s");
    ImGui::Dummy({0, px(4)});
    draw_history(now.speed.history, ImGui::GetContentRegionAvail());
    end_card();
    if (now.gpus.size() == 1) {
      ImGui::SameLine();
      draw_gpu(now.gpus[0], {gpu, top});
    } else if (!now.gpus.empty()) {
      ImGui::SameLine();
      draw_gpus(now.gpus, {gpu, top});
    }
    draw_small_cards(now, area.x, small, gap);
    ImGui::SetCursorPosY(bottom - step);
    begin_card("step", {0, step});
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, px(6)));
    draw_step(view);
    ImGui::PopStyleVar();
    end_card();
    ImGui::PopStyleVar();
  }

 private:
  static void draw_small_cards(const api::Snapshot& now, float width, float height, float gap) {
    const float third = (width - 2 * gap) / 3;
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, px(6)));
    begin_card("prompt", {third, height}, "Prompt");
    big_number(rate_text(now.speed.prompt_tokens_per_s), "tok/s");
    dim_text(fmt::format("{} prompt tokens · {} generated", now.speed.prompt_tokens, now.speed.answer_tokens));
    if (const api::PicturesRead& read = now.speed.pictures; read.pictures > 0)
      dim_text(fmt::format("{} image{}, {} tokens, encoded in {:.{}f} s", read.pictures, read.pictures == 1 ? "" : "s",
                           read.tokens, read.seconds, read.seconds < 10 ? 2 : 0));
    end_card();
    ImGui::SameLine(0, gap);
    begin_card("kv", {third, height}, "KV cache");
    big_number(fmt::format("{}", now.kv.tokens), fmt::format("of {} tokens", now.kv.context));
    bar(static_cast<float>(now.kv.tokens) / static_cast<float>(std::max<int64_t>(1, now.kv.context)), {0, px(6)},
        theme().accent);
    dim_text(fmt::format("{} of {}", core::human_bytes(now.kv.bytes), core::human_bytes(now.kv.capacity_bytes)));
    end_card();
    ImGui::SameLine(0, gap);
    begin_card("memory", {0, height}, "Memory");
    const auto model = static_cast<double>(now.model->bytes);
    big_number(core::human_bytes(model + now.engine_bytes), "");
    dim_text(fmt::format("model {} · KV cache {}", core::human_bytes(model), core::human_bytes(now.kv.capacity_bytes)));
    dim_text(fmt::format("scratch {}", core::human_bytes(std::max(0.0, now.engine_bytes - now.kv.capacity_bytes))));
    end_card();
    ImGui::PopStyleVar();
  }

  static void draw_gpu(const api::GpuGauge& gpu, ImVec2 size) {
    begin_card("gpu", size, gpu.name.c_str());
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(6)));
    const auto clock = [](double hz, double most) { return fmt::format("{:.0f} of {:.0f} MHz", hz / 1e6, most / 1e6); };
    draw_power(gpu);
    line("Temperature", 0, 0, fmt::format("{:.0f} °C", gpu.temperature_celsius));
    line("SM clock", gpu.sm_clock_hz, 0, clock(gpu.sm_clock_hz, gpu.sm_clock_max_hz));
    line("Memory clock", gpu.memory_clock_hz, 0, clock(gpu.memory_clock_hz, gpu.memory_clock_max_hz));
    draw_memory(gpu);
    ImGui::PopStyleVar();
    end_card();
  }
  // Several GPUs show only values that differ.
  static void draw_gpus(const std::vector<api::GpuGauge>& gpus, ImVec2 size) {
    begin_card("gpus", size, fmt::format("{} GPUs", gpus.size()).c_str());
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(6)));
    for (size_t i = 0; i < gpus.size(); ++i) {
      ImGui::Dummy({0, px(2)});
      dim_text(fmt::format("{} · {} · {:.0f} °C", i, gpus[i].name, gpus[i].temperature_celsius));
      draw_power(gpus[i]);
      draw_memory(gpus[i]);
    }
    ImGui::PopStyleVar();
    end_card();
  }
  static void draw_power(const api::GpuGauge& gpu) {
    line("Power", gpu.power_watts, gpu.power_limit_watts,
         fmt::format("{:.0f} of {:.0f} W", gpu.power_watts, gpu.power_limit_watts));
  }
  static void draw_memory(const api::GpuGauge& gpu) {
    line("Memory", gpu.memory_used_bytes, gpu.memory_bytes,
         fmt::format("{} of {}", core::human_bytes(gpu.memory_used_bytes), core::human_bytes(gpu.memory_bytes)));
  }
  static void line(const char* name, double value, double limit, const std::string& shown) {
    ImGui::Dummy({0, px(1)});
    limited(name, value, limit, shown, limit > 0 && value > 0.95 * limit ? theme().amber : theme().accent);
  }

  void draw_step(const View& view) {
    const api::Snapshot& now = view.now;
    std::vector<Part> parts;
    std::string heading;
    if (bytes_) {
      double kv = 0, total = 0;
      for (const auto& share : now.step) {
        kv += share.kv_bytes;
        parts.push_back({share.kind, share.weight_bytes + share.activation_bytes});
        total += share.weight_bytes + share.activation_bytes + share.kv_bytes;
      }
      parts.push_back({"KV cache", kv});
      heading = fmt::format("Bytes moved for the next token: {}", core::human_bytes(total));
    } else if (now.measured) {
      for (const auto& op : now.measured->ops) parts.push_back({op.name, op.seconds});
      heading = fmt::format("Time of a step at {} tokens, op by op: {} in total", now.measured->past,
                            seconds_text(now.measured->seconds));
      if (parts.empty()) heading = "This engine does not support profiles";
    } else {
      heading = "Time of a step, op by op: not measured yet";
    }
    dim_text(heading);
    const bool idle = now.state == api::EngineState::idle;
    const float y = ImGui::GetItemRectMin().y - ImGui::GetWindowPos().y - px(4);
    ImGui::SetCursorPos({ImGui::GetWindowWidth() - px(16) - px(196), y});
    ImGui::BeginDisabled(!idle);
    if (quiet_button("measure")) view.send(api::intent::MeasureStep{-1});
    ImGui::EndDisabled();
    ImGui::SetCursorPos({ImGui::GetWindowWidth() - px(16) - px(124), y});
    if (choice("time", !bytes_)) bytes_ = false;
    ImGui::SameLine(0, 0);
    if (choice("bytes", bytes_)) bytes_ = true;
    ImGui::SetCursorPosY(y + px(28));
    if (parts.empty() && !now.measured)
      return wrapped_text(
          "The time of each op appears here after an answer if measuring is quick, otherwise when you press “measure”.",
          theme().dim, fonts().small);
    if (bytes_)
      stacked_bar(std::move(parts), core::human_bytes);
    else
      stacked_bar(std::move(parts), seconds_text);
  }

  static bool choice(const char* label, bool chosen) {
    ImGui::PushFont(fonts().small);
    ImGui::PushStyleColor(ImGuiCol_Button, chosen ? theme().raised : with_alpha(theme().raised, 0));
    ImGui::PushStyleColor(ImGuiCol_Text, chosen ? theme().text : theme().dim);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(7), px(3)));
    const bool pressed = ImGui::Button(label, {px(62), 0});
    ImGui::PopStyleVar();
    ImGui::PopStyleColor(2);
    ImGui::PopFont();
    return pressed;
  }

  bool bytes_ = false; // else times
};

} // namespace

std::unique_ptr<Panel> make_gauges_panel() { return std::make_unique<GaugesPanel>(); }

} // namespace ridge::ui
