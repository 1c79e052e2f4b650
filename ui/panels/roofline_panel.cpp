// A step's ops under the roofs, measured or predicted.
#include "core/units.h"
#include "ui/panels/panel.h"
#include "ui/panels/roofline_plot.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::StepRoofline;
using Op = RooflineOp;

constexpr int kMaxStreams = 256;

class RooflinePanel : public Panel {
 public:
  void draw(const View& view) override {
    ask(view);
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float side = px(292), gap = px(12);
    begin_card("plot", {area.x - side - gap, area.y});
    if (view.now.roofs)
      draw_roofline_plot(view.now, listed_);
    else
      draw_waiting(view);
    end_card();
    ImGui::SameLine(0, gap);
    ImGui::BeginGroup();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("controls", {side, px(262)});
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(10), px(6)));
    draw_controls(view);
    ImGui::PopStyleVar();
    end_card();
    begin_card("ops", {side, 0}, nullptr, true);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(4)));
    draw_list(view.now);
    ImGui::PopStyleVar();
    end_card();
    ImGui::PopStyleVar();
    ImGui::EndGroup();
  }

 private:
  struct Asked { // last request to the engine
    bool roofs = false, step = false;
    int64_t past = -1, streams = 0;
    std::string format;
  };

  void ask(const View& view) {
    const api::Snapshot& now = view.now;
    if (model_ != now.model) {
      model_ = now.model;
      asked_ = {};
      follow_ = true;
    }
    const bool idle = now.state == api::EngineState::idle;
    if (!now.roofs && idle && !asked_.roofs) {
      asked_.roofs = true;
      view.send(intent::MeasureRoofs{});
    }
    if (now.roofs && !now.measured && idle && !asked_.step) {
      asked_.step = true;
      view.send(intent::MeasureStep{-1});
    }
    if (follow_) past_ = static_cast<int>(now.measured ? now.measured->past : now.kv.tokens);
    if (now.roofs && (asked_.past != past_ || asked_.streams != streams_ || asked_.format != format_)) {
      asked_.past = past_;
      asked_.streams = streams_;
      asked_.format = format_;
      view.send(intent::PredictStep{past_, streams_, format_});
    }
  }

  void draw_waiting(const View& view) {
    const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
    const ImVec2 center{at.x + size.x / 2, at.y + size.y / 2};
    if (view.now.state != api::EngineState::idle || !asked_.roofs) {
      text_at({center.x, center.y - px(24)}, "One moment…", theme().text, fonts().title, 0.5f);
      text_at({center.x, center.y + px(6)},
              view.now.state == api::EngineState::measuring ? view.now.activity + " (takes some seconds)"
                                                            : "waiting for the answer to finish",
              theme().dim, fonts().body, 0.5f);
      return;
    }
    text_at({center.x, center.y - px(24)}, "This machine's roofs are not measured yet", theme().dim, fonts().body,
            0.5f);
    ImGui::SetCursorPos({size.x / 2 - px(60), size.y / 2 + px(8)});
    if (accent_button("Measure", {px(120), px(36)})) view.send(intent::MeasureRoofs{});
  }

  void draw_controls(const View& view) {
    const api::Snapshot& now = view.now;
    const auto row = [](const char* label, const std::string& value) {
      dim_text(label);
      const ImVec2 at = ImGui::GetItemRectMin();
      text_at({at.x + ImGui::GetContentRegionAvail().x, at.y}, value, theme().text, fonts().small, 1);
      ImGui::SetNextItemWidth(-1);
    };
    ImGui::PushFont(fonts().small);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(8), px(4)));
    const int longest = static_cast<int>(std::max<int64_t>(1, now.kv.context - 1));
    row("Tokens in the context", fmt::format("{}", past_));
    if (ImGui::SliderInt("##past", &past_, 0, longest, "", ImGuiSliderFlags_Logarithmic)) follow_ = false;
    past_ = std::clamp(past_, 0, longest);
    row("Sequences decoded together", fmt::format("{}", streams_));
    ImGui::SliderInt("##streams", &streams_, 1, kMaxStreams, "", ImGuiSliderFlags_Logarithmic);
    streams_ = std::clamp(streams_, 1, kMaxStreams);
    row("Weights", "");
    if (ImGui::BeginCombo("##format", format_.empty() ? "as they are stored" : format_.c_str(),
                          ImGuiComboFlags_HeightLarge)) {
      if (ImGui::Selectable("as they are stored", format_.empty())) format_.clear();
      if (now.roofs)
        for (const std::string& format : now.roofs->formats)
          if (ImGui::Selectable(format.c_str(), format == format_)) format_ = format;
      ImGui::EndCombo();
    }
    ImGui::Dummy({0, px(2)});
    if (now.predicted) {
      const Op sum = sum_of(*now.predicted);
      const auto streams = static_cast<double>(now.predicted->streams);
      text(fmt::format("at most {:.0f} tok/s", streams / sum.floor_seconds), theme().text, fonts().bold);
      dim_text(
          fmt::format("predicted: {} per step, {}", seconds_text(sum.floor_seconds), core::human_bytes(sum.bytes)));
    }
    if (now.measured) {
      const Op sum = sum_of(*now.measured);
      dim_text(fmt::format("measured at {}: {} per step", now.measured->past, seconds_text(sum.seconds)));
    }
    ImGui::SetCursorPosY(ImGui::GetWindowHeight() - px(14) - ImGui::GetFrameHeight());
    ImGui::BeginDisabled(now.state != api::EngineState::idle);
    if (ImGui::Button(fmt::format("Measure at {} tokens##measure", past_).c_str(), {-1, 0}))
      view.send(intent::MeasureStep{past_});
    ImGui::EndDisabled();
    tooltip("Repeats a step of one sequence with the stored weights and times each op.");
    ImGui::PopStyleVar();
    ImGui::PopFont();
  }

  // Measured if it matches the controls, else predicted.
  void draw_list(const api::Snapshot& now) {
    const bool fits = now.measured && format_.empty() && streams_ == 1 && now.measured->past == past_;
    const StepRoofline* shown = fits ? now.measured.get() : now.predicted.get();
    dim_text(fits ? "Measured; above 100 % of the roof: caches" : "Predicted time and its limiting factor");
    listed_.clear();
    if (!shown)
      return wrapped_text("After the roofs are measured: the minimum time of each op of a step, and what limits it.",
                          theme().dim, fonts().small);
    std::vector<const Op*> order;
    for (const Op& op : shown->ops) order.push_back(&op);
    const auto time = [&](const Op* op) { return fits ? op->seconds : op->floor_seconds; };
    std::ranges::stable_sort(order, std::greater(), time);
    ImGui::PushFont(fonts().small);
    for (const Op* op : order) {
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float width = ImGui::GetContentRegionAvail().x, height = px(20);
      ImGui::PushID(op);
      ImGui::Selectable("##op", false, 0, {width, height});
      if (ImGui::IsItemHovered() || (ImGui::IsItemFocused() && ImGui::GetIO().NavVisible)) {
        listed_ = op->name;
        show_tooltip(description_of(*op));
      }
      ImGui::PopID();
      const float y = at.y + (height - fonts().small->FontSize) / 2;
      ImDrawList* draw = ImGui::GetWindowDrawList();
      draw->AddCircleFilled({at.x + px(5), at.y + height / 2}, px(4), color_of(*op));
      draw->PushClipRect(at, {at.x + width - px(132), at.y + height}, true);
      text_at({at.x + px(16), y}, op->name, theme().text, fonts().small);
      draw->PopClipRect();
      text_at({at.x + width - px(66), y}, seconds_text(time(op)), theme().text, fonts().small, 1);
      text_at({at.x + width, y},
              !fits                   ? op->bound_by
              : op->floor_seconds > 0 ? fmt::format("{:.0f} %", 100 * op->floor_seconds / op->seconds)
                                      : "–",
              theme().dim, fonts().small, 1);
    }
    ImGui::PopFont();
  }

  std::shared_ptr<const api::ModelFacts> model_;
  Asked asked_;
  int past_ = 0, streams_ = 1;
  bool follow_ = true;          // uses the conversation's context
  std::string format_, listed_; // listed_: hovered op
};

} // namespace

std::unique_ptr<Panel> make_roofline_panel() { return std::make_unique<RooflinePanel>(); }

} // namespace ridge::ui
