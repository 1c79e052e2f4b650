#include "ui/panels/job_form.h"

#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <filesystem>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::JobKind;

constexpr const char* kKinds[] = {"convert", "quantize", "bench", "roofline"}; // in JobKind's order
constexpr const char* kConversions[] = {"unchanged", "f16", "bf16", "f32", "q8_0"};
constexpr const char* kMethods[] = {"plain", "awq", "gptq", "round", "awq+gptq", "awq+round"};

// File name without .gguf, or folder name.
std::string stem(const std::string& path) {
  std::filesystem::path p = path;
  if (p.filename().empty()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

std::string parent(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "" : folder.ends_with('/') ? folder : folder + "/";
}

void dim_wrapped(const char* what) {
  ImGui::Dummy({0, px(2)});
  wrapped_text(what, theme().dim, fonts().small);
}

void text_field(const char* id, std::string& text, float width) {
  ImGui::SetNextItemWidth(width);
  ImGui::InputText(id, &text);
}

// Empty: the guide.
std::string open_file(const View& view) {
  const auto& model = view.now.model;
  return model && !model->built_in ? model->path : "";
}

} // namespace

bool JobForm::show(std::string_view kind) {
  for (int i = 0; i < IM_ARRAYSIZE(kKinds); ++i)
    if (kind == kKinds[i]) {
      kind_ = i;
      return true;
    }
  return false;
}

void JobForm::show_conversion(const std::string& folder) {
  kind_ = static_cast<int>(JobKind::convert);
  convert_.input = folder;
  converted_.chosen = false;
}

void JobForm::show_quantization(const api::QuantizeRequest& explored, const api::FrontierPoint& point) {
  kind_ = static_cast<int>(JobKind::quantize);
  model_ = explored.input;
  quantize_ = explored;
  method_ = static_cast<int>(std::ranges::find(kMethods, explored.method) - kMethods);
  types_ = point.recipe.empty() ? by_size : by_recipe;
  quantize_.type = point.recipe.empty() ? "Q4_K_M" : point.recipe;
  quantize_.target_size = fmt::format("{}", point.bytes);
  quantized_.chosen = false;
}

void JobForm::draw(const View& view) {
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(5)));
  segments("kind", {"Convert", "Quantize", "Bench", "Roofline"}, kind_);
  ImGui::Dummy({0, px(2)});
  missing_.clear();
  switch (kind()) {
  case JobKind::convert: draw_convert(); break;
  case JobKind::quantize: draw_quantize(view); break;
  case JobKind::bench: draw_bench(view); break;
  case JobKind::roofline: draw_roofline(view); break;
  case JobKind::pull: break; // not in this form
  }
  draw_start(view);
  ImGui::PopStyleVar();
}

void JobForm::require(bool condition, const char* otherwise) {
  if (!condition && missing_.empty()) missing_ = otherwise;
}

// Returns true if typed. Sets `chosen` if the dialog gave it.
bool JobForm::path_field(const char* id, std::string& path, const char* hint, FileDialog::For what, const char* heading,
                         bool* chosen) {
  ImGui::PushID(id);
  ImGui::SetNextItemWidth(-px(44));
  const bool changed = ImGui::InputTextWithHint("##path", hint, &path);
  ImGui::SameLine(0, px(6));
  if (ImGui::Button("…", {px(38), 0}))
    dialog_.ask(what, heading, path, [&path, chosen](const std::string& taken) {
      path = taken;
      if (chosen) *chosen = true;
    });
  tooltip(heading);
  ImGui::PopID();
  return changed;
}

void JobForm::draw_model_field(const View& view, FileDialog::For what, const char* heading) {
  path_field("model", model_, view.now.model ? "the open model" : "a model file", what, heading);
}

void JobForm::draw_convert() {
  field_label("Checkpoint");
  path_field("checkpoint", convert_.input, "folder with config.json", FileDialog::For::checkpoint,
             "Choose the folder of a checkpoint");
  field_label("Type for unquantized matrices");
  ImGui::SetNextItemWidth(-1);
  ImGui::Combo("##type", &conversion_, kConversions, IM_ARRAYSIZE(kConversions));
  require(!convert_.input.empty(), "Choose a folder first.");
  draw_output(converted_, suggested_conversion());
}

std::string JobForm::suggested_conversion() const {
  if (convert_.input.empty()) return "";
  const std::string suffix = conversion_ ? fmt::format("-{}", kConversions[conversion_]) : "";
  return parent(convert_.input) + stem(convert_.input) + suffix + ".gguf";
}

void JobForm::draw_quantize(const View& view) {
  field_label("Model");
  draw_model_field(view, FileDialog::For::model, "Choose a model to quantize");
  draw_types(view);
  draw_method();
  ImGui::Checkbox("requantize packed types (additional loss)", &quantize_.allow_requantize);
  if (types_ != explore) draw_output(quantized_, suggested_quantization(view));
}

void JobForm::draw_types(const View& view) {
  field_label("Types");
  segments("how", {"By recipe", "By size", "Explore"}, types_);
  ImGui::SetNextItemWidth(-1);
  if (types_ == explore)
    return dim_wrapped("Measures every recipe and mixes of the same sizes for you to choose from.");
  if (types_ == by_size) {
    ImGui::InputTextWithHint("##size", "4.2GiB", &quantize_.target_size);
    dim_text("Chooses the type of each tensor by the effect of its errors.");
    require(!quantize_.target_size.empty(), "Enter the file size.");
    return;
  }
  if (!ImGui::BeginCombo("##recipe", quantize_.type.c_str(), ImGuiComboFlags_HeightLarge)) return;
  for (const auto& recipe : view.now.job_choices->recipes) {
    if (ImGui::Selectable(fmt::format("{:<10}##", recipe.name).c_str(), recipe.name == quantize_.type))
      quantize_.type = recipe.name;
    ImGui::SameLine(px(150));
    dim_text(fmt::format("from {:.2f} bits per weight", recipe.bits_per_weight));
  }
  ImGui::EndCombo();
}

void JobForm::draw_method() {
  field_label("Method");
  ImGui::SetNextItemWidth(-1);
  ImGui::Combo("##method", &method_, kMethods, IM_ARRAYSIZE(kMethods));
  if (method_ > 0 || types_ != by_recipe) {
    field_label(method_ > 0 ? "Calibration text" : "Measurement text (optional)");
    path_field("calibration", quantize_.calibration,
               method_ > 0 ? "a text like the intended input" : "generated by the model", FileDialog::For::any,
               "Choose a calibration text");
    require(method_ == 0 || !quantize_.calibration.empty(), "awq, gptq and round need a calibration text.");
  }
  if (method_ == 0) {
    field_label("Importance matrix (optional)");
    path_field("imatrix", quantize_.imatrix, "none", FileDialog::For::any, "Choose an importance matrix");
  }
}

std::string JobForm::suggested_quantization(const View& view) const {
  if (model_.empty() && !view.now.model) return "";
  const std::string from = !model_.empty() ? model_ : open_file(view);
  return fmt::format("{}{}-{}.gguf", parent(from), from.empty() ? "guide" : stem(from),
                     types_ == by_size ? quantize_.target_size : quantize_.type);
}

void JobForm::draw_bench(const View& view) {
  field_label("Model");
  draw_model_field(view, FileDialog::For::any, "Choose a model to measure");
  const float third = (ImGui::GetContentRegionAvail().x - px(16)) / 3;
  field_label("Tokens: prompt, generated, already in the context");
  text_field("##prompts", bench_.prompts, third);
  ImGui::SameLine();
  text_field("##generated", bench_.generated, third);
  ImGui::SameLine();
  text_field("##depths", bench_.depths, third);
  field_label("Repetitions");
  ImGui::SetNextItemWidth(-1);
  ImGui::SliderInt("##repetitions", &bench_.repetitions, 1, 20, "%d", ImGuiSliderFlags_AlwaysClamp);
  dim_wrapped("Numbers or lists: 512 or 128,512,2048. Every combination is measured and compared with this machine's "
              "memory bandwidth.");
}

void JobForm::draw_roofline(const View& view) {
  field_label("Shapes and steps from");
  draw_model_field(view, FileDialog::For::any, "Choose a model for the roofline");
  dim_wrapped("Measures this machine's limits, then compares every format's kernels and whole steps of the model with "
              "them. Takes some minutes; the machine should be idle.");
}

void JobForm::draw_output(OutputPath& output, const std::string& suggestion) {
  if (!output.chosen) output.path = suggestion;
  field_label("Output file");
  if (path_field("output", output.path, "OUT.gguf", FileDialog::For::save, "Choose the output file", &output.chosen))
    output.chosen = true;
  require(!output.path.empty(), "Choose an output file.");
  std::error_code ignored;
  if (!output.path.empty() && std::filesystem::exists(output.path, ignored))
    text("This file exists and will be replaced.", theme().amber, fonts().small);
}

void JobForm::draw_start(const View& view) {
  static constexpr const char* kLabels[] = {"Convert", "Quantize", "Measure speed", "Measure the machine"};
  ImGui::Dummy({0, px(4)});
  const ImVec2 size{-1, px(34)};
  const bool ready = missing_.empty();
  const char* name = kind() == JobKind::quantize && types_ == explore ? "Explore" : kLabels[kind_];
  const bool pressed = ready ? accent_button(name, size) : ImGui::Button(name, size);
  if (!ready) tooltip(missing_);
  if (!pressed || !ready) return;
  view.send(intent::StartJob{request(view)});
  converted_.chosen = quantized_.chosen = false;
}

api::JobRequest JobForm::request(const View& view) const {
  const std::string model = !model_.empty() ? model_ : open_file(view);
  switch (kind()) {
  case JobKind::convert: {
    api::ConvertRequest convert = convert_;
    convert.output = converted_.path;
    convert.type = conversion_ ? kConversions[conversion_] : "";
    return convert;
  }
  case JobKind::quantize: {
    api::QuantizeRequest quantize = quantize_;
    quantize.input = model;
    quantize.explore = types_ == explore;
    quantize.output = quantize.explore ? "" : quantized_.path;
    if (types_ != by_size) quantize.target_size.clear();
    if (types_ != by_recipe) quantize.type.clear();
    quantize.method = kMethods[method_];
    if (method_ > 0) quantize.imatrix.clear();
    if (method_ == 0 && types_ == by_recipe) quantize.calibration.clear();
    return quantize;
  }
  case JobKind::bench: {
    api::BenchRequest bench = bench_;
    bench.files = {model};
    return bench;
  }
  case JobKind::roofline:
  case JobKind::pull: break;
  }
  api::RooflineRequest roofline;
  roofline.file = model;
  return roofline;
}

} // namespace ridge::ui
