// The content of the model's file.
#include "core/units.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <map>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::ModelFacts;

constexpr ImGuiTableFlags kTable = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                                   ImGuiTableFlags_Resizable | ImGuiTableFlags_PadOuterX;

bool contains(const std::string& text, const std::string& part) {
  return std::ranges::search(text, part, [](char a, char b) { return std::tolower(a) == std::tolower(b); }).begin() !=
             text.end() ||
         part.empty();
}

void number_cell(const std::string& number, float share = -1, ImU32 color = 0) {
  const float width = ImGui::GetContentRegionAvail().x;
  if (share >= 0) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float height = ImGui::GetTextLineHeight();
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + px(1)},
                                              {at.x + std::max(px(1), width * share), at.y + height}, color, px(3));
  }
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + width - size_of(number, ImGui::GetFont()).x - px(2));
  ImGui::TextUnformatted(number.c_str());
}

// "blk.3.attn_norm [512]" -> "attn_norm [512]"
std::string without_layer(std::string values, const std::string& op) {
  if (!op.starts_with("blk.")) return values;
  const std::string layer = op.substr(0, op.find('.', 4) + 1);
  for (size_t at = 0; (at = values.find(layer, at)) != std::string::npos;) values.erase(at, layer.size());
  return values;
}

class ModelPanel : public Panel {
 public:
  void draw(const View& view) override {
    const ModelFacts& model = *view.now.model;
    if (&model != model_) {
      model_ = &model;
      order_.clear();
    }
    title(model.label);
    dim_text(fmt::format(
        "{} · {} weights · {} on disk · {:.2f} bits per weight · vocabulary {} · trained for {} tokens · {}",
        model.architecture, count_text(static_cast<double>(model.parameters)),
        core::human_bytes(static_cast<double>(model.bytes)),
        8.0 * static_cast<double>(model.bytes) / static_cast<double>(std::max<int64_t>(1, model.parameters)),
        model.vocab, model.trained_context, model.path));
    ImGui::Dummy({0, px(2)});
    if (!ImGui::BeginTabBar("views")) return;
    const auto tab = [&](const char* name, auto draw_tab) {
      const bool wanted = wanted_tab_ && std::string_view(wanted_tab_) == name;
      if (!ImGui::BeginTabItem(name, nullptr, wanted ? ImGuiTabItemFlags_SetSelected : 0)) return;
      ImGui::Dummy({0, px(2)});
      draw_tab();
      ImGui::EndTabItem();
    };
    tab("Tensors", [&] { draw_tensors(model); });
    tab("Metadata", [&] { draw_metadata(model); });
    tab("Program", [&] { draw_program(model); });
    if (model.has_tokenizer) tab("Tokenizer", [&] { draw_tokenizer(view); });
    wanted_tab_ = nullptr;
    ImGui::EndTabBar();
  }

  bool show(std::string_view part) override {
    constexpr std::pair<const char*, const char*> kParts[] = {{"tensors", "Tensors"},
                                                              {"layers", "Tensors"},
                                                              {"metadata", "Metadata"},
                                                              {"program", "Program"},
                                                              {"tokenizer", "Tokenizer"}};
    for (const auto& [name, tab_name] : kParts)
      if (part == name) {
        wanted_tab_ = tab_name;
        by_layer_ = part == "layers";
        return true;
      }
    return false;
  }

 private:
  void draw_filter(const char* hint) {
    ImGui::SetNextItemWidth(px(280));
    ImGui::InputTextWithHint("##filter", hint, &filter_);
  }

  void sort_tensors(const ModelFacts& model) {
    ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
    if (!order_.empty() && !(specs && specs->SpecsDirty)) return;
    order_.resize(model.tensors.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    if (specs && specs->SpecsCount > 0) {
      const int column = specs->Specs[0].ColumnIndex;
      const bool down = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
      std::ranges::stable_sort(order_, [&](size_t x, size_t y) {
        const auto &a = model.tensors[down ? y : x], &b = model.tensors[down ? x : y];
        switch (column) {
        case 0: return a.name < b.name;
        case 1: return a.type < b.type;
        case 2: return a.weights < b.weights;
        case 3: return a.weights < b.weights;
        case 4: return a.bytes < b.bytes;
        default: return a.bits_per_weight() < b.bits_per_weight();
        }
      });
      specs->SpecsDirty = false;
    }
  }

  static void draw_tensor(const ModelFacts::TensorRow& t, double largest, double most_bits) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(t.name.c_str());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(t.type.c_str());
    ImGui::TableNextColumn();
    text(t.shape, theme().dim);
    draw_sizes(static_cast<double>(t.weights), static_cast<double>(t.bytes), largest, most_bits);
  }

  static void draw_sizes(double weights, double bytes, double largest, double most_bits) {
    const double bits = 8 * bytes / weights;
    ImGui::TableNextColumn();
    number_cell(count_text(weights));
    ImGui::TableNextColumn();
    number_cell(core::human_bytes(bytes), static_cast<float>(bytes / largest), theme().series[0]);
    ImGui::TableNextColumn();
    number_cell(fmt::format("{:.3f}", bits), static_cast<float>(bits / most_bits), theme().series[2]);
  }

  // One row per layer in model order, one for the rest; tensors in table order.
  static void draw_layers(const ModelFacts& model, const std::vector<size_t>& rows, double largest, double most_bits) {
    struct Layer {
      double weights = 0, bytes = 0;
      std::vector<size_t> tensors;
    };
    std::map<int, Layer> layers;
    for (const size_t i : rows) {
      Layer& layer = layers[model.tensors[i].layer];
      layer.weights += static_cast<double>(model.tensors[i].weights);
      layer.bytes += static_cast<double>(model.tensors[i].bytes);
      layer.tensors.push_back(i);
    }
    double largest_layer = 1;
    for (const auto& [_, layer] : layers) largest_layer = std::max(largest_layer, layer.bytes);
    for (const auto& [number, layer] : layers) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      const bool open = ImGui::TreeNodeEx(number < 0 ? "outside the layers" : fmt::format("layer {}", number).c_str(),
                                          ImGuiTreeNodeFlags_SpanFullWidth);
      ImGui::TableNextColumn();
      ImGui::TableNextColumn();
      text(fmt::format("{} tensors", layer.tensors.size()), theme().dim);
      draw_sizes(layer.weights, layer.bytes, largest_layer, most_bits);
      if (!open) continue;
      for (const size_t i : layer.tensors) draw_tensor(model.tensors[i], largest, most_bits);
      ImGui::TreePop();
    }
  }

  void draw_tensors(const ModelFacts& model) {
    draw_filter("Filter by name or type");
    ImGui::SameLine(0, px(14));
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
    int grouped = by_layer_;
    if (segments("order", {"Tensors", "Layers"}, grouped)) by_layer_ = grouped == 1;
    int64_t largest = 1;
    double most_bits = 1;
    for (const auto& t : model.tensors) {
      largest = std::max(largest, t.bytes);
      most_bits = std::max(most_bits, t.bits_per_weight());
    }
    ImGui::PushFont(fonts().small);
    if (ImGui::BeginTable("tensors", 6, kTable | ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate, {0, 0})) {
      ImGui::TableSetupScrollFreeze(0, 1);
      const auto column = [](const char* name, float width, int flags = 0) {
        ImGui::TableSetupColumn(
            name, (width > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_WidthStretch) | flags,
            width > 0 ? px(width) : 1);
      };
      column("Tensor", 0);
      column("Type", 64);
      const bool narrow = ImGui::GetWindowWidth() < px(900);
      column("Shape", narrow ? 96 : 110);
      column("Weights", narrow ? 66 : 72, ImGuiTableColumnFlags_PreferSortDescending);
      column("Bytes", narrow ? 110 : 140, ImGuiTableColumnFlags_PreferSortDescending);
      column("Bits per weight", narrow ? 104 : 120, ImGuiTableColumnFlags_PreferSortDescending);
      ImGui::TableHeadersRow();
      sort_tensors(model);
      std::vector<size_t> rows;
      for (const size_t i : order_)
        if (contains(model.tensors[i].name, filter_) || contains(model.tensors[i].type, filter_)) rows.push_back(i);
      if (by_layer_) {
        draw_layers(model, rows, static_cast<double>(largest), most_bits);
      } else {
        ImGuiListClipper clipper;
        clipper.Begin(static_cast<int>(rows.size()));
        while (clipper.Step())
          for (int r = clipper.DisplayStart; r < clipper.DisplayEnd; ++r)
            draw_tensor(model.tensors[rows[static_cast<size_t>(r)]], static_cast<double>(largest), most_bits);
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  void draw_metadata(const ModelFacts& model) {
    draw_filter("Filter by key or value");
    ImGui::PushFont(fonts().small);
    if (ImGui::BeginTable("metadata", 3, kTable, {0, 0})) {
      ImGui::TableSetupScrollFreeze(0, 1);
      ImGui::TableSetupColumn("Key", ImGuiTableColumnFlags_WidthFixed, px(300));
      ImGui::TableSetupColumn("Type", ImGuiTableColumnFlags_WidthFixed, px(110));
      ImGui::TableSetupColumn("Value", ImGuiTableColumnFlags_WidthStretch);
      ImGui::TableHeadersRow();
      for (const auto& field : model.metadata) {
        if (!contains(field.key, filter_) && !contains(field.value, filter_)) continue;
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(field.key.c_str());
        ImGui::TableNextColumn();
        text(field.type, theme().dim);
        ImGui::TableNextColumn();
        ImGui::PushTextWrapPos(0);
        ImGui::TextUnformatted(field.value.c_str());
        ImGui::PopTextWrapPos();
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  void draw_program(const ModelFacts& model) {
    draw_filter("Filter by op");
    ImGui::SameLine(0, px(14));
    ImGui::AlignTextToFramePadding();
    dim_text(fmt::format("{} ops; bytes and FLOPs of one token at the start of the context", model.ops.size()));
    double most = 1;
    for (const auto& op : model.ops) most = std::max(most, op.bytes);
    std::vector<const ModelFacts::OpRow*> rows;
    for (const auto& op : model.ops)
      if (contains(op.name, filter_) || contains(op.kind, filter_)) rows.push_back(&op);
    ImGui::PushFont(fonts().small);
    if (ImGui::BeginTable("program", 7, kTable, {0, 0})) {
      ImGui::TableSetupScrollFreeze(0, 1);
      ImGui::TableSetupColumn("Op", ImGuiTableColumnFlags_WidthFixed, px(96));
      ImGui::TableSetupColumn("Name", ImGuiTableColumnFlags_WidthFixed, px(130));
      ImGui::TableSetupColumn("Reads", ImGuiTableColumnFlags_WidthStretch, 1);
      ImGui::TableSetupColumn("Writes", ImGuiTableColumnFlags_WidthStretch, 0.8f);
      ImGui::TableSetupColumn("Weights", ImGuiTableColumnFlags_WidthFixed, px(130));
      ImGui::TableSetupColumn("Bytes", ImGuiTableColumnFlags_WidthFixed, px(90));
      ImGui::TableSetupColumn("FLOPs", ImGuiTableColumnFlags_WidthFixed, px(64));
      ImGui::TableHeadersRow();
      ImGuiListClipper clipper;
      clipper.Begin(static_cast<int>(rows.size()));
      while (clipper.Step())
        for (int r = clipper.DisplayStart; r < clipper.DisplayEnd; ++r) {
          const ModelFacts::OpRow& op = *rows[static_cast<size_t>(r)];
          ImGui::TableNextRow();
          const std::string inputs = without_layer(op.inputs, op.name), output = without_layer(op.output, op.name);
          for (const std::string* cell : {&op.kind, &op.name, &inputs, &output, &op.weights}) {
            ImGui::TableNextColumn();
            text(*cell, cell == &op.kind ? theme().text : theme().dim);
            if (ImGui::GetItemRectSize().x > ImGui::GetContentRegionAvail().x) tooltip(*cell);
          }
          ImGui::TableNextColumn();
          number_cell(core::human_bytes(op.bytes), static_cast<float>(op.bytes / most), theme().series[0]);
          ImGui::TableNextColumn();
          number_cell(count_text(op.flops));
        }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  void draw_tokenizer(const View& view) {
    if (ImGui::InputTextMultiline("##text", &playground_, {-1, px(110)}) || !asked_) {
      asked_ = true;
      view.send(intent::Tokenize{playground_});
    }
    const auto& tokenized = view.now.tokenized;
    if (!tokenized) {
      asked_ = asked_ && view.now.error_number == 0;
      return;
    }
    const auto& pieces = tokenized->pieces;
    dim_text(fmt::format(
        "{} tokens · {} bytes · {:.2f} bytes per token", pieces.size(), tokenized->text.size(),
        pieces.empty() ? 0.0 : static_cast<double>(tokenized->text.size()) / static_cast<double>(pieces.size())));
    ImGui::BeginChild("tokens");
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const float width = ImGui::GetContentRegionAvail().x, pad = px(7), gap = px(4), height = px(44);
    float x = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto& piece = pieces[i];
      std::string shown = piece.text;
      for (size_t at = 0; (at = shown.find(' ', at)) != std::string::npos; at += 2) shown.replace(at, 1, "·");
      const std::string id = std::to_string(piece.id);
      const float box = std::max(size_of(shown, fonts().mono).x, size_of(id, fonts().small).x) + 2 * pad;
      if (i > 0 && x + box <= width) {
        ImGui::SameLine(0, gap);
      } else {
        x = 0;
      }
      x += box + gap;
      const ImVec2 at = ImGui::GetCursorScreenPos();
      ImGui::Dummy({box, height});
      if (!ImGui::IsItemVisible()) continue;
      draw->AddRectFilled(at, {at.x + box, at.y + height}, piece.special ? theme().border : theme().series[i % 7],
                          px(5));
      text_at({at.x + box / 2, at.y + px(4)}, shown, theme().text, fonts().mono, 0.5f);
      text_at({at.x + box / 2, at.y + px(25)}, id, mix(theme().text, theme().series[i % 7], 0.25f), fonts().small,
              0.5f);
      tooltip(fmt::format("token {}{}: \"{}\"", piece.id, piece.special ? ", special" : "", piece.text));
    }
    ImGui::EndChild();
  }

  bool by_layer_ = false;
  const char* wanted_tab_ = nullptr;  // to select in the next frame
  const ModelFacts* model_ = nullptr; // source of order_
  std::vector<size_t> order_;
  std::string filter_;
  std::string playground_ =
      "The ridge point is where a kernel stops being memory-bound.\nTokens: naïve café, 3.14159, x += 1;";
  bool asked_ = false;
};

} // namespace

std::unique_ptr<Panel> make_model_panel() { return std::make_unique<ModelPanel>(); }

} // namespace ridge::ui
