// Kernels placed under the roofs, without knowing any kernel: a small Program of one kind of op, many times over with
// other weights (more than the caches hold), run by the ordinary executor as a decoding step or a prompt. What remains
// of its time without those ops is taken off. The same Program with next to nothing to read says what starting costs.
#pragma once

#include "engine/loaded_model.h"
#include "models/synthetic.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

struct Placement {
  std::string group;                        // "matvec", "attention", "product", "vector", "model"
  std::string name;                         // "Q4_K ffn 4096-14336-4096"
  int64_t steps = 1;                        // that depend on each other
  double seconds = 0, bytes = 0, flops = 0; // of all of them; bytes and flops are op_cost's
  double start_seconds = 0; // of these: what as many such kernels take with next to nothing to do (0: not measured)
  int64_t tokens = 0;       // of the model's steps

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
  std::function<void(int64_t done, int64_t total)> progress;
};

// Every format's product with one token at the model's shapes, with a prompt; attention at depths; norms and the like.
// Leaves out what takes no time that can be told from the rest.
std::vector<Placement> probe_kernels(const models::Shape& shape, const ProbeOptions& options);

// Decoding steps of the whole model at depths (those that fit the GPU), and a prompt; `kernels` (of probe_kernels) say
// what starting costs. Throws OutOfMemory where the model itself does not fit.
std::vector<Placement> probe_model(engine::LoadedModel& model, const ProbeOptions& options,
                                   std::span<const Placement> kernels);

} // namespace ridge::measure
