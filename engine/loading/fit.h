// A model's memory, placement and speed bounds before loading, from the plans that executors also use
// (kernels/cuda/plan/memory_plan.h needs no GPU).
#pragma once

#include "core/executor.h"
#include "core/stages/split.h"
#include "engine/loading/loaded_model.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/limits.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

int64_t weight_bytes(const core::Program& program);

struct Need {
  int64_t weights = 0, cache = 0, state = 0, scratch = 0; // bytes
  int64_t reserve = 0;                                    // must be free when the executor starts
  int64_t total() const { return weights + cache + state + scratch + reserve; }
  Need& operator+=(const Need& other);
};
Need cpu_need(const core::Program& program, const core::ExecutorConfig& config);
Need gpu_need(const core::Program& program, const core::ExecutorConfig& config,
              const kernels::cuda::DeviceLimits& limits = kernels::cuda::kPresumedLimits);

struct ExpertNeed {
  Need gpu;
  kernels::cuda::ExpertSizes sizes;
  // Number of experts per layer that get copies in `gpu_bytes`; -1: the rest of the model does not fit.
  int64_t copies_in(double gpu_bytes, int64_t host_places) const;
};
ExpertNeed expert_need(const core::Program& program, const core::ExecutorConfig& config,
                       const kernels::cuda::DeviceLimits& limits = kernels::cuda::kPresumedLimits);

// Everything that experts need if there is room. Otherwise leaves some memory to file pages and other programs.
double host_memory_for(const kernels::cuda::ExpertSizes& sizes, double free_bytes, const Placement& wanted);

// The largest splittable number of last layers up to `layers`. The output counts as a layer.
int32_t layers_together(const core::Program& program, int32_t layers);
core::SplitProgram split_off(const core::Program& program, int32_t layers);
// The largest number for which `fits` accepts their Program; 0: not even the output fits.
int32_t layers_that_fit(const core::Program& program, const std::function<bool(const core::Program&)>& fits);

struct Room {
  double cpu = 0, gpu = 0;
  kernels::cuda::DeviceLimits limits = kernels::cuda::kPresumedLimits;
  std::vector<double> gpus = {}; // by GPU number; may be empty
  void without_gpus() { gpu = 0, gpus.clear(); }
  void choose_gpu(const Placement& placement);
};
Room free_room();
// With `gpu` chosen, and at most `limit` bytes of each GPU; 0: no limit.
Room free_room(int gpu, double limit);

// A prompt batch of any length needs nearly all experts, so it becomes as long as allowed if that costs the GPU few
// copies.
core::ExecutorConfig config_with_experts_on_host(const core::Program& program, const core::ExecutorConfig& config,
                                                 const Room& room, const Placement& wanted);

// `config` with batches as long as allowed.
core::ExecutorConfig with_long_batch(core::ExecutorConfig config, const Placement& wanted);
// Whether longer batches take at most an eighth of the memory that the model leaves of room.gpu.
bool affords_batch(const core::Program& program, const core::ExecutorConfig& usual, const core::ExecutorConfig& longer,
                   const Room& room);

// For a model that is wholly on GPUs: prompts are evaluated in batches as long as allowed, which is a sixth faster
// (8B, H200: 2,048 tokens instead of 512), if these take at most an eighth of the memory that the model leaves.
core::ExecutorConfig config_with_long_batch(const core::Program& program, const core::ExecutorConfig& config,
                                            const Room& room, const Placement& wanted);

// One GPU's part of a shared model. The output counts as the last layer.
struct RankFit {
  int gpu = 0, stages = 1, rank = 0, ranks = 1;
  int32_t first_layer = 0, end_layer = 0;
  Need need = {};
  double room = 0;
};

// Bytes moved for one token after `past` others.
double token_bytes(const core::Program& program, const core::ExecutorConfig& config, int64_t past);

struct HeadsFit {
  Need cpu, gpu;
  Room left;
};

struct Fit {
  core::ExecutorConfig config;
  int32_t layers = 0, gpu_layers = 0;
  std::optional<Need> cpu, gpu; // sums over GPUs
  std::vector<RankFit> ranks = {};
  int64_t experts = 0, copies = 0; // per layer; experts: kept off the GPU, 0: none; copies: on it
  int64_t host_experts = 0;        // per layer; others stay in the file
  double cache_per_token = 0;      // bytes per further token; windows do not grow
  HeadsFit heads;
  Room room;
  Placement placement; // wanted
  bool fits = false;
  int64_t largest_context = 0;                   // tokens; 0: the model does not fit
  double cpu_bytes = 0, gpu_bytes = 0;           // per token at position 0; of ranks, the slowest
  double full_cpu_bytes = 0, full_gpu_bytes = 0; // at the end of the context

  // Per layer. If host memory has all experts, the GPU's copies are duplicates.
  int64_t experts_in_file_only() const {
    return host_experts == experts ? 0 : std::max<int64_t>(experts - host_experts - copies, 0);
  }
};

// Predicts start_executor's placement. Uses Room's GPU memory instead of Placement::gpu_memory. Throws a usage Error
// for missing GPUs.
Fit fit(const core::Program& program, const core::ExecutorConfig& config, const Room& room,
        const Placement& placement = {}, std::span<const LoadedHead> heads = {});

HeadsFit fit_heads(std::span<const LoadedHead> heads, const core::Program& model, const core::ExecutorConfig& config,
                   const Room& room, const Placement& placement = {});
bool guesses_blocks(const LoadedHead& head); // a DFlash head
// `config` is the model's. config_beside() also serves encoders.
core::ExecutorConfig head_config(core::ExecutorConfig config);
core::ExecutorConfig config_beside(const LoadedHead& head, const core::ExecutorConfig& config);

struct CacheOffer; // cache_offers.h
// "-c 4096 fits" with the first offer, "a Q3_K_M version would fit with -c 4096 (about 3.9 GB of weights)".
// `parameters`: in all tensors.
std::string what_would_fit(const core::Program& program, const Fit& fit, int64_t parameters,
                           std::span<const CacheOffer> offers);

} // namespace ridge::engine
