#include "models/adapters/weight_change.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/file/planar.h"
#include "quant/registry.h"

namespace ridge::models {
namespace {

// [rows of all matrices][cols]
std::vector<float> decoded(const gguf::Tensor& tensor) {
  std::vector<float> numbers(tensor.weights());
  tensor.type.format()->decode(tensor.data.data(), tensor.weights(), numbers.data());
  return numbers;
}

} // namespace

WeightChange::WeightChange(std::span<const ScaledAdapter> adapters, const gguf::File& model, const std::string& tensor,
                           int64_t cols, int64_t rows, int64_t count)
    : cols_(cols), rows_(rows) {
  for (const ScaledAdapter& adapter : adapters) {
    const AdapterFile::Pair* pair = adapter.file->find(tensor);
    if (!pair) continue;
    adapter.file->check_shape(tensor, model, cols, rows, count);
    const bool is_table = tensor == kEmbeddingTable;
    Part part{is_table ? pair->a : pair->b, decoded(is_table ? *pair->b : *pair->a), pair->rank,
              adapter.scale * pair->factor};
    if (is_table) {
      const std::vector<float> b = std::move(part.basis);
      part.basis.resize(b.size());
      for (int64_t c = 0; c < cols; ++c)
        for (int64_t k = 0; k < pair->rank; ++k) part.basis[k * cols + c] = b[c * pair->rank + k];
    }
    parts_.push_back(std::move(part));
  }
}

void WeightChange::add_to(int64_t first, int64_t n, float* rows) const {
  std::vector<float> factors;
  for (const Part& part : parts_) {
    factors.resize(part.rank);
    const quant::FormatInfo& format = *part.factors->type.format();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = first + i;
      format.decode(part.factors->data.data() + row * format.row_bytes(part.rank), part.rank, factors.data());
      const float* basis = part.basis.data() + row / rows_ * part.rank * cols_;
      for (int64_t k = 0; k < part.rank; ++k) {
        const float factor = part.scale * factors[k];
        for (int64_t c = 0; c < cols_; ++c) rows[i * cols_ + c] += factor * basis[k * cols_ + c];
      }
    }
  }
}

void check_merging(std::span<const ScaledAdapter> adapters, const gguf::File& model) {
  const bool is_tied = !model.find_tensor("output.weight");
  for (const ScaledAdapter& adapter : adapters) {
    const std::string& path = adapter.file->file().path();
    adapter.file->check_architecture(model);
    if (!adapter.file->invocation().empty())
      throw_error("{}: active only after certain tokens of a text, so it cannot be merged", path);
    for (const auto& [tensor, pair] : adapter.file->pairs()) {
      if (is_tied && (tensor == kEmbeddingTable || tensor == "output.weight"))
        throw_error("{}: changes {}, which is both embedding and output matrix in {}, so it cannot be merged", path,
                    tensor, model.path());
      if (!model.find_tensor(tensor) && !PlanarWeight::find(model, tensor))
        throw_error("{}: changes {}, which {} does not contain: is it an adapter for another model?", path,
                    core::printable(tensor), model.path());
    }
  }
}

} // namespace ridge::models
