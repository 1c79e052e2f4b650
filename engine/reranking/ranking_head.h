// Scores a hidden row by a classification head, or by a decoder's preference of "yes" over "no".
#pragma once

#include "gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// True if the file names the pooling "rank", has a classification head, or is a Qwen3-Reranker language model.
bool is_reranker(const gguf::File& file);

class RankingHead {
 public:
  // Throws Error for no head, other than `width` inputs, or outputs that are neither one score nor yes and no.
  RankingHead(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width);

  bool reads_last() const { return reads_last_; } // otherwise scores the first token's row
  float logit(std::span<const float> row) const;

 private:
  struct Linear {
    std::vector<float> weights, bias; // weights: [outputs, inputs]
    int64_t inputs = 0;

    bool is_there() const { return inputs > 0; }
    std::vector<float> apply(std::span<const float> row) const;
  };
  static Linear read(const gguf::File& file, const std::string& name, int64_t inputs);
  void take_words(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width);

  bool reads_last_, gelu_;
  Linear dense_, out_;
  std::vector<float> norm_;
  float epsilon_ = 1e-5f;
};

} // namespace ridge::engine
