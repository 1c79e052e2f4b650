// Times kernels as black boxes: a small Program repeats one op with different weights beyond cache size. Subtracts the
// time without these ops; minimal data give the launch cost.
#pragma once

#include "engine/loading/loaded_model.h"
#include "models/synthetic.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

struct RooflinePoint {
  std::string group;                        // "matvec", "attention", "product", "vector", "model"
  std::string name;                         // "Q4_K ffn 4096-14336-4096"
  int64_t steps = 1;                        // dependent steps
  double seconds = 0, bytes = 0, flops = 0; // totals, by op_cost
  double start_seconds = 0;                 // launches; 0: not measured
  int64_t tokens = 0;
  std::string format = {}; // of a product's weights

  double flops_per_byte() const { return flops / bytes; }
  double bytes_per_second() const { return bytes / seconds; }
  double flops_per_second() const { return flops / seconds; }
};

struct ProbeOptions {
  engine::Device device;
  int threads = 0;
  double cache_bytes; // total weights exceed this
  int64_t prompt;
  std::vector<int64_t> depths;
  int decode_repetitions;
  std::function<void(int64_t done, int64_t total)> progress;
};

// Every format's products at the model's shapes, decode and prefill; attention; vector ops. Omits what is too short.
std::vector<RooflinePoint> probe_kernels(const models::Shape& shape, const ProbeOptions& options);

// Decode steps and a prompt; `kernels` give launch cost. Throws OutOfMemory if the model does not fit.
std::vector<RooflinePoint> probe_model(engine::LoadedModel& model, const ProbeOptions& options,
                                       std::span<const RooflinePoint> kernels);

} // namespace ridge::measure
