#include "ui/panels/format_view.h"

#include "core/units.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace ridge::ui {

namespace intent = api::intent;
using Format = api::TensorStudy::Format;

namespace {

constexpr double kMaxBits = 10; // excludes float formats

// Square-root heights make rare errors visible.
void draw_counts(const std::vector<float>& counts, ImVec2 at, ImVec2 size, ImU32 color) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float most = *std::ranges::max_element(counts), step = size.x / static_cast<float>(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= 0) continue;
    const float x = at.x + step * static_cast<float>(i), height = size.y * std::sqrt(counts[i] / most);
    draw->AddRectFilled({x, at.y + size.y - std::max(1.0f, height)},
                        {std::max(x + 1, x + step - (step > px(3) ? 1 : 0)), at.y + size.y}, color);
  }
}

const Format* find(const api::TensorStudy& study, const std::string& name) {
  const auto found = std::ranges::find(study.formats, name, &Format::name);
  return found == study.formats.end() ? nullptr : &*found;
}

std::string describe(const Format& f) {
  return fmt::format("{}{}: {:.3f} bits per weight, SQNR {:.1f} dB, RMSE {}, largest error {}", f.name,
                     f.meaning.empty() ? "" : fmt::format(" ({})", f.meaning), f.bits_per_weight, f.sqnr_db,
                     number_text(f.rmse), number_text(f.max_error));
}

} // namespace

std::string FormatView::role_of(const std::string& tensor) {
  std::string role = tensor;
  if (role.ends_with(".weight")) role.resize(role.size() - 7);
  if (role.starts_with("blk."))
    if (const size_t dot = role.find('.', 4); dot != std::string::npos) role.erase(0, dot + 1);
  return role;
}

bool FormatView::draw(const View& view, const api::TensorStudy& study, std::string& format, ImVec2 size) {
  const float gap = px(12), left = size.x * 0.42f, upper = std::max(px(250), size.y * 0.54f);
  bool changed = false;
  begin_card("scatter", {left, upper});
  changed |= draw_scatter(view, study, format);
  end_card();
  ImGui::SameLine(0, gap);
  begin_card("table", {size.x - left - gap, upper});
  changed |= draw_table(study, format);
  end_card();
  const Format* f = find(study, format);
  begin_card("errors", {left, size.y - upper - gap});
  f ? draw_errors(study, *f) : wrapped_text("Choose a format to see its errors.", theme().dim, fonts().small);
  end_card();
  ImGui::SameLine(0, gap);
  begin_card("mix", {size.x - left - gap, size.y - upper - gap});
  draw_mix(view, study, f);
  end_card();
  return changed;
}

bool FormatView::draw_scatter(const View& view, const api::TensorStudy& study, std::string& format) {
  const Theme& t = theme();
  segments("measure", {"SQNR, dB", "RMSE"}, measure_);
  ImGui::SameLine(0, px(10));
  if (static_cast<int>(study.formats.size()) < study.formats_to_try)
    dim_text(fmt::format("{} of {} tried…", study.formats.size(), study.formats_to_try));
  else
    ImGui::NewLine();
  const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
  const float left = px(measure_ == 0 ? 28 : 54), foot = px(32);
  const auto shown = [](const Format& f) { return f.bits_per_weight < kMaxBits && f.rmse > 0; };
  // dB in tens, RMSE in decades.
  double low = 0, high = 10;
  if (measure_ == 1) {
    low = high = study.rms > 0 ? std::log10(study.rms) : 0;
  }
  for (const Format& f : study.formats) {
    if (!shown(f)) continue;
    const double y = measure_ == 0 ? f.sqnr_db : std::log10(f.rmse);
    high = std::max(high, y);
    low = std::min(low, measure_ == 0 ? 0 : y);
  }
  if (measure_ == 0) {
    high = std::ceil(high / 10) * 10;
  } else {
    low = std::floor(low);
    high = std::max(std::ceil(high), low + 1);
  }
  const ImVec2 area{size.x - left - px(8), size.y - foot};
  const auto place = [&](double bits, double y) {
    return ImVec2(at.x + left + static_cast<float>(bits / kMaxBits) * area.x,
                  at.y + area.y * (1 - static_cast<float>(std::clamp((y - low) / (high - low), 0.0, 1.0))));
  };
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (double y = low; y <= high + 1e-9; y += measure_ == 0 ? 10 : 1) {
    const ImVec2 from = place(0, y);
    draw->AddLine(from, {from.x + area.x, from.y}, t.border);
    text_at({from.x - px(6), from.y - px(8)},
            measure_ == 0 ? fmt::format("{:g}", y) : fmt::format("{:.0e}", std::pow(10, y)), t.dim, fonts().small, 1);
  }
  for (int bits = 0; bits <= static_cast<int>(kMaxBits); bits += 2)
    text_at({place(bits, low).x, at.y + area.y + px(3)}, std::to_string(bits), t.dim, fonts().small, 0.5f);
  text_at({at.x + size.x - px(8), at.y + area.y + px(17)}, "bits per weight", t.dim, fonts().small, 1);
  for (const auto& tensor : view.now.model->tensors)
    if (tensor.name == study.tensor && tensor.bits_per_weight() < kMaxBits) {
      const ImVec2 stored = place(tensor.bits_per_weight(), high);
      draw->AddLine(stored, {stored.x, at.y + area.y}, with_alpha(t.amber, 0.6f));
      text_at({stored.x + px(5), at.y + area.y - px(20)}, fmt::format("stored: {}", study.type), t.amber,
              fonts().small);
    }
  const ImVec2 mouse = ImGui::GetMousePos();
  const Format* near = nullptr;
  float distance = px(12);
  std::vector<ImVec4> taken;
  for (const Format& f : study.formats) {
    if (!shown(f)) continue;
    const ImVec2 p = place(f.bits_per_weight, measure_ == 0 ? f.sqnr_db : std::log10(f.rmse));
    taken.emplace_back(p.x - px(5), p.y - px(5), p.x + px(5), p.y + px(5));
    const float away = std::hypot(p.x - mouse.x, p.y - mouse.y);
    if (away < distance) {
      distance = away;
      near = &f;
    }
    draw->AddCircleFilled(p, px(f.name == format ? 6.0f : 4.0f), f.writable ? t.accent : t.dim);
  }
  std::vector<Format> labelled = study.formats;
  std::ranges::stable_partition(labelled, [&](const Format& f) { return f.name == format; });
  for (const Format& f : labelled) {
    if (!shown(f)) continue;
    const ImVec2 p = place(f.bits_per_weight, measure_ == 0 ? f.sqnr_db : std::log10(f.rmse)),
                 text_size = size_of(f.name, fonts().small);
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
      taken.emplace_back(box.x - px(4), box.y, box.z + px(4), box.w);
      text_at({box.x, box.y}, f.name, f.name == format ? t.text : t.dim, fonts().small);
      break;
    }
  }
  ImGui::Dummy(size);
  if (!near || !ImGui::IsItemHovered()) return false;
  show_tooltip(describe(*near));
  if (!ImGui::IsMouseClicked(0) || near->name == format) return false;
  format = near->name;
  return true;
}

bool FormatView::draw_table(const api::TensorStudy& study, std::string& format) {
  bool changed = false;
  dim_text(fitting(
      {fmt::format("{} in each format · errors from −RMS to RMS ({})", role_of(study.tensor), number_text(study.rms)),
       fmt::format("{} · errors from −RMS to RMS ({})", role_of(study.tensor), number_text(study.rms)),
       fmt::format("Errors from −RMS to RMS ({})", number_text(study.rms))},
      ImGui::GetContentRegionAvail().x, fonts().small));
  std::vector<const Format*> rows;
  for (const Format& f : study.formats) rows.push_back(&f);
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, ImVec2(px(4), px(3)));
  if (ImGui::BeginTable("formats", 5,
                        ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                            ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate)) {
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn("Format", ImGuiTableColumnFlags_WidthFixed, px(74));
    ImGui::TableSetupColumn("Bits", ImGuiTableColumnFlags_WidthFixed | ImGuiTableColumnFlags_DefaultSort, px(42));
    ImGui::TableSetupColumn("RMSE", ImGuiTableColumnFlags_WidthFixed, px(60));
    ImGui::TableSetupColumn("SQNR", ImGuiTableColumnFlags_WidthFixed | ImGuiTableColumnFlags_PreferSortDescending,
                            px(54));
    ImGui::TableSetupColumn("Errors", ImGuiTableColumnFlags_WidthStretch | ImGuiTableColumnFlags_NoSort);
    ImGui::TableHeadersRow();
    if (const ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs(); specs && specs->SpecsCount > 0) {
      const int column = specs->Specs[0].ColumnIndex;
      const bool down = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
      std::ranges::stable_sort(rows, [&](const Format* x, const Format* y) {
        if (down) std::swap(x, y);
        switch (column) {
        case 0: return x->name < y->name;
        case 1: return x->bits_per_weight < y->bits_per_weight;
        case 2: return x->rmse < y->rmse;
        default: return x->sqnr_db < y->sqnr_db;
        }
      });
    }
    for (const Format* f : rows) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      if (ImGui::Selectable(f->name.c_str(), f->name == format, ImGuiSelectableFlags_SpanAllColumns) &&
          f->name != format) {
        format = f->name;
        changed = true;
      }
      tooltip(describe(*f));
      const auto number = [](const std::string& value) {
        ImGui::TableNextColumn();
        ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x -
                             ImGui::CalcTextSize(value.c_str()).x);
        ImGui::TextUnformatted(value.c_str());
      };
      number(fmt::format("{:.3f}", f->bits_per_weight));
      number(number_text(f->rmse));
      number(std::isfinite(f->sqnr_db) ? fmt::format("{:.1f} dB", f->sqnr_db) : "exact");
      ImGui::TableNextColumn();
      const float height = ImGui::GetTextLineHeight();
      if (ImGui::IsRectVisible({px(1), height}))
        draw_counts(f->errors_wide, ImGui::GetCursorScreenPos(), {ImGui::GetContentRegionAvail().x, height},
                    theme().accent);
    }
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  return changed;
}

void FormatView::draw_errors(const api::TensorStudy& study, const Format& f) {
  const Theme& t = theme();
  text(fmt::format("Errors of {}", f.name), t.text, fonts().bold);
  ImGui::SameLine(0, px(10));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
  dim_text(
      fitting({fmt::format("RMSE {} · {:.2g} of the RMS", number_text(f.rmse), study.rms > 0 ? f.rmse / study.rms : 0),
               fmt::format("RMSE {}", number_text(f.rmse)), ""},
              ImGui::GetContentRegionAvail().x, fonts().small));
  constexpr std::string_view kWhole[] = {"F64", "F32", "F16", "BF16"};
  if (std::ranges::find(kWhole, study.type) == std::end(kWhole))
    wrapped_text(fmt::format("errors are relative to an already quantized tensor ({})", study.type), t.amber,
                 fonts().small);
  const ImVec2 size = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
  const float height = size.y - px(36);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  if (f.max_error > 0) {
    const float rmse = size.x / 2 * static_cast<float>(f.rmse / f.max_error), middle = at.x + size.x / 2;
    draw_counts(f.errors, at, {size.x, height}, t.accent);
    for (const float side : {-rmse, rmse})
      draw->AddLine({middle + side, at.y}, {middle + side, at.y + height}, t.amber);
  }
  draw->AddLine({at.x, at.y + height}, {at.x + size.x, at.y + height}, t.border);
  text_at({at.x, at.y + height + px(4)}, number_text(-f.max_error), t.dim, fonts().small);
  text_at({at.x + size.x / 2, at.y + height + px(4)}, "0", t.dim, fonts().small, 0.5f);
  text_at({at.x + size.x, at.y + height + px(4)}, number_text(f.max_error), t.dim, fonts().small, 1);
  text_at({at.x, at.y + size.y - px(14)},
          fitting({"packed minus stored weight · lines: ± RMSE · √ heights",
                   "packed minus stored · lines: ± RMSE · √ heights", "packed minus stored · lines: ± RMSE"},
                  size.x, fonts().small),
          t.dim, fonts().small);
  ImGui::Dummy(size);
}

void FormatView::use(const std::string& role, const std::string& format) {
  const auto same = std::ranges::find(mix_, role, &Choice::role);
  if (same != mix_.end())
    same->format = format;
  else
    mix_.push_back({role, format});
  std::ranges::stable_partition(mix_, [](const Choice& c) { return !c.role.empty(); });
}

const std::string* FormatView::chosen(const std::string& tensor) const {
  const std::string role = role_of(tensor);
  for (const Choice& choice : mix_)
    if (choice.role.empty() || choice.role == role) return &choice.format;
  return nullptr;
}

api::QuantizeRequest FormatView::request(const api::ModelFacts& model) const {
  api::QuantizeRequest request;
  if (!model.built_in) request.input = model.path;
  request.output = output_;
  request.type = mix_.back().format;
  request.pure = request.allow_requantize = true;
  for (const Choice& choice : mix_)
    request.tensor_types.push_back(choice.role.empty()
                                       ? "." + ("=" + choice.format)
                                       : fmt::format(R"((^|\.){}\.weight$={})", choice.role, choice.format));
  return request;
}

void FormatView::draw_mix(const View& view, const api::TensorStudy& study, const Format* format) {
  const Theme& t = theme();
  const api::ModelFacts& model = *view.now.model;
  const std::string role = role_of(study.tensor);
  dim_text("Apply to the whole model");
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(6)));
  ImGui::PushFont(fonts().small);
  if (format && format->writable) {
    if (ImGui::Button(fmt::format("{} for all matrices", format->name).c_str())) use("", format->name);
    if (ImGui::GetItemRectSize().x + size_of(role, fonts().small).x + px(140) < ImGui::GetContentRegionAvail().x)
      ImGui::SameLine();
    if (ImGui::Button(fmt::format("{} for {}", format->name, role).c_str())) use(role, format->name);
  } else {
    dim_text(format ? fmt::format("{} cannot be written to GGUF files.", format->name) : "Choose a format above.");
  }
  ImGui::PopFont();
  ImGui::BeginChild("choices", {0, -px(104)});
  for (size_t i = 0; i < mix_.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    text(!mix_[i].role.empty() ? mix_[i].role : mix_.size() == 1 ? "all matrices" : "all other matrices", t.dim);
    ImGui::SameLine(ImGui::GetWindowWidth() - px(130));
    text(mix_[i].format, t.text, fonts().bold);
    ImGui::SameLine(ImGui::GetWindowWidth() - px(26));
    if (quiet_button("×")) mix_.erase(mix_.begin() + static_cast<long>(i--));
    ImGui::PopID();
  }
  if (mix_.empty()) {
    wrapped_text("Nothing chosen: all tensors stay unchanged.", theme().dim, fonts().small);
  }
  ImGui::EndChild();

  double bytes = 0;
  bool packed = false, all = true;
  for (const auto& tensor : model.tensors) {
    const std::string* type = tensor.quantizable ? chosen(tensor.name) : nullptr;
    const Format* known = type ? find(study, *type) : nullptr;
    all = all && (!type || known);
    bytes +=
        known ? known->bits_per_weight / 8 * static_cast<double>(tensor.weights) : static_cast<double>(tensor.bytes);
    packed = packed || (type && tensor.type != *type && !tensor.type.ends_with("16") && tensor.type != "F32");
  }
  ImGui::SetCursorPosY(ImGui::GetWindowHeight() - px(112));
  if (!mix_.empty() && all)
    dim_text(fmt::format("about {} instead of {}{}", core::human_bytes(bytes),
                         core::human_bytes(static_cast<double>(model.bytes)),
                         packed ? "; already quantized weights lose more" : ""));
  else
    dim_text(" ");
  if (!written_ && !mix_.empty()) {
    const bool file = model.path.ends_with(".gguf");
    output_ = (file ? model.path.substr(0, model.path.size() - 5) : "guide") + "-" +
              (mix_.size() == 1 ? mix_.back().format : "mix") + ".gguf";
  }
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##output", "output file", &output_)) written_ = true;
  tooltip("output file");
  // Every matrix needs a choice.
  const bool complete = !mix_.empty() && mix_.back().role.empty();
  const char* name = "Requantize the model";
  const bool pressed = complete ? accent_button(name, {-1, px(32)}) : ImGui::Button(name, {-1, px(32)});
  if (pressed && complete && !output_.empty()) {
    view.send(intent::StartJob{request(model)});
    written_ = false;
  }
  if (!complete) tooltip("Choose a format for all matrices first.");
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
