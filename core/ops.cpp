#include "core/ops.h"

#include <utility>

namespace ridge::core {
namespace {

using enum WeightRole;

template <typename... Roles>
constexpr OpInfo::Weights weights(Roles... roles) {
  return {{roles...}, sizeof...(roles)};
}

template <typename Params>
constexpr size_t index_of() { // in OpParams
  return OpParams(std::in_place_type<Params>).index();
}

constexpr OpInfo kOps[] = {
#define RIDGE_OP(name, inputs, outputs, required, roles, params, op_class, flops)                                      \
  {#name, inputs, outputs, required, weights roles, index_of<params>(), OpClass::op_class, flops},
#include "core/ops.def"
#undef RIDGE_OP
};

} // namespace

const OpInfo& info_of(OpKind kind) { return kOps[static_cast<size_t>(kind)]; }

} // namespace ridge::core
