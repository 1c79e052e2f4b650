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

PackedAdapters::PackedAdapters(const core::Program& program, const Plan* adapted, bool prompts) : prompts_(prompts) {
  if (!adapted) return;
  memory_ = DeviceMemory(packed_adapter_bytes(program, adapted, prompts), "the adapters");
  uint8_t* at = memory_.as();
  visit_changed(*adapted, [&](const MatrixStep& m) {
    const AdapterBytes bytes = adapter_bytes(program, m, prompts);
    const ProductDesc desc = desc_of(program, m, 1);
    PromptAdapter& product = products_[m.change()->a];
    AdapterArgs& args = product.args;
    const auto take = [&](auto& pointer, int64_t of) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(std::exchange(at, at + of));
    };
    take(args.a, bytes.a);
    take(args.b, bytes.b);
    take(args.factors, bytes.factors);
    take(args.adapters, bytes.adapters);
    product.a = args.a;
    if (bytes.prompt_a > 0) take(product.a, bytes.prompt_a);
    take(product.factors, bytes.prompt_values / 2);
    take(product.limits, bytes.prompt_values / 2);
    args.columns = static_cast<int>(desc.adapter_columns());
    int64_t rows = 0;
    for (int i = 0; i < desc.parts; ++i) {
      args.first[i] = args.padded;
      args.ranks[i] = static_cast<int>(padded_rank(desc.ranks[i]));
      args.padded += args.ranks[i];
      if (desc.gated) continue;
      product.first_row[i] = rows;
      rows += core::round_up(desc.rows[i], row_block_rows(desc.format.tile_bytes));
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
    const PromptAdapter& product = products_.at(m.change()->a);
    const AdapterArgs& args = product.args;
    size_t s = 0;
    visit_weights(m, [&](const MatrixStep::Part& part, const core::Weight& a, const core::Weight& b) {
      while (&m.parts[s] != &part) ++s;
      const auto decode = [&](core::WeightId id) {
        const core::Weight& w = program.weights[id];
        format_kernels(w.type).embed(launch, weights[id].data, w.cols, ids.as<int32_t>(), static_cast<int>(w.rows),
                                     decoded.as<float>());
      };
      const int64_t first = args.first[s];
      const auto writable = [&](const float* values) { return const_cast<float*>(values) + first; };
      const auto pack_a = [&](const float* norm, const uint16_t* to, const float* factors) {
        pack_adapter_a(launch, decoded.as<float>(), a.rows, a.cols, norm, weights.vector(part.change.scale->weights[0]),
                       const_cast<uint16_t*>(to) + first * a.cols, writable(factors));
      };
      decode(part.change.a);
      pack_a(weights.vector(m.norm), args.a, args.factors);
      if (prompts_) pack_a(nullptr, product.a, product.factors);
      decode(part.change.b);
      uint16_t* const to_b = const_cast<uint16_t*>(args.b) + (m.glu ? first : product.first_row[s] * args.columns);
      pack_adapter_b(launch, decoded.as<float>(), b.rows, b.cols, to_b, args.columns, writable(args.factors),
                     prompts_ ? writable(product.factors) : nullptr);
      if (prompts_)
        balance_prompt_adapter(launch, {.a = product.a + first * a.cols,
                                        .b = to_b,
                                        .rank = a.rows,
                                        .cols = a.cols,
                                        .rows = b.rows,
                                        .stride = args.columns,
                                        .factors = writable(product.factors),
                                        .more_factors = writable(args.factors),
                                        .limits = writable(product.limits)});
      RIDGE_CUDA(cudaMemcpyAsync(const_cast<int32_t*>(args.adapters) + first,
                                 weights[part.change.scale->weights[1]].data, a.rows * sizeof(int32_t),
                                 cudaMemcpyDeviceToDevice, launch.stream));
    });
  });
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

void PackedAdapters::add_bounds(const core::Program& program, const MatrixStep& m,
                                const std::function<ProductBound*(core::WeightId)>& bound_of,
                                const Launch& launch) const {
  const PromptAdapter& product = products_.at(m.change()->a);
  const AdapterArgs& args = product.args;
  for (size_t s = 0; s < m.parts.size(); ++s)
    add_adapter_bound(launch, args.b + (m.glu ? args.first[s] : product.first_row[s] * args.columns),
                      program.weights[m.parts[s].weight].rows, args.columns, args.ranks[s],
                      product.limits + args.first[s], bound_of(m.parts[s].weight));
}

} // namespace ridge::kernels::cuda
