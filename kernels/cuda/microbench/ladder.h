// A lab: C = A B in f32 from a naive kernel to the hardware's limit. ridge does not use these kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

struct Rung {
  std::string name;
  std::string why;           // what it changes
  std::string configuration; // tile sizes
  bool fp32;                 // else tensor cores
  double seconds;            // median
  double error;              // ‖C - C₀‖ / ‖C₀‖ to the first rung
};

struct Ladder {
  int64_t size;
  double cublas_seconds = 0; // f32; mean of measurements before and after; 0: no cuBLAS
  std::string cublas_problem;
  std::vector<Rung> rungs;

  double flops() const { return 2.0 * static_cast<double>(size * size * size); }
};

// `size`: a multiple of 256. Throws Error without a usable GPU or for wrong results.
Ladder climb_ladder(int64_t size);

} // namespace ridge::kernels::cuda
