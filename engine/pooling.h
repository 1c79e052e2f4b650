// Makes a text's vector from its tokens' hidden states.
#pragma once

#include "gguf/gguf.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::engine {

enum class Pooling : uint8_t {
  none, // one vector per token
  mean,
  cls,
  last,
};

// Throws a usage Error for unknown names.
Pooling pooling_of_name(std::string_view name);

// Reads ARCHITECTURE.pooling_type, if present. For a reranker it is the scored token, first or last. Throws Error for
// unknown values.
std::optional<Pooling> pooling_of_file(const gguf::File& file);

// rows: [tokens, width], at least one.
std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling);

// Scales to length 1; zeros stay zeros.
void normalize(std::span<float> vector);

} // namespace ridge::engine
