#include "kernels/cuda/executor/packed_adapters.h"

#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/matvec/pack_adapter.h"
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/plan/packed_adapters.h"

#include <algorithm>
#include <numeric>

namespace ridge::kernels::cuda {
namespace {

template <typename Visit>
void visit_changed(const Plan& adapted, const Visit& visit) {
  for (const Step& step : adapted.steps)
    if (const MatrixStep* m = step.matrix(); m && m->has_changes()) visit(*m);
}

} // namespace

PackedAdapters::PackedAdapters(const core::Program& program, const Plan* adapted) {
  if (!adapted) return;
  memory_ = DeviceMemory(packed_adapter_bytes(program, adapted), "the adapters");
  uint8_t* at = memory_.as();
  visit_changed(*adapted, [&](const MatrixStep& m) {
    const AdapterBytes bytes = adapter_bytes(program, m);
    const ProductDesc desc = desc_of(program, m, 1);
    AdapterArgs& args = products_[m.change()->a];
    args.a = reinterpret_cast<uint16_t*>(std::exchange(at, at + bytes.a));
    args.b = reinterpret_cast<uint16_t*>(std::exchange(at, at + bytes.b));
    args.factors = reinterpret_cast<float*>(std::exchange(at, at + bytes.factors));
    args.adapters = reinterpret_cast<int32_t*>(std::exchange(at, at + bytes.adapters));
    args.columns = static_cast<int>(desc.adapter_columns());
    for (int i = 0; i < desc.parts; ++i) {
      args.first[i] = args.padded;
      args.ranks[i] = static_cast<int>(padded_rank(desc.ranks[i]));
      args.padded += args.ranks[i];
    }
  });
}

void PackedAdapters::make(const core::Program& program, const Plan& adapted, const DeviceWeights& weights,
                          const Launch& launch) const {
  int64_t most_rows = 0, most_floats = 0;
  const auto visit_weights = [&](const MatrixStep& m, const auto& visit) {
    for (const MatrixStep::Part& part : m.parts)
      if (part.change.scale) visit(part, program.weights[part.change.a], program.weights[part.change.b]);
  };
  visit_changed(adapted, [&](const MatrixStep& m) {
    visit_weights(m, [&](const MatrixStep::Part&, const core::Weight& a, const core::Weight& b) {
      most_rows = std::max({most_rows, a.rows, b.rows});
      most_floats = std::max({most_floats, a.rows * a.cols, b.rows * b.cols});
    });
  });
  std::vector<int32_t> rows(most_rows);
  std::iota(rows.begin(), rows.end(), 0);
  const DeviceMemory ids(rows.size() * sizeof(int32_t), "the upload buffer"),
      decoded(most_floats * sizeof(float), "the upload buffer");
  RIDGE_CUDA(cudaMemcpyAsync(ids.as(), rows.data(), ids.bytes(), cudaMemcpyHostToDevice, launch.stream));
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), launch.stream)); // the padding
  visit_changed(adapted, [&](const MatrixStep& m) {
    const AdapterArgs& args = products_.at(m.change()->a);
    const int row_block = row_block_rows(desc_of(program, m, 1).format.tile_bytes);
    int64_t segment = 0, result = 0; // the first result of a segment among those of the product
    visit_weights(m, [&](const MatrixStep::Part& part, const core::Weight& a, const core::Weight& b) {
      for (; &m.parts[segment] != &part; ++segment)
        result += core::round_up(program.weights[m.parts[segment].weight].rows, row_block);
      const auto decode = [&](core::WeightId id) {
        const core::Weight& w = program.weights[id];
        format_kernels(w.type).embed(launch, weights[id].data, w.cols, ids.as<int32_t>(), static_cast<int>(w.rows),
                                     decoded.as<float>());
      };
      const int64_t first = args.first[segment];
      auto* const factors = const_cast<float*>(args.factors) + first;
      decode(part.change.a);
      pack_adapter_a(launch, decoded.as<float>(), a.rows, a.cols, weights.vector(m.norm),
                     weights.vector(part.change.scale->weights[0]), const_cast<uint16_t*>(args.a) + first * a.cols,
                     factors);
      decode(part.change.b);
      pack_adapter_b(launch, decoded.as<float>(), b.rows, b.cols,
                     const_cast<uint16_t*>(args.b) + (m.glu ? first : result * args.columns), args.columns, factors);
      RIDGE_CUDA(cudaMemcpyAsync(const_cast<int32_t*>(args.adapters) + first,
                                 weights[part.change.scale->weights[1]].data, a.rows * sizeof(int32_t),
                                 cudaMemcpyDeviceToDevice, launch.stream));
    });
  });
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

} // namespace ridge::kernels::cuda
