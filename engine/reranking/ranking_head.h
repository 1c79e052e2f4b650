// What makes a score of a text's hidden row: the classification head of a cross-encoder, or how far a decoder prefers
// "yes" to "no".
#pragma once

#include "gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Whether the file gives scores: it names the pooling "rank", has a classification head, or is a Qwen3-Reranker as a
// language model.
bool is_reranker(const gguf::File& file);

class RankingHead {
 public:
  // Weights are decoded to f32. Throws Error where there is no head, its shape is not that of `width` inputs, or it has
  // other outputs than one score or yes and no.
  RankingHead(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width);

  bool reads_last() const { return reads_last_; } // the row is the last token's; else the first one's
  // The logit of the text being relevant.
  float logit(std::span<const float> row) const;

 private:
  struct Linear {
    std::vector<float> weights, bias; // [outputs, inputs]; bias: empty: none
    int64_t inputs = 0;

    bool is_there() const { return inputs > 0; }
    std::vector<float> apply(std::span<const float> row) const;
  };
  static Linear read(const gguf::File& file, const std::string& name, int64_t inputs);
  void take_words(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width);

  bool reads_last_, gelu_;
  Linear dense_, out_;      // dense_: may be absent
  std::vector<float> norm_; // behind the activation; empty: none
  float epsilon_ = 1e-5f;
};

} // namespace ridge::engine
