// One GGUF file's bytes, walked once and checked; File puts the shards of a model together from these.
#pragma once

#include "gguf/gguf.h"

#include <string>
#include <string_view>
#include <utility>

namespace ridge::gguf {

// Finds items by name. Sorted, not hashed: names come from hostile files, which could make every hash collide.
class NameIndex {
 public:
  void add(std::string_view name) { sorted_.emplace_back(name, static_cast<uint32_t>(sorted_.size())); }
  // After the last add. Returns the first item, in order of addition, whose name an earlier item has.
  std::optional<uint32_t> sort();
  std::optional<uint32_t> find(std::string_view name) const; // its place in the order of addition

 private:
  std::vector<std::pair<std::string_view, uint32_t>> sorted_;
};

struct Parsed {
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  std::vector<KeyValue> metadata;
  NameIndex keys;
  std::vector<Tensor> tensors; // shard = 0; names may repeat, File checks that over all shards
};

// Throws Error, which begins with `label`. The result holds views into `image`.
Parsed parse(std::span<const std::byte> image, std::string_view label);

// The likely kind of a file that does not begin with "GGUF", and what to do about it: "a safetensors file; …".
std::string likely_kind(std::span<const std::byte> image);

// The rules that reading and writing share: why a name (a key's or a tensor's) or an alignment is refused; empty where
// it is not.
std::string name_problem(std::string_view name);
std::string alignment_problem(const Value& alignment);

// A key or tensor in messages: 'name', printable.
std::string quoted_name(std::string_view name);

inline uint64_t align_up(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

} // namespace ridge::gguf
