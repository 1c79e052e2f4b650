#include "engine/adapters/adapters.h"

#include "core/error.h"
#include "core/random.h"
#include "engine/prefixes/prefix_store.h"
#include "models/adapters/add_adapters.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

namespace ridge::engine {
namespace {

constexpr double kMaxScale = 1000;

int64_t find_last(std::span<const int32_t> text, const std::vector<int32_t>& part) {
  const auto found = std::ranges::find_end(text, part);
  return found.empty() ? -1 : found.begin() - text.begin();
}

api::AdapterOption parse_adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text};
  api::AdapterOption option{text.substr(0, colon)};
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  if (const auto [at, error] = std::from_chars(begin, end, option.scale);
      error != std::errc() || at != end || !(std::abs(option.scale) <= kMaxScale))
    throw Error(fmt::format("--lora {}: '{}' is not a scale from -{} to {}", text, text.substr(colon + 1), kMaxScale,
                            kMaxScale),
                Error::kUsage);
  return option;
}

} // namespace

std::vector<api::AdapterOption> parse_adapters(const std::string& text) {
  std::vector<api::AdapterOption> adapters;
  if (std::filesystem::exists(text)) return {{text}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) throw Error(fmt::format("--lora {}: the file name is missing", text), Error::kUsage);
    adapters.push_back(parse_adapter(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return adapters;
}

LoadedModel with_adapters(LoadedModel model, std::span<const api::AdapterOption> adapters) {
  std::vector<models::ScaledAdapter> scaled;
  for (const api::AdapterOption& adapter : adapters) {
    model.adapters.push_back(std::make_shared<const models::AdapterFile>(models::AdapterFile::open(adapter.file)));
    scaled.push_back({model.adapters.back().get(), static_cast<float>(adapter.scale)});
  }
  models::add_adapters(model.program, model.file, scaled);
  return model;
}

std::vector<core::AdapterUse> adapter_uses(std::span<const core::Adapter> adapters, std::span<const float> scales,
                                           std::span<const int32_t> text) {
  if (!scales.empty() && scales.size() != adapters.size())
    throw_error("scales given for {} adapters, but the model has {}", scales.size(), adapters.size());
  std::vector<core::AdapterUse> uses;
  for (size_t i = 0; i < adapters.size(); ++i) {
    const float scale = scales.empty() ? adapters[i].scale : scales[i];
    if (!(std::abs(scale) <= kMaxScale))
      throw_error("adapter {}: the scale is {}, expected -{} to {}", i, scale, kMaxScale, kMaxScale);
    const int64_t from = adapters[i].invocation.empty() ? 0 : find_last(text, adapters[i].invocation);
    uses.push_back({scale, from < 0 ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(from)});
  }
  return uses;
}

std::vector<int32_t> marked_text(std::span<const int32_t> text, std::span<const core::Adapter> adapters,
                                 std::span<const core::AdapterUse> uses) {
  std::set<int32_t> starts;
  for (const core::AdapterUse& use : uses)
    if (use.scale != 0 && use.from < std::ssize(text)) starts.insert(use.from);
  if (starts.empty()) return {};
  std::vector<int32_t> marked(text.begin(), text.end());
  for (const int32_t start : starts) {
    auto hash = static_cast<uint64_t>(static_cast<uint32_t>(text[start]));
    for (size_t i = 0; i < uses.size(); ++i)
      if (const float scale = uses[i].at(start); scale != 0)
        hash = core::mix_bits(hash ^ adapters[i].fingerprint) + core::mix_bits(std::bit_cast<uint32_t>(scale));
    marked[start] = adapter_mark(core::mix_bits(hash));
  }
  return marked;
}

} // namespace ridge::engine
