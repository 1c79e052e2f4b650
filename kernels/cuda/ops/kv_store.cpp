#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

void launch_kv_store(const Launch& launch, const OpCall& call) {
  RopeStoreArgs args = {};
  args.positions = call.positions;
  args.streams = call.streams;
  args.tokens = call.tokens;
  args.cache = call.cache;
  args.k_in = call.in[0];
  args.v_in = call.in[1];
  args.k_heads = args.cache.heads;
  args.head_dim = args.cache.k_dim;
  args.store = true;
  launch_rope_store(launch, args);
}

} // namespace ridge::kernels::cuda
