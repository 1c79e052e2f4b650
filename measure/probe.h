// Times kernels as black boxes. A small Program repeats one kind of op with different weights beyond cache size; the
// executor runs it as decode or prefill. The time of the Program without these ops is subtracted; the Program with
// minimal data gives launch cost.
#pragma once

#include "engine/loaded_model.h"
#include "models/synthetic.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

// A kernel or step: data, operations and time.
struct RooflinePoint {
  std::string group;                        // "matvec", "attention", "product", "vector", "model"
  std::string name;                         // "Q4_K ffn 4096-14336-4096"
  int64_t steps = 1;                        // dependent steps
  double seconds = 0, bytes = 0, flops = 0; // totals; bytes and flops by op_cost
  double start_seconds = 0;                 // launch cost of these kernels (0: not measured)
  int64_t tokens = 0;                       // of model steps
  std::string format = {};                  // weight format of a product, else empty

  double flops_per_byte() const { return flops / bytes; }
  double bytes_per_second() const { return bytes / seconds; }
  double flops_per_second() const { return flops / seconds; }
};

struct ProbeOptions {
  engine::Device device;
  int threads = 0;
  double cache_bytes;          // a probe's weights exceed this
  int64_t prompt;              // tokens
  std::vector<int64_t> depths; // for attention and model
  int decode_repetitions;      // per timed decode step
  std::function<void(int64_t done, int64_t total)> progress;
};

// Products of every format at the model's shapes, decode and prefill; attention at depths; vector ops. Omits what is
// too short to measure.
std::vector<RooflinePoint> probe_kernels(const models::Shape& shape, const ProbeOptions& options);

// Decode steps at depths that fit, and a prompt; `kernels` (from probe_kernels) give launch cost. Throws OutOfMemory if
// the model does not fit.
std::vector<RooflinePoint> probe_model(engine::LoadedModel& model, const ProbeOptions& options,
                                       std::span<const RooflinePoint> kernels);

} // namespace ridge::measure
