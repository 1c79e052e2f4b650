// Rows of the embedding table, by token.
#include "kernels/cuda/executor/format_kernels.h"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

void launch_embed(const Launch& launch, const OpCall& call) {
  format_kernels(call.weight(0).type)
      .embed(launch, call.weight_data[0], call.out_width(0), call.token_ids, call.tokens, call.out[0]);
}

} // namespace ridge::kernels::cuda
