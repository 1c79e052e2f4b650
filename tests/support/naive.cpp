#include "support/naive.h"

#include "quant/registry.h"

namespace ridge::tests {
namespace {

using Meaning = void (*)(Naive&, const core::Op&);
constexpr Meaning kMeaning[] = {
#define RIDGE_OP(name, ...) naive_##name,
#include "core/ops.def"
#undef RIDGE_OP
};

} // namespace

std::vector<float> Naive::forward(const core::Batch& batch) {
  batch_ = &batch;
  values_.assign(program_.values.size(), {});
  if (program_.input >= 0) {
    const int64_t width = program_.values[program_.input].width;
    for (auto at = batch.input.begin(); at != batch.input.end(); at += width)
      values_[program_.input].emplace_back(at, at + width);
  }
  for (const core::Op& op : program_.ops) kMeaning[static_cast<size_t>(op.kind)](*this, op);
  std::vector<float> logits;
  for (const Row& row : values_[program_.logits]) logits.insert(logits.end(), row.begin(), row.end());
  return logits;
}

void Naive::for_rows(const core::Op& op, const std::function<Row(size_t row)>& compute) {
  const size_t rows = op.inputs.empty() ? batch_->tokens.size() : values_[op.inputs[0]].size();
  for (size_t row = 0; row < rows; ++row) values_[op.outputs[0]].push_back(compute(row));
}

Naive::Row Naive::weight_row(core::WeightId id, int64_t row) const {
  const core::Weight& w = program_.weights[id];
  std::vector<float> out(w.cols);
  quant::find_format(w.type)->decode(w.row(row), w.cols, out.data());
  return Row(out.begin(), out.end());
}

Naive::Row Naive::multiply(core::WeightId id, int64_t first_row, const double* x) {
  const core::Weight& w = program_.weights[id];
  Row out(w.rows), in(x, x + w.cols);
  if (rounds_products_) in = stored(std::move(in), core::KvType::f16);
  Matrix& decoded = decoded_[id];
  decoded.resize(w.rows * w.count);
  for (int64_t r = 0; r < w.rows; ++r) {
    Row& row = decoded[first_row + r];
    if (row.empty()) {
      row = weight_row(id, first_row + r);
      if (rounds_products_) row = stored(std::move(row), core::KvType::f16);
    }
    for (int64_t c = 0; c < w.cols; ++c) out[r] += row[c] * in[c];
  }
  return out;
}

} // namespace ridge::tests
