// Times kernels without knowing any kernel. A small Program repeats one kind of op, each time with other weights, more
// than the caches hold; the ordinary executor runs it as a decoding step or a prompt. The time of the same Program
// without those ops is subtracted. The same Program with next to nothing to read gives the cost of starting the
// kernels.
#pragma once

#include "engine/loaded_model.h"
#include "models/synthetic.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

// A kernel or a step: what it moves and computes, and how long it takes.
struct RooflinePoint {
  std::string group;                        // "matvec", "attention", "product", "vector", "model"
  std::string name;                         // "Q4_K ffn 4096-14336-4096"
  int64_t steps = 1;                        // that depend on each other
  double seconds = 0, bytes = 0, flops = 0; // of all of them; bytes and flops are op_cost's
  double start_seconds = 0; // of these: what as many such kernels take with next to nothing to do (0: not measured)
  int64_t tokens = 0;       // of the model's steps
  std::string format = {};  // of the weights of a product; empty: the point is no product

  double flops_per_byte() const { return flops / bytes; }
  double bytes_per_second() const { return bytes / seconds; }
  double flops_per_second() const { return flops / seconds; }
};

struct ProbeOptions {
  engine::Device device;
  int threads = 0;
  double cache_bytes;          // weights of a probe together exceed this
  int64_t prompt;              // tokens of a prompt
  std::vector<int64_t> depths; // of attention and of the model
  int decode_repetitions;      // of a timed decoding step
  std::function<void(int64_t done, int64_t total)> progress;
};

// Every format's product at the model's shapes, with one token and with a prompt; attention at depths; norms and the
// like. Leaves out what takes too little time to be measured.
std::vector<RooflinePoint> probe_kernels(const models::Shape& shape, const ProbeOptions& options);

// Decoding steps of the whole model at depths (those that fit the GPU), and a prompt; `kernels` (of probe_kernels) say
// what starting costs. Throws OutOfMemory where the model itself does not fit.
std::vector<RooflinePoint> probe_model(engine::LoadedModel& model, const ProbeOptions& options,
                                       std::span<const RooflinePoint> kernels);

} // namespace ridge::measure
