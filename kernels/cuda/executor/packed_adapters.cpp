#include "kernels/cuda/executor/packed_adapters.h"

#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/matvec/pack_adapter.h"
#include "kernels/cuda/plan/packed_adapters.h"

#include <algorithm>
#include <numeric>

namespace ridge::kernels::cuda {
namespace {

template <typename Visit>
void visit_changes(const Plan& adapted, const Visit& visit) {
  for (const Step& step : adapted.steps)
    if (const MatrixStep* m = step.matrix())
      for (const MatrixStep::Part& part : m->parts)
        if (part.change.scale) visit(*m, part.change);
}

} // namespace

PackedAdapters::PackedAdapters(const core::Program& program, const Plan* adapted) {
  if (!adapted) return;
  memory_ = DeviceMemory(packed_adapter_bytes(program, adapted), "the adapters");
  uint8_t* at = memory_.as();
  visit_changes(*adapted, [&](const MatrixStep&, const MatrixStep::Change& change) {
    const AdapterSizes sizes = adapter_sizes(program, change);
    AdapterSegment segment;
    segment.a = reinterpret_cast<uint16_t*>(std::exchange(at, at + sizes.a_bytes()));
    segment.b = reinterpret_cast<uint16_t*>(std::exchange(at, at + sizes.b_bytes()));
    segment.factors = reinterpret_cast<float*>(std::exchange(at, at + sizes.factor_bytes()));
    segment.rank = static_cast<int>(sizes.rank);
    segment.padded_rank = static_cast<int>(sizes.padded_rank);
    segments_[change.a] = segment;
  });
}

void PackedAdapters::make(const core::Program& program, const Plan& adapted, const DeviceWeights& weights,
                          const Launch& launch) const {
  int64_t most_rows = 0, most_floats = 0;
  visit_changes(adapted, [&](const MatrixStep&, const MatrixStep::Change& change) {
    const AdapterSizes sizes = adapter_sizes(program, change);
    most_rows = std::max({most_rows, sizes.rank, sizes.rows});
    most_floats = std::max({most_floats, sizes.rank * sizes.cols, sizes.rows * sizes.rank});
  });
  std::vector<int32_t> rows(most_rows);
  std::iota(rows.begin(), rows.end(), 0);
  const DeviceMemory ids(rows.size() * sizeof(int32_t), "the upload buffer"),
      decoded(most_floats * sizeof(float), "the upload buffer");
  RIDGE_CUDA(cudaMemcpyAsync(ids.as(), rows.data(), ids.bytes(), cudaMemcpyHostToDevice, launch.stream));
  visit_changes(adapted, [&](const MatrixStep& m, const MatrixStep::Change& change) {
    const AdapterSegment& segment = segments_.at(change.a);
    const auto decode = [&](core::WeightId id) {
      const core::Weight& w = program.weights[id];
      format_kernels(w.type).embed(launch, weights[id].data, w.cols, ids.as<int32_t>(), static_cast<int>(w.rows),
                                   decoded.as<float>());
    };
    const AdapterSizes sizes = adapter_sizes(program, change);
    decode(change.a);
    pack_adapter_a(launch, segment, decoded.as<float>(), weights.vector(m.norm),
                   weights.vector(change.scale->weights[0]), sizes.cols);
    decode(change.b);
    pack_adapter_b(launch, segment, decoded.as<float>(), sizes.rows);
  });
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

} // namespace ridge::kernels::cuda
