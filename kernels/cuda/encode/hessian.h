// quant::Hessian on a CUDA device: calibration of a model of billions of weights in seconds. Nothing here needs CUDA
// headers, a driver or a GPU to be included or linked.
//
// An 8B's ffn_down has 14336 inputs: H is 0.8 GB of f32, adding 16384 inputs to it 3.4 TFLOP, its factorization and
// the feedback through it another 1 and 0.8. All of that are products, which cuBLAS does; what is sequential, the
// codes of a block one after another, has a warp for each row.
#pragma once

#include "quant/hessian.h"

#include <string>

namespace ridge::kernels::cuda {

// What it makes shares a stream and a cuBLAS handle, so one thread at a time may use all of them. Empty where there is
// no usable device or no cuBLAS; then `problem` says what is missing.
// Its results differ from the CPU's by rounding: sums run in another order.
quant::MakeHessian hessian_maker(std::string& problem);

} // namespace ridge::kernels::cuda
