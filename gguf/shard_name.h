// How the files of a split model are named: NAME-00001-of-00003.gguf, counted from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::gguf {

struct ShardName {
  std::string stem;      // with the folder
  int64_t number, count; // as they are written: hostile names may have any

  std::string path(int64_t shard) const; // of the shard with this index, counted from 0
};

// Nothing where the name is no shard's.
std::optional<ShardName> shard_name(std::string_view path);

} // namespace ridge::gguf
