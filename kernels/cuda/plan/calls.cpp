#include "kernels/cuda/plan/calls.h"

namespace ridge::kernels::cuda {

std::vector<const MatrixStep*> matrices_of(const KernelCall& call) {
  std::vector<const MatrixStep*> matrices;
  const auto add = [&](const auto& work) {
    if constexpr (requires { work.product; }) matrices.push_back(&work.product.matrix);
    if constexpr (requires { work.matrix; }) matrices.push_back(&work.matrix);
    if constexpr (requires { work.router; }) matrices.push_back(&work.router);
    if constexpr (requires { work.second; }) matrices.insert(matrices.end(), {&work.first.matrix, &work.second.matrix});
    if constexpr (requires { work.products; })
      for (const Product& product : work.products) matrices.push_back(&product.matrix);
    if constexpr (requires { work.sums; })
      if (work.sums) matrices.push_back(&work.sums->matrix);
  };
  std::visit(add, call.work);
  return matrices;
}

bool has_dataflow_input(const KernelCall& call) {
  return std::visit(
      [](const auto& work) {
        if constexpr (requires { work.dataflow_input; }) return work.dataflow_input;
        if constexpr (requires { work.product; }) return work.product.dataflow_input;
        if constexpr (requires { work.second; }) return work.first.dataflow_input || work.second.dataflow_input;
        if constexpr (requires { work.rope; }) return work.rope.dataflow_input;
        return false;
      },
      call.work);
}

} // namespace ridge::kernels::cuda
