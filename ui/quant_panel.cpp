// The quant lab: a tensor's weights, what each format would make of them, and one block under the microscope.
#include "ui/block_view.h"
#include "ui/panel.h"
#include "ui/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

namespace intent = core::intent;

class QuantPanel : public Panel {
 public:
  void draw(const View& view) override {
    const core::Snapshot& now = view.now;
    if (now.model.get() != model_) choose_first(view);
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float list = px(220), gap = px(12), upper = std::max(px(190), area.y * 0.3f),
                scatter = std::clamp(area.x * 0.3f, px(240), px(330));
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("list", {list, area.y}, "Tensor");
    draw_list(view);
    end_card();
    ImGui::SameLine();
    ImGui::BeginGroup();
    const float width = area.x - list - gap;
    const core::TensorStudy* study = now.tensor && now.tensor->tensor == tensor_ ? now.tensor.get() : nullptr;
    begin_card("histogram", {width - scatter - gap, upper});
    study ? draw_histogram(*study) : dim_text("looking at the weights…");
    end_card();
    ImGui::SameLine();
    begin_card("slice", {scatter, upper});
    if (study) draw_slice(*study);
    end_card();
    begin_card("block", {width - scatter - gap, area.y - upper - gap});
    draw_block(view);
    end_card();
    ImGui::SameLine();
    begin_card("formats", {scatter, area.y - upper - gap});
    if (study) draw_formats(view, *study);
    end_card();
    ImGui::EndGroup();
    ImGui::PopStyleVar();
  }

 private:
  void choose_first(const View& view) {
    model_ = view.now.model.get();
    for (const auto& tensor : model_->tensors)
      if (tensor.decodable && tensor.rows > 1 && tensor.layer >= 0) return choose(view, tensor.name);
    for (const auto& tensor : model_->tensors)
      if (tensor.decodable) return choose(view, tensor.name);
  }

  void choose(const View& view, const std::string& name) {
    tensor_ = name;
    block_ = 0;
    view.send(intent::StudyTensor{name});
    view.send(intent::StudyBlock{tensor_, format_, block_});
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
      tooltip(fmt::format("{}, {}, {}", tensor.type, tensor.shape, bytes_text(static_cast<double>(tensor.bytes))));
    }
    ImGui::PopStyleVar();
    ImGui::PopFont();
    ImGui::EndChild();
  }

  static void draw_histogram(const core::TensorStudy& study) {
    const Theme& t = theme();
    text(study.tensor, t.text, fonts().bold);
    ImGui::SameLine(0, px(10));
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
    dim_text(fmt::format("{} · {} × {}", study.type, study.rows, study.cols));
    const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    const float foot = px(36), height = size.y - foot;
    const float most = *std::ranges::max_element(study.histogram);
    const float step = size.x / static_cast<float>(study.histogram.size());
    ImDrawList* draw = ImGui::GetWindowDrawList();
    for (size_t i = 0; i < study.histogram.size(); ++i) {
      const float x = at.x + step * static_cast<float>(i), filled = height * std::sqrt(study.histogram[i] / most);
      if (filled > 0)
        draw->AddRectFilled({x, at.y + height - std::max(1.0f, filled)}, {x + std::max(1.0f, step - 1), at.y + height},
                            t.accent);
    }
    draw->AddLine({at.x, at.y + height}, {at.x + size.x, at.y + height}, t.border);
    if (study.low < 0 && study.high > 0) {
      const float zero = at.x + size.x * static_cast<float>(-study.low / (study.high - study.low));
      draw->AddLine({zero, at.y + height}, {zero, at.y + height + px(5)}, t.dim);
      text_at({zero, at.y + height + px(5)}, "0", t.dim, fonts().small, 0.5f);
    }
    text_at({at.x, at.y + height + px(5)}, number_text(study.low), t.dim, fonts().small);
    text_at({at.x + size.x, at.y + height + px(5)}, number_text(study.high), t.dim, fonts().small, 1);
    text_at({at.x, at.y + size.y - px(14)},
            fmt::format("mean {} · rms {} · {} weights · √ heights", number_text(study.mean), number_text(study.rms),
                        count_text(static_cast<double>(study.sampled))),
            t.dim, fonts().small);
    ImGui::Dummy(size);
  }

  // Blue below zero, red above, the surface at zero; saturated at three times the RMS.
  static void draw_slice(const core::TensorStudy& study) {
    dim_text(fmt::format("{} × {} corner; full colour: 3 × rms", study.slice_rows, study.slice_cols));
    const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    const float cell_x = size.x / static_cast<float>(study.slice_cols);
    const float cell_y = std::min(size.y / static_cast<float>(study.slice_rows), px(18));
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const auto full = static_cast<float>(3 * study.rms);
    for (int r = 0; r < study.slice_rows; ++r)
      for (int c = 0; c < study.slice_cols; ++c) {
        const float w = study.slice[static_cast<size_t>(r) * study.slice_cols + c];
        const float x = at.x + cell_x * static_cast<float>(c), y = at.y + cell_y * static_cast<float>(r);
        draw->AddRectFilled({x, y}, {x + cell_x, y + cell_y}, weight_color(full > 0 ? w / full : 0));
      }
    ImGui::Dummy({size.x, cell_y * static_cast<float>(study.slice_rows)});
    if (!ImGui::IsItemHovered()) return;
    const ImVec2 mouse = ImGui::GetMousePos();
    const int c = std::clamp(static_cast<int>((mouse.x - at.x) / cell_x), 0, study.slice_cols - 1);
    const int r = std::clamp(static_cast<int>((mouse.y - at.y) / cell_y), 0, study.slice_rows - 1);
    tooltip(fmt::format("row {}, column {}: {}", r, c,
                        number_text(study.slice[static_cast<size_t>(r) * study.slice_cols + c])));
  }

  void draw_formats(const View& view, const core::TensorStudy& study) {
    const Theme& t = theme();
    dim_text(static_cast<int>(study.formats.size()) < study.formats_to_try
                 ? fmt::format("Formats: {} of {} tried…", study.formats.size(), study.formats_to_try)
                 : "Formats: click to see a block");
    const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    const float left = px(30), foot = px(34);
    double most = 10, bits_end = 10;
    for (const auto& f : study.formats)
      if (std::isfinite(f.sqnr_db) && f.bits_per_weight < 10) most = std::max(most, f.sqnr_db);
    most = std::ceil(most / 10) * 10;
    const ImVec2 area{size.x - left - px(10), size.y - foot};
    const auto place = [&](double bits, double db) {
      return ImVec2(at.x + left + static_cast<float>(bits / bits_end) * area.x,
                    at.y + area.y * (1 - static_cast<float>(std::clamp(db / most, 0.0, 1.0))));
    };
    ImDrawList* draw = ImGui::GetWindowDrawList();
    for (double db = 0; db <= most; db += 10) {
      const ImVec2 from = place(0, db);
      draw->AddLine(from, {from.x + area.x, from.y}, t.border);
      text_at({from.x - px(6), from.y - px(8)}, fmt::format("{:g}", db), t.dim, fonts().small, 1);
    }
    for (int bits = 0; bits <= 10; bits += 2)
      text_at({place(bits, 0).x, at.y + area.y + px(3)}, std::to_string(bits), t.dim, fonts().small, 0.5f);
    text_at({at.x + size.x - px(10), at.y + area.y + px(18)}, "bits per weight  ·  up: SQNR, dB", t.dim, fonts().small,
            1);
    for (const auto& tensor : model_->tensors)
      if (tensor.name == study.tensor && tensor.bits_per_weight() < bits_end) {
        const ImVec2 stored = place(tensor.bits_per_weight(), most);
        draw->AddLine(stored, {stored.x, at.y + area.y}, with_alpha(t.amber, 0.6f));
        text_at({stored.x + px(4), stored.y + px(3)}, "stored", t.amber, fonts().small);
      }
    const ImVec2 mouse = ImGui::GetMousePos();
    const core::TensorStudy::Format* near = nullptr;
    float distance = px(12);
    std::vector<ImVec4> taken; // labels cover neither dots nor each other
    for (const auto& f : study.formats) {
      if (f.bits_per_weight > bits_end) continue;
      const ImVec2 p = place(f.bits_per_weight, f.sqnr_db);
      const float d = std::hypot(p.x - mouse.x, p.y - mouse.y);
      if (d < distance && ImGui::IsWindowHovered()) {
        distance = d;
        near = &f;
      }
      taken.push_back({p.x - px(3), p.y - px(3), p.x + px(3), p.y + px(3)});
      draw->AddCircleFilled(p, px(f.name == format_ ? 6.0f : 4.0f), f.microscope ? t.accent : t.dim);
    }
    std::vector<core::TensorStudy::Format> labelled = study.formats;
    std::ranges::stable_partition(labelled, [&](const auto& f) { return f.name == format_; }); // the chosen one first
    for (const auto& f : labelled) {
      if (f.bits_per_weight > bits_end) continue;
      const ImVec2 p = place(f.bits_per_weight, f.sqnr_db), text_size = size_of(f.name, fonts().small);
      const float middle = -text_size.y / 2, other_side = -px(8) - text_size.x;
      for (const ImVec2 offset :
           {ImVec2(px(8), middle), ImVec2(other_side, middle), ImVec2(other_side, middle - px(9)),
            ImVec2(px(8), middle - px(9)), ImVec2(other_side, middle + px(9)), ImVec2(px(8), middle + px(9))}) {
        const ImVec4 box{p.x + offset.x, p.y + offset.y, p.x + offset.x + text_size.x, p.y + offset.y + text_size.y};
        const bool fits =
            box.x > at.x + left && box.z < at.x + size.x && std::ranges::none_of(taken, [&](const ImVec4& o) {
              return box.x < o.z && o.x < box.z && box.y < o.w && o.y < box.w;
            });
        if (!fits) continue;
        taken.push_back(box);
        text_at({box.x, box.y}, f.name, f.name == format_ ? t.text : t.dim, fonts().small);
        break;
      }
    }
    ImGui::Dummy(size);
    if (!near) return;
    tooltip(fmt::format("{}: {:.3f} bits per weight, SQNR {:.1f} dB, RMSE {}{}", near->name, near->bits_per_weight,
                        near->sqnr_db, number_text(near->rmse), near->microscope ? "" : " (no bit view)"));
    if (near->microscope && ImGui::IsMouseClicked(0)) choose_format(view, near->name);
  }

  void choose_format(const View& view, const std::string& format) {
    format_ = format;
    block_ = 0;
    view.send(intent::StudyBlock{tensor_, format_, block_});
  }

  void draw_block(const View& view) {
    const core::BlockStudy* block =
        view.now.block && view.now.block->tensor == tensor_ ? view.now.block.get() : nullptr;
    if (!block) {
      dim_text("Rows of this tensor are no whole blocks of the format: choose another.");
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
      view.send(intent::StudyBlock{tensor_, format_, block_});
    }
    tooltip(fmt::format("drag, or Ctrl-click to type: 0 to {}", block->blocks - 1));
    ImGui::PopFont();
    block_view_.draw(*block, ImGui::GetContentRegionAvail());
  }

  const core::ModelFacts* model_ = nullptr;
  std::string tensor_, format_ = "Q4_K", filter_;
  int64_t block_ = 0;
  BlockView block_view_;
};

} // namespace

std::unique_ptr<Panel> make_quant_panel() { return std::make_unique<QuantPanel>(); }

} // namespace ridge::ui
