// quant::Hessian on a GPU, without CUDA headers: cuBLAS does products, a warp per row the sequential codes of a block.
#pragma once

#include "quant/feedback/hessian.h"

#include <string>

namespace ridge::kernels::cuda {

// A maker's Hessians share a stream: use them from one thread at a time. Without a usable device or cuBLAS the result
// is empty and `problem` tells why. Results differ from the CPU's by rounding.
quant::MakeHessian hessian_maker(std::string& problem);

} // namespace ridge::kernels::cuda
