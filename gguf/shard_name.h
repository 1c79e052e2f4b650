// NAME-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::gguf {

struct ShardName {
  std::string stem;      // with the folder
  int64_t number, count; // as written, unchecked

  std::string path(int64_t shard) const; // shard: from 0
};

std::optional<ShardName> shard_name(std::string_view path);

} // namespace ridge::gguf
