// Parses one GGUF file; File joins shards.
#pragma once

#include "gguf/gguf.h"

#include <string>
#include <string_view>
#include <utility>

namespace ridge::gguf {

// Sorted, not hashed: hostile names could make all hashes collide.
class NameIndex {
 public:
  void add(std::string_view name) { sorted_.emplace_back(name, static_cast<uint32_t>(sorted_.size())); }
  // After the last add. Returns the first item with an earlier item's name.
  std::optional<uint32_t> sort();
  std::optional<uint32_t> find(std::string_view name) const; // order of addition

 private:
  std::vector<std::pair<std::string_view, uint32_t>> sorted_;
};

struct Parsed {
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  std::vector<KeyValue> metadata;
  NameIndex keys;
  std::vector<Tensor> tensors; // shard = 0; names may repeat across shards
};

// Throws Error that begins with `label`. The result refers to `image`.
Parsed parse(std::span<const std::byte> image, std::string_view label);

// Kind and advice for other files: "a safetensors file; …".
std::string likely_kind(std::span<const std::byte> image);

// Why a name or alignment is invalid; empty if it is valid.
std::string name_problem(std::string_view name);
std::string alignment_problem(const Value& alignment);

// Printable.
std::string quoted_name(std::string_view name);

inline uint64_t align_up(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

} // namespace ridge::gguf
