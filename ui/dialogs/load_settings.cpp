#include "ui/dialogs/load_settings.h"

#include "core/kv_divergence.h"
#include "core/units.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

constexpr float kLabel = 92; // units

void field(const char* label, const char* help, const std::string& value = "") {
  ImGui::AlignTextToFramePadding();
  text(label, theme().text, fonts().small);
  tooltip(help);
  ImGui::SameLine(px(kLabel));
  const float width = ImGui::GetContentRegionAvail().x;
  if (!value.empty()) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    text_at({at.x + width, at.y + px(4)}, value, theme().text, fonts().small, 1);
  }
  ImGui::SetNextItemWidth(value.empty() ? width : width - px(72));
}

bool choice(const char* id, std::string& value, const std::vector<std::string>& values) {
  bool changed = false;
  if (!ImGui::BeginCombo(id, value.c_str())) return false;
  for (const std::string& each : values) {
    const bool taken = ImGui::Selectable(each.c_str(), value == each);
    record_widget_position(each);
    if (taken && value != each) {
      value = each;
      changed = true;
    }
  }
  ImGui::EndCombo();
  return changed;
}

// Default (-1), powers of two, the trained context.
std::vector<int64_t> contexts(int64_t trained) {
  std::vector<int64_t> all = {-1};
  for (int64_t tokens = 1024; tokens < trained; tokens *= 2) all.push_back(tokens);
  if (trained > 0) all.push_back(trained);
  return all;
}

void memory_row(const char* name, const api::FitFacts::Device& device) {
  const auto size = [](double bytes) { return core::human_bytes(bytes); };
  text(name, theme().text, fonts().small);
  ImGui::SameLine(px(kLabel));
  const bool fits = device.total() <= device.free;
  text(fmt::format("{} of {} free", size(device.total()), size(device.free)), fits ? theme().text : theme().red,
       fonts().small);
  bar(static_cast<float>(device.total() / std::max(device.free, 1.0)), {0, px(6)}, fits ? theme().accent : theme().red);
  const std::pair<const char*, double> parts[] = {
      {"weights", device.weights}, {"KV cache", device.cache}, {"scratch", device.scratch}};
  for (const auto& [part, bytes] : parts) {
    dim_text(part);
    ImGui::SameLine(px(kLabel));
    dim_text(size(bytes));
  }
}

} // namespace

void LoadSettings::begin(const api::Snapshot& now) {
  options_ = now.options;
  gpus_ = options_.ranks.gpus;
  asked_.clear();
}

void LoadSettings::draw(const api::Snapshot& now, const std::function<void(api::Intent)>& send,
                        const std::string& path) {
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(6), px(6)));
  text("Load settings", theme().text, fonts().bold);
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(6), px(4)));
  const bool changed = draw_fields(now);
  ImGui::PopStyleVar();
  ImGui::PopFont();
  if (path != asked_ || changed) {
    asked_ = path;
    if (!path.empty()) send(intent::FitModel{path, options_});
  }
  ImGui::Dummy({0, px(2)});
  draw_fit(now, path);
  ImGui::PopStyleVar();
}

bool LoadSettings::draw_fields(const api::Snapshot& now) {
  bool changed = false;
  const int64_t trained = now.fit && now.fit->path == asked_ ? now.fit->trained_context : 0;
  constexpr int64_t kOffered = 32768;
  const std::vector<int64_t> sizes = contexts(std::max(trained > 0 ? trained : kOffered, options_.context));
  int chosen = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (options_.context >= sizes[i]) chosen = static_cast<int>(i);
  field("Context", "maximum tokens in a conversation; default: what the model was trained for, at most 8192",
        options_.context < 0 ? "default" : std::to_string(options_.context));
  if (ImGui::SliderInt("##context", &chosen, 0, static_cast<int>(sizes.size()) - 1, "")) {
    options_.context = sizes[static_cast<size_t>(chosen)];
    changed = true;
  }
  record_widget_position("context");
  field("Keys", "type of the keys in the KV cache: q8_0 takes about half the memory of f16, q4_0 about a quarter");
  const std::vector<std::string> types = core::kv_type_names();
  changed |= choice("##keys", options_.k_type, types);
  record_widget_position("keys");
  field("Values", "type of the values in the KV cache");
  changed |= choice("##values", options_.v_type, types);
  if (!now.gpus.empty()) {
    field("Runs on", "auto: a GPU with enough memory, otherwise the CPU");
    changed |= choice("##device", options_.device, {"auto", "cuda", "cpu"});
    const int layers = now.fit ? static_cast<int>(now.fit->layers) : 0;
    int on_gpu = static_cast<int>(std::min<int64_t>(options_.gpu_layers, layers));
    field("GPU layers", "number of layers on the GPU, counted from the last; the rest run on the CPU",
          on_gpu < 0 ? "automatic" : std::to_string(on_gpu));
    if (ImGui::SliderInt("##layers", &on_gpu, -1, std::max(layers, 0), "")) {
      options_.gpu_layers = on_gpu;
      changed = true;
    }
  }
  if (now.gpus.size() > 1) {
    field("GPUs", "GPU numbers, such as 0,1; empty: as few as hold the model");
    if (ImGui::InputText("##gpus", &gpus_)) {
      options_.ranks.gpus = gpus_;
      changed = true;
    }
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  field("Threads", "CPU threads", options_.threads == 0 ? "all" : std::to_string(options_.threads));
  changed |= ImGui::SliderInt("##threads", &options_.threads, 0, cores, "");
  if (options_.draft_model.empty()) {
    field("Speculation",
          "how tokens are drafted: by the model's own draft heads (mtp), or from the text so far (ngram)");
    changed |= choice("##speculation", options_.speculation, {"auto", "off", "mtp", "ngram"});
  }
  return changed;
}

void LoadSettings::draw_fit(const api::Snapshot& now, const std::string& path) const {
  if (path.empty()) return wrapped_text("Choose a model to see whether it fits.", theme().dim, fonts().small);
  if (!now.fit || now.fit->path != path) return dim_text("checking…");
  const api::FitFacts& fit = *now.fit;
  if (fit.problem.empty())
    text("It fits", theme().green, fonts().bold);
  else
    wrapped_text(fit.cpu || fit.gpu ? "It does not fit: " + fit.problem : fit.problem, theme().amber, fonts().small);
  if (fit.gpu) memory_row(fit.gpu_layers < fit.layers ? "GPU (part)" : "GPU", *fit.gpu);
  if (fit.cpu) memory_row(fit.gpu ? "CPU (rest)" : "CPU", *fit.cpu);
  if (fit.context > 0)
    wrapped_text(fmt::format("context of {} tokens; at most {} fit", fit.context, fit.largest_context), theme().dim,
                 fonts().small);
  const auto cost =
      core::highest_divergence(core::kv_type_of(options_.k_type), core::kv_type_of(options_.v_type), fit.context);
  if (const bool is_usual = options_.k_type == "f16" && options_.v_type == "f16"; cost && !is_usual && fit.context > 0)
    wrapped_text(fmt::format("these keys and values: in small models in fast mode {:.2g} of 100 tokens have another "
                             "likeliest one than with f32",
                             100 * (1 - cost->same_top)),
                 theme().dim, fonts().small);
  if (fit.tokens_per_s > 0)
    wrapped_text(
        fmt::format("at most {:.1f} tok/s, {:.1f} with a full context", fit.tokens_per_s, fit.full_tokens_per_s),
        theme().dim, fonts().small);
}

} // namespace ridge::ui
