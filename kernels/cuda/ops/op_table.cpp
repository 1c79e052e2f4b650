#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {

#define RIDGE_PLAIN_matrix(what, name)
#define RIDGE_PLAIN_attention(what, name)
#define RIDGE_PLAIN_exchange(what, name)
#define RIDGE_PLAIN_cache(what, name) what(name)
#define RIDGE_PLAIN_vector(what, name) what(name)
#define RIDGE_PLAIN_routing(what, name) what(name)
#define RIDGE_PLAIN_memory(what, name) what(name)
#define RIDGE_PLAIN_recurrent(what, name) what(name)

#define RIDGE_DECLARE(name) void launch_##name(const Launch&, const OpCall&);
#define RIDGE_OP(name, inputs, outputs, weights, roles, params, op_class, flops)                                       \
  RIDGE_PLAIN_##op_class(RIDGE_DECLARE, name)
#include "core/ops.def"
#undef RIDGE_OP

LaunchOp launcher_of(core::OpKind kind) {
#define RIDGE_CASE(name)                                                                                               \
  case core::OpKind::name:                                                                                             \
    return launch_##name;
#define RIDGE_OP(name, inputs, outputs, weights, roles, params, op_class, flops)                                       \
  RIDGE_PLAIN_##op_class(RIDGE_CASE, name)
  switch (kind) {
#include "core/ops.def"
  default: return nullptr;
  }
#undef RIDGE_OP
}

} // namespace ridge::kernels::cuda
