// A text model's Program in f32 on the CPU, forward and backward over whole texts. For tuning: only ops of dense
// transformers, and no cache.
#pragma once

#include "convert/tuning/layer_ops.h"
#include "core/program.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ridge::convert::tuning {

class Network {
 public:
  // Name of an op without a gradient here; empty: none.
  static std::string obstacle(const core::Program& program);

  // Decodes the Program's weights. It must outlive this.
  Network(const core::Program& program, int64_t text_tokens);

  std::vector<float>& weight(core::WeightId id) { return weights_[static_cast<size_t>(id)]; } // [rows][cols]

  // Texts from position 0, one after the other. Returns logits of all tokens, valid until the next call.
  std::span<const float> forward(std::span<const int32_t> tokens);
  // The rows that the output matrix of the last forward() multiplied, and the logits of such rows.
  std::span<const float> rows_of_output() const { return value(program_.ops[output_].inputs[0]); }
  std::span<const float> logits_of(std::span<const float> rows);
  std::vector<float> take_logits() { return std::move(values_[static_cast<size_t>(program_.logits)]); }
  // Frees all that logits_of() does not need.
  void keep_output();
  // After forward(): gradients of the wanted weights, once per op that reads them.
  using OnGradient = std::function<void(core::WeightId id, std::span<const float> gradient)>;
  void backward(std::vector<float> of_logits, const std::vector<bool>& wanted, const OnGradient& each);

 private:
  using Values = std::vector<std::vector<float>>; // by ValueId: [tokens][width]
  int64_t width(core::ValueId id) const { return program_.values[static_cast<size_t>(id)].width; }
  const std::vector<float>& value(core::ValueId id) const { return values_[static_cast<size_t>(id)]; }
  std::vector<float>& gradient(core::ValueId id);
  struct Cached {
    core::ValueId k = -1, v = -1;
  };
  const Cached& cached_of(const core::Op& attention) const;
  Attention attention(const core::Op& op) const;
  void run(const core::Op& op, std::span<const int32_t> tokens);
  void run_back(const core::Op& op, const std::vector<bool>& wanted, const OnGradient& each);

  const core::Program& program_;
  const int64_t text_tokens_;
  int64_t tokens_ = 0;
  std::vector<std::vector<float>> weights_; // by WeightId
  Values values_, gradients_;
  std::vector<Cached> cached_;            // by layer of the cache
  const size_t output_;                   // the op that multiplies the output matrix
  std::vector<std::vector<float>> spare_; // of gradients, by capacity
  std::vector<float> of_weight_, activated_, slope_;
};

} // namespace ridge::convert::tuning
