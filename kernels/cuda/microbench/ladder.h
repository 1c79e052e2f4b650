// A small lab: C = A B in f32, from the first kernel one writes to what the hardware allows, one idea per rung, each
// beside cuBLAS measured in the same run. Nothing in ridge uses these kernels; they show why its own look as they do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

struct Rung {
  std::string name;
  std::string why;           // what this rung changes, and what that does
  std::string configuration; // tile sizes, where there are any
  bool fp32;                 // f32 products; else tensor cores, with what their operands lose
  double seconds;            // median
  double error;              // ‖C - C₀‖ / ‖C₀‖ against the first rung
};

struct Ladder {
  int64_t size;               // A, B and C are [size, size]
  double cublas_seconds = 0;  // f32 without tensor cores, the mean of a measurement before and one after; 0: no cuBLAS
  std::string cublas_problem; // why there is none
  std::vector<Rung> rungs;

  double flops() const { return 2.0 * static_cast<double>(size * size * size); }
};

// `size` is a multiple of 256. Throws Error where there is no usable GPU or a rung computes something else.
Ladder climb_ladder(int64_t size);

} // namespace ridge::kernels::cuda
