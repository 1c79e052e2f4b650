#include "convert/import/config/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::convert::import {
namespace {

constexpr size_t kMaxEndTokens = 64;

struct Param {
  const char *field, *key;
  bool integer;
  double low, high;
};
constexpr Param kParams[] = {
    {"temperature", "temp", false, 0, 100},
    {"top_k", "top_k", true, 0, INT32_MAX},
    {"top_p", "top_p", false, 0, 1},
    {"min_p", "min_p", false, 0, 1},
    {"repetition_penalty", "penalty_repeat", false, 0.01, 100},
};

} // namespace

void read_sampling(JsonFiles& files, gguf::Metadata& metadata, std::vector<std::string>& notes) {
  const Json& file = files.get("generation_config.json");
  if (!file.is_object()) return;
  const Fields fields(file, files.path("generation_config.json"));
  if (!fields.get_bool("do_sample", true)) return;
  for (const Param& param : kParams) {
    const std::optional<double> value = fields.find_number(param.field);
    if (!value) continue;
    const bool fits = *value >= param.low && *value <= param.high && (!param.integer || *value == std::floor(*value));
    const std::string key = fmt::format("general.sampling.{}", param.key);
    if (!fits)
      notes.push_back(
          fmt::format("generation_config.json: {} is {}, which is out of range: ignored", param.field, *value));
    else if (param.integer)
      metadata.set(key, static_cast<int32_t>(*value));
    else
      metadata.set(key, static_cast<float>(*value));
  }
}

std::vector<int64_t> end_tokens(JsonFiles& files) {
  std::vector<int64_t> ids;
  const auto add = [&](const Json& id) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX || ids.size() == kMaxEndTokens) return;
    if (std::ranges::find(ids, id.get<int64_t>()) == ids.end()) ids.push_back(id.get<int64_t>());
  };
  for (const char* name : {"generation_config.json", "config.json"}) {
    const Json& file = files.get(name);
    if (!file.is_object() || !file.contains("eos_token_id")) continue;
    const Json& value = file["eos_token_id"];
    if (value.is_array())
      std::ranges::for_each(value, add);
    else
      add(value);
    if (!ids.empty()) break;
  }
  return ids;
}

} // namespace ridge::convert::import
