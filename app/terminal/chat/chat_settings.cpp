// /set: changes options during a chat.
#include "app/terminal/chat/chat.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/kv_type.h"
#include "core/strings/closest.h"
#include "core/strings/printable.h"
#include "engine/adapters/adapters.h"
#include "engine/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ridge::app {
namespace {

constexpr int kSettingWidth = 19;

const std::vector<std::string> kSwitch = {"on", "off"};

bool is_on(const std::string& text) {
  if (text != "on" && text != "off") throw_error("expected on or off, found '{}'", core::printable(text));
  return text == "on";
}

std::string switch_text(bool on) { return on ? "on" : "off"; }

template <typename Number>
Number number_from(const std::string& text, Number least, Number most) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw_error("'{}' is not a number from {} to {}", core::printable(text), least, most);
  return value;
}

std::string text_or_none(const std::string& text) { return text.empty() ? "none" : text; }
std::string none_is_empty(const std::string& text) { return text == "none" ? "" : text; }

} // namespace

void Chat::change_sampling(const std::function<void(api::SamplingOptions&)>& change) {
  api::SamplingOptions changed = request_.sampling;
  change(changed);
  core::validate(changed.params);
  std::swap(request_.sampling, changed);
  try {
    model_.renew_answerer();
  } catch (...) { // the grammar does not parse
    std::swap(request_.sampling, changed);
    throw;
  }
}

void Chat::change_model(const std::function<void(api::ModelOptions&)>& change) {
  if (!picture_files_.empty())
    throw_error("the conversation has images or audio encoded for this model; use /clear first");
  api::ModelOptions changed = model_.options();
  const std::vector<float> scales = std::exchange(request_.sampling.adapter_scales, {}); // reset to the model's own
  for (size_t i = 0; i < scales.size(); ++i) changed.adapters[i].scale = scales[i];
  try {
    change(changed);
    model_.reopen(changed);
  } catch (...) {
    request_.sampling.adapter_scales = scales;
    throw;
  }
  warned_full_ = false;
}

void Chat::lora(const std::string& what) {
  const std::vector<core::Adapter>& adapters = model_.loaded().program.adapters;
  std::vector<float> scales = request_.sampling.adapter_scales;
  if (scales.empty())
    for (const core::Adapter& adapter : adapters) scales.push_back(adapter.scale);
  const size_t space = what.find_first_of(" \t");
  const bool is_number = !what.empty() && what.find_first_not_of("0123456789") == std::min(space, what.size());
  if (what.empty() && adapters.empty()) return note("[no LoRA adapters; /lora FILE loads one]");
  if (what == "off") {
    std::ranges::fill(scales, 0.0f);
  } else if (is_number) {
    if (adapters.empty()) throw_error("/lora: no adapters; /lora FILE loads one");
    const auto number = number_from<int64_t>(what.substr(0, space), 0, std::ssize(adapters) - 1);
    if (space == std::string::npos) throw_error("/lora {}: the scale is missing; it is {} now", number, scales[number]);
    scales[number] = static_cast<float>(number_from<double>(trim(what.substr(space)), -1000, 1000));
  } else if (!what.empty()) {
    const std::vector<api::AdapterOption> more = engine::parse_adapters(what);
    change_model([&](api::ModelOptions& o) { o.adapters.insert(o.adapters.end(), more.begin(), more.end()); });
    return lora("");
  }
  if (!what.empty()) change_sampling([&](api::SamplingOptions& o) { o.adapter_scales = scales; });
  for (size_t i = 0; i < adapters.size(); ++i)
    note(fmt::format("[{}: {}, scale {}]", i, core::printable(adapters[i].name), scales[i]));
}

std::vector<Chat::Setting> Chat::settings() {
  std::vector<Setting> all;
  for (const engine::SamplingSetting& each : engine::sampling_settings())
    all.push_back({each.name,
                   {},
                   [this, &each] { return each.get(request_.sampling); },
                   [this, &each](const std::string& text) {
                     change_sampling([&](api::SamplingOptions& o) {
                       each.set(o, text);
                       o.chosen.emplace_back(each.name);
                     });
                   }});
  const auto sampling = [&](std::string_view name, std::vector<std::string> values, auto get, auto set) {
    all.push_back(
        {name, std::move(values), [this, get] { return get(request_.sampling); },
         [this, set](const std::string& text) { change_sampling([&](api::SamplingOptions& o) { set(o, text); }); }});
  };
  using Sampling = api::SamplingOptions;
  sampling(
      "stop", {"none"}, [](const Sampling& o) { return o.stop.empty() ? "none" : o.stop.front(); },
      [](Sampling& o, const std::string& text) {
        o.stop.clear();
        if (text != "none") o.stop.push_back(text);
      });
  sampling(
      "ignore-eos", kSwitch, [](const Sampling& o) { return switch_text(o.ignore_eos); },
      [](Sampling& o, const std::string& text) { o.ignore_eos = is_on(text); });
  const auto constrain = [&](std::string_view name, std::string Sampling::*one, std::string Sampling::*other) {
    sampling(
        name, {"none"}, [one](const Sampling& o) { return text_or_none(o.*one); },
        [one, other](Sampling& o, const std::string& text) {
          o.*one = none_is_empty(text);
          (o.*other).clear();
          o.grammar_file.clear();
        });
  };
  constrain("grammar", &Sampling::grammar, &Sampling::json_schema);
  constrain("json-schema", &Sampling::json_schema, &Sampling::grammar);
  all.push_back({"thinking",
                 {"on", "off", "auto"},
                 [this] { return request_.chat_template.thinking.empty() ? "auto" : request_.chat_template.thinking; },
                 [this](const std::string& text) {
                   request_.chat_template.thinking = text == "auto" ? "" : switch_text(is_on(text));
                   model_.renew_conversation();
                 }});
  all.push_back({"context-shift", kSwitch, [this] { return switch_text(options_.context_shift); },
                 [this](const std::string& text) { options_.context_shift = is_on(text); }});
  all.push_back({"markdown", kSwitch, [this] { return switch_text(options_.markdown); },
                 [this](const std::string& text) { options_.markdown = is_on(text); }});
  const auto model = [&](std::string_view name, std::vector<std::string> values, auto get, auto set) {
    all.push_back(
        {name, std::move(values), [this, get]() -> std::string { return get(model_.options()); },
         [this, set](const std::string& text) { change_model([&](api::ModelOptions& o) { set(o, text); }); }});
  };
  using Model = api::ModelOptions;
  model(
      "ctx-size", {}, [this](const Model&) { return fmt::format("{}", session().context()); },
      [](Model& o, const std::string& text) { o.context = number_from<int64_t>(text, 0, int64_t{1} << 31); });
  model(
      "threads", {}, [](const Model& o) { return o.threads == 0 ? "auto" : fmt::format("{}", o.threads); },
      [](Model& o, const std::string& text) { o.threads = number_from<int>(text, 1, 1024); });
  model(
      "gpu-layers", {}, [](const Model& o) { return o.gpu_layers < 0 ? "auto" : fmt::format("{}", o.gpu_layers); },
      [](Model& o, const std::string& text) { o.gpu_layers = number_from<int64_t>(text, -1, 1 << 20); });
  const auto word = [&](std::string_view name, std::vector<std::string> values, std::string Model::*field) {
    model(
        name, values, [field](const Model& o) { return o.*field; },
        [field, values](Model& o, const std::string& text) {
          if (std::ranges::find(values, text) == values.end())
            throw_error("'{}' is not one of {}", core::printable(text), fmt::join(values, ", "));
          o.*field = text;
        });
  };
  word("cache-type-k", core::kv_type_names(), &Model::k_type);
  word("cache-type-v", core::kv_type_names(), &Model::v_type);
  word("spec", {"auto", "off", "mtp", "ngram", "draft"}, &Model::speculation);
  return all;
}

void Chat::set(const std::string& assignment) {
  const std::vector<Setting> all = settings();
  if (assignment.empty()) {
    for (const Setting& setting : all) print_row(setting.name, kSettingWidth, core::printable(setting.get(), 300));
    return;
  }
  const size_t space = assignment.find_first_of(" \t=");
  const std::string name = assignment.substr(0, space),
                    value = space == std::string::npos ? "" : trim(assignment.substr(space + 1));
  const auto setting = std::ranges::find(all, name, &Setting::name);
  if (setting == all.end()) {
    std::vector<std::string_view> names;
    for (const Setting& each : all) names.push_back(each.name);
    const std::string meant = core::did_you_mean(name, names);
    throw_error("/set: unknown option '{}'{}", core::printable(name), meant.empty() ? "; /set lists them" : meant);
  }
  if (value.empty())
    throw_error("/set {}: the value is missing; it is {} now{}", name, setting->get(),
                setting->values.empty() ? "" : fmt::format("; {}", fmt::join(setting->values, ", ")));
  setting->set(value);
  note(fmt::format("[{} = {}]", name, core::printable(setting->get(), 300)));
}

} // namespace ridge::app
