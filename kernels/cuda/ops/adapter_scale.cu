// Scales columns by their adapters' shares.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

struct AdapterScaleArgs {
  const float *x, *factors;
  const int32_t* adapter;
  float* out;
  int64_t elements, width, columns;
  const int32_t *positions, *streams, *outputs; // outputs null: every token has a row
  const core::AdapterUse* uses;                 // [streams][adapters]
  int64_t adapters;
};

__global__ void adapter_scale_kernel(AdapterScaleArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < args.elements; i += index_step()) {
    const int64_t row = i / args.width, column = i % args.width % args.columns;
    const int32_t token = args.outputs ? args.outputs[row] : static_cast<int32_t>(row);
    const core::AdapterUse use = args.uses[args.streams[token] * args.adapters + args.adapter[column]];
    const float scale = args.positions[token] >= use.from ? use.scale : 0;
    args.out[i] = scale == 0 ? 0 : args.x[i] * (scale * args.factors[column]); // 0 * infinity would be NaN
  }
}

} // namespace

void launch_adapter_scale(const Launch& launch, const OpCall& call) {
  const bool gathered = call.program.values[call.op.inputs[0]].gathered;
  const AdapterScaleArgs args = {.x = call.in[0],
                                 .factors = call.vector(0),
                                 .adapter = reinterpret_cast<const int32_t*>(call.weight_data[1]),
                                 .out = call.out[0],
                                 .elements = call.rows * call.out_width(0),
                                 .width = call.out_width(0),
                                 .columns = call.weight(1).cols,
                                 .positions = call.positions,
                                 .streams = call.streams,
                                 .outputs = gathered ? call.outputs : nullptr,
                                 .uses = call.adapters,
                                 .adapters = static_cast<int64_t>(call.program.adapters.size())};
  launch(adapter_scale_kernel, blocks_for(launch, args.elements), kElementThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
