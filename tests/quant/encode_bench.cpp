// Speed and error per format: ridge_encode_bench [FORMAT…]
// Gaussian weights, σ = 0.02; error is Σ (w - decoded)² / Σ w². CPU: one thread's CPU time. Last: whole F16 tensors
// through the GPU with transfers.
#include "core/clock.h"
#include "core/half.h"
#include "kernels/cuda/encode/encode.h"
#include "quant/encode/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <vector>

using namespace ridge;
using namespace ridge::quant;

namespace {

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double relative_error(const FormatInfo& format, const std::vector<std::byte>& packed,
                      const std::vector<float>& weights) {
  std::vector<float> decoded(weights.size());
  format.decode(packed.data(), static_cast<int64_t>(weights.size()), decoded.data());
  double error = 0, norm = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    error += (static_cast<double>(weights[i]) - decoded[i]) * (static_cast<double>(weights[i]) - decoded[i]);
    norm += static_cast<double>(weights[i]) * weights[i];
  }
  return error / norm;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const int64_t cols = 4096, rows = 64;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> weights(rows * cols);
  for (float& w : weights) w = normal(random);

  fmt::print("{:8} {:>6} {:>10} {:>12}\n", "format", "bpw", "error", "CPU Mw/s");
  for (const FormatInfo& format : formats()) {
    if (!can_encode(format.type)) continue;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), format.name) == wanted.end()) continue;
    std::vector<std::byte> packed(rows * format.row_bytes(cols));
    double best = 1e30;
    for (int repetition = 0; repetition < 3; ++repetition) {
      const double start = cpu_seconds();
      encode_rows(format.type, weights.data(), rows, cols, {}, packed.data());
      best = std::min(best, cpu_seconds() - start);
    }
    fmt::print("{:8} {:6.4g} {:10.3e} {:12.1f}\n", format.name, format.bits_per_weight(),
               relative_error(format, packed, weights), static_cast<double>(rows * cols) / best * 1e-6);
  }

  const auto gpu = kernels::cuda::make_encoder();
  if (!gpu) return 0;
  const int64_t gpu_rows = 14336 * 4;
  std::vector<uint16_t> halves(gpu_rows * cols);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = core::f16_from_f32(weights[i % weights.size()]);
  fmt::print("{:8} {:>12}\n", "format", "GPU Gw/s");
  for (const FormatInfo& format : formats()) {
    if (!gpu->can_encode(format.type)) continue;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), format.name) == wanted.end()) continue;
    std::vector<std::byte> packed(gpu_rows * format.row_bytes(cols));
    double best = 1e30;
    for (int repetition = 0; repetition < 2; ++repetition) {
      const double start = core::seconds_now();
      gpu->encode_rows(Type::F16, reinterpret_cast<const std::byte*>(halves.data()), format.type, gpu_rows, cols, {},
                       packed.data());
      best = std::min(best, core::seconds_now() - start);
    }
    fmt::print("{:8} {:12.2f}\n", format.name, static_cast<double>(gpu_rows * cols) / best * 1e-9);
  }
}
