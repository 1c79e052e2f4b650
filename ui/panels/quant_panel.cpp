#include "core/units.h"
#include "ui/panels/block_view.h"
#include "ui/panels/cache_view.h"
#include "ui/panels/format_view.h"
#include "ui/panels/heat_map.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

class QuantPanel : public Panel {
 public:
  void draw(const View& view) override {
    const api::Snapshot& now = view.now;
    if (now.model != model_) choose_first(view);
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float list = area.x < px(960) ? px(184) : px(220), gap = px(12), head = px(36);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    if (shown_ == kCaches) {
      draw_head(nullptr, area.x, head);
      draw_caches(view, {area.x, area.y - head + gap});
      return ImGui::PopStyleVar();
    }
    begin_card("list", {list, area.y}, "Tensor");
    draw_list(view);
    end_card();
    ImGui::SameLine();
    ImGui::BeginGroup();
    const float width = area.x - list - gap;
    const api::TensorStudy* study = now.tensor && now.tensor->tensor == tensor_ ? now.tensor.get() : nullptr;
    draw_head(study, width, head);
    const ImVec2 rest{width, area.y - head + gap};
    if (shown_ == 0)
      draw_weights(view, study, rest);
    else if (study && formats_.draw(view, *study, format_, rest))
      choose_format(view, format_);
    ImGui::EndGroup();
    ImGui::PopStyleVar();
  }

  bool show(std::string_view part) override {
    const auto found = std::ranges::find(kParts, part);
    if (found == std::end(kParts)) return false;
    shown_ = static_cast<int>(found - std::begin(kParts));
    return true;
  }

 private:
  static constexpr std::string_view kParts[] = {"weights", "formats", "caches"};
  static constexpr int kCaches = 2;

  void draw_head(const api::TensorStudy* study, float width, float height) {
    ImGui::BeginChild("head", {width, height - px(12)}, false, ImGuiWindowFlags_NoScrollbar);
    text(shown_ == kCaches ? "Types of KV caches" : tensor_, theme().text, fonts().bold);
    if (study) {
      ImGui::SameLine(0, px(10));
      ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
      dim_text(fmt::format("{} · {} × {}", study->type, study->rows, study->cols));
    }
    ImGui::SameLine(width - size_of("WeightsFormatsCaches", fonts().small).x - px(66));
    ImGui::SetCursorPosY(0);
    segments("view", {"Weights", "Formats", "Caches"}, shown_);
    ImGui::EndChild();
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() - px(12));
  }

  void draw_weights(const View& view, const api::TensorStudy* study, ImVec2 area) {
    const float gap = px(12), upper = std::max(px(210), area.y * 0.36f), map = area.x * 0.46f;
    const api::BlockStudy* block = view.now.block && view.now.block->tensor == tensor_ ? view.now.block.get() : nullptr;
    const api::SliceStudy* slice = view.now.slice && view.now.slice->tensor == tensor_ ? view.now.slice.get() : nullptr;
    begin_card("histogram", {area.x - map - gap, upper});
    study ? draw_histogram(*study, block) : dim_text("examining the weights…");
    end_card();
    ImGui::SameLine();
    begin_card("slice", {map, upper});
    if (slice && study && heat_map_.draw(*slice, study->rows, study->cols, ImGui::GetContentRegionAvail()))
      ask_for_slice(view);
    end_card();
    begin_card("block", {area.x, area.y - upper - gap});
    draw_block(view, block);
    end_card();
  }

  void choose_first(const View& view) {
    constexpr int64_t kFirstBlock = 256; // weights of a block of the first format
    model_ = view.now.model;
    for (const int64_t block : {kFirstBlock, int64_t{1}})
      for (const auto& tensor : model_->tensors)
        if (tensor.decodable && tensor.rows > 1 && tensor.layer >= 0 && tensor.cols % block == 0)
          return choose(view, tensor.name);
    for (const auto& tensor : model_->tensors)
      if (tensor.decodable) return choose(view, tensor.name);
  }

  void choose(const View& view, const std::string& name) {
    tensor_ = name;
    block_ = 0;
    heat_map_.reset();
    view.send(intent::StudyTensor{name});
    choose_format(view, format_);
  }

  // Empty: as stored.
  void choose_format(const View& view, const std::string& format) {
    format_ = format;
    block_ = 0;
    if (view.now.tensor) {
      const auto& formats = view.now.tensor->formats;
      const auto known = std::ranges::find(formats, format, &api::TensorStudy::Format::name);
      if (known != formats.end() || format.empty()) {
        has_blocks_ = format.empty() || known->microscope;
        packable_ = format.empty() || known->packable;
      }
    }
    ask_for_block(view);
    ask_for_slice(view);
  }

  // As stored if the format has no drawable blocks.
  void ask_for_block(const View& view) const {
    view.send(intent::StudyBlock{tensor_, has_blocks_ ? format_ : "", block_});
  }

  void ask_for_slice(const View& view) const {
    view.send(intent::StudySlice{tensor_, packable_ ? format_ : "", heat_map_.first_row(), heat_map_.first_col()});
  }

  void draw_list(const View& view) {
    ImGui::SetNextItemWidth(-1);
    ImGui::InputTextWithHint("##filter", "Filter", &filter_);
    ImGui::BeginChild("names");
    ImGui::PushFont(fonts().small);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(4), px(5)));
    for (const auto& tensor : model_->tensors) {
      if (!tensor.decodable || tensor.name.find(filter_) == std::string::npos) continue;
      if (ImGui::Selectable(tensor.name.c_str(), tensor.name == tensor_) && tensor.name != tensor_)
        choose(view, tensor.name);
      tooltip(
          fmt::format("{}, {}, {}", tensor.type, tensor.shape, core::human_bytes(static_cast<double>(tensor.bytes))));
    }
    ImGui::PopStyleVar();
    ImGui::PopFont();
    ImGui::EndChild();
  }

  // Draws the levels of the selected weight's group, too.
  void draw_histogram(const api::TensorStudy& study, const api::BlockStudy* block) const {
    const Theme& t = theme();
    const std::vector<float>* levels = nullptr;
    const auto group = static_cast<size_t>(block_view_.weight()) / 16;
    if (block && group < block->levels.size()) levels = &block->levels[group];
    const float room = ImGui::GetContentRegionAvail().x;
    dim_text(!levels ? "Weights"
                     : fitting({fmt::format("Weights, and the {} levels of {} for weights {} to {} of block {}",
                                            levels->size(), block->format, group * 16, group * 16 + 15, block->block),
                                fmt::format("Weights, and {} levels of {} (weights {} to {})", levels->size(),
                                            block->format, group * 16, group * 16 + 15)},
                               room, fonts().small));
    const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    const float foot = px(36), height = size.y - foot;
    const float most = *std::ranges::max_element(study.histogram);
    const float step = size.x / static_cast<float>(study.histogram.size());
    const auto place = [&](double w) {
      return at.x + size.x * static_cast<float>((w - study.low) / std::max(1e-30, study.high - study.low));
    };
    ImDrawList* draw = ImGui::GetWindowDrawList();
    for (size_t i = 0; i < study.histogram.size(); ++i) {
      const float x = at.x + step * static_cast<float>(i), filled = height * std::sqrt(study.histogram[i] / most);
      if (filled > 0)
        draw->AddRectFilled({x, at.y + height - std::max(1.0f, filled)}, {x + std::max(1.0f, step - 1), at.y + height},
                            t.accent);
    }
    if (levels)
      for (const float level : *levels) {
        if (level < study.low || level > study.high) continue;
        const float x = std::round(place(level));
        draw->AddLine({x, at.y}, {x, at.y + height}, with_alpha(t.amber, levels->size() > 64 ? 0.35f : 0.8f));
      }
    draw->AddLine({at.x, at.y + height}, {at.x + size.x, at.y + height}, t.border);
    if (study.low < 0 && study.high > 0) {
      const float zero = place(0);
      draw->AddLine({zero, at.y + height}, {zero, at.y + height + px(5)}, t.dim);
      text_at({zero, at.y + height + px(5)}, "0", t.dim, fonts().small, 0.5f);
    }
    text_at({at.x, at.y + height + px(5)}, number_text(study.low), t.dim, fonts().small);
    text_at({at.x + size.x, at.y + height + px(5)}, number_text(study.high), t.dim, fonts().small, 1);
    text_at({at.x, at.y + size.y - px(14)},
            fitting({fmt::format("mean {} · RMS {} · {} weights · √ heights", number_text(study.mean),
                                 number_text(study.rms), count_text(static_cast<double>(study.sampled))),
                     fmt::format("mean {} · RMS {} · √ heights", number_text(study.mean), number_text(study.rms))},
                    size.x, fonts().small),
            t.dim, fonts().small);
    ImGui::Dummy(size);
  }

  void draw_block(const View& view, const api::BlockStudy* block) {
    if (!block) {
      wrapped_text("The rows of this tensor cannot be divided into blocks of this format: choose another.", theme().dim,
                   fonts().small);
      return;
    }
    text(fmt::format("{} block", block->format), theme().text, fonts().bold);
    ImGui::SameLine(0, px(10));
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
    if (ImGui::GetWindowWidth() > px(500))
      dim_text(fmt::format("{} bytes, {} weights", block->bytes.size(), block->weights.size()));
    else
      ImGui::NewLine();
    ImGui::SameLine(ImGui::GetWindowWidth() - px(246));
    ImGui::SetCursorPosY(px(12));
    ImGui::PushFont(fonts().small);
    ImGui::SetNextItemWidth(px(110));
    if (ImGui::BeginCombo("##format", format_.empty() ? "as stored" : format_.c_str(), ImGuiComboFlags_HeightLarge)) {
      if (ImGui::Selectable("as stored", format_.empty())) choose_format(view, "");
      if (view.now.tensor)
        for (const auto& f : view.now.tensor->formats)
          if (f.microscope && ImGui::Selectable(f.name.c_str(), f.name == format_)) choose_format(view, f.name);
      ImGui::EndCombo();
    }
    ImGui::SameLine(0, px(8));
    ImGui::SetNextItemWidth(px(112));
    auto number = static_cast<int>(block_);
    if (ImGui::DragInt("##number", &number, 0.2f, 0, static_cast<int>(block->blocks - 1), "block %d")) {
      block_ = std::clamp<int64_t>(number, 0, block->blocks - 1);
      ask_for_block(view);
    }
    tooltip(fmt::format("drag, or Ctrl-click to type: 0 to {}", block->blocks - 1));
    ImGui::PopFont();
    block_view_.draw(*block, ImGui::GetContentRegionAvail());
  }

  std::shared_ptr<const api::ModelFacts> model_;
  std::string tensor_, format_ = "Q4_K", filter_;
  bool has_blocks_ = true, packable_ = true; // whether format_ has them
  int64_t block_ = 0;
  int shown_ = 0; // of kParts
  BlockView block_view_;
  HeatMap heat_map_;
  FormatView formats_;
};

} // namespace

std::unique_ptr<Panel> make_quant_panel() { return std::make_unique<QuantPanel>(); }

} // namespace ridge::ui
