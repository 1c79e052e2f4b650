// From the hidden states of a text's tokens to the vector of the text.
#pragma once

#include "gguf/gguf.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::engine {

enum class Pooling : uint8_t {
  none, // a vector for each token
  mean, // of all tokens
  cls,  // of the first token
  last, // of the last token
};

// none, mean, cls or last; throws Error (usage) for another name.
Pooling pooling_of_name(std::string_view name);

// What the file names as ARCHITECTURE.pooling_type; nothing where it names none. Throws Error for a value that is
// unknown. A reranker's scores are made from its first or last token, whose vector counts here.
std::optional<Pooling> pooling_of_file(const gguf::File& file);

// `rows` has the hidden states [tokens, width], at least one. Gives one vector of `width`, or all with Pooling::none.
std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling);

// Divides by the Euclidean length. A vector of zeros stays what it is.
void normalize(std::span<float> vector);

} // namespace ridge::engine
