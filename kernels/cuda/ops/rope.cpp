#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

void launch_rope(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::RopeParams>(call.op.params);
  RopeStoreArgs args = {};
  args.positions = call.positions;
  args.streams = call.streams;
  args.tokens = call.tokens;
  args.q_in = call.in[0];
  args.q_out = call.out[0];
  args.q_heads = static_cast<int>(params.heads);
  args.head_dim = static_cast<int>(params.head_dim);
  args.rotate = true;
  args.rope = call.rope;
  launch_rope_store(launch, args);
}

} // namespace ridge::kernels::cuda
