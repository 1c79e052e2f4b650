#include "gguf/shard_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::gguf {

std::string ShardName::path(int64_t shard) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, shard + 1, count);
}

std::optional<ShardName> shard_name(std::string_view path) {
  constexpr std::string_view kPattern = "-#####-of-#####.gguf";
  if (path.size() < kPattern.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kPattern.size());
  const bool matches = std::equal(tail.begin(), tail.end(), kPattern.begin(),
                                  [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
  if (!matches) return std::nullopt;
  return ShardName{std::string(path.substr(0, path.size() - kPattern.size())),
                   std::stoi(std::string(tail.substr(1, 5))), std::stoi(std::string(tail.substr(10, 5)))};
}

} // namespace ridge::gguf
