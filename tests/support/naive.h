// Reference evaluation of Programs in double precision over decoded weights, recomputing the whole history. Executors
// are compared with it. Ops are naive_NAME in tests/oracle/NAME.cpp.
#pragma once

#include "core/executor.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace ridge::tests {

class Naive {
 public:
  using Row = std::vector<double>;
  using Matrix = std::vector<Row>;
  struct Cached {
    Row k, v;
  };

  Naive(const core::Program& program, core::KvType k_type, core::KvType v_type)
      : program_(program), k_type_(k_type), v_type_(v_type) {}

  // Rounds inputs and matrices of products to f16, as kernels for prompts do.
  void round_products() { rounds_products_ = true; }
  void set_adapters(int32_t stream, std::vector<core::AdapterUse> uses) { adapters_[stream] = std::move(uses); }
  // Continues the streams; returns the logits of batch.outputs, concatenated.
  std::vector<float> forward(const core::Batch& batch);

  // For ops, during forward():
  const core::Program& program() const { return program_; }
  const core::Batch& batch() const { return *batch_; }
  int32_t stream(size_t token) const { return batch_->streams.empty() ? 0 : batch_->streams[token]; }
  Matrix& value(core::ValueId id) { return values_[id]; }
  const Row& in(const core::Op& op, size_t i, size_t row) const { return values_[op.inputs[i]][row]; }
  // Sets the first output by compute(row), per row of the first input or per token if there is none.
  void for_rows(const core::Op& op, const std::function<Row(size_t row)>& compute);

  Row weight_row(core::WeightId id, int64_t row) const;
  // The matrix that starts at `first_row`, times x.
  Row multiply(core::WeightId id, int64_t first_row, const double* x);

  const std::vector<core::AdapterUse>& adapters(int32_t stream) {
    return adapters_.try_emplace(stream, core::usual_adapters(program_.adapters)).first->second;
  }
  core::KvType k_type() const { return k_type_; }
  core::KvType v_type() const { return v_type_; }
  std::vector<Cached>& history(int32_t layer, int32_t stream) { return cache_[{layer, stream}]; }
  // A recurrent op's state; empty before the stream's first token.
  Matrix& states(int32_t state, size_t token) {
    Matrix& kept = states_[{state, stream(token)}];
    if (batch_->positions[token] == 0) kept.clear();
    return kept;
  }

 private:
  const core::Program& program_;
  const core::KvType k_type_, v_type_;
  bool rounds_products_ = false;
  const core::Batch* batch_ = nullptr;
  std::vector<Matrix> values_;
  std::map<std::pair<int32_t, int32_t>, std::vector<Cached>> cache_;
  std::map<std::pair<int32_t, int32_t>, Matrix> states_;
  std::map<int32_t, std::vector<core::AdapterUse>> adapters_; // by stream
  std::map<core::WeightId, Matrix> decoded_;
};

Naive::Row stored(Naive::Row row, core::KvType type);

// A row of latent_attention or chosen_attention for these positions.
Naive::Row attend_to_latent_keys(Naive& naive, const core::Op& op, size_t t, const std::vector<int64_t>& positions);

#define RIDGE_OP(name, ...) void naive_##name(Naive& naive, const core::Op& op);
#include "core/ops.def"
#undef RIDGE_OP

} // namespace ridge::tests
