// How much memory a model needs, where its layers go, and how fast it can be: before it is loaded.
//
// The CPU's numbers come from planning the executor that would run: they are what it then takes. The GPU's come from
// kernels/cuda/plan/memory_plan.h, which needs no GPU: they are what is allocated, too, and what is left free for
// later.
#pragma once

#include "core/executor.h"
#include "core/split.h"
#include "engine/loaded_model.h"
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

// The bytes of the weights that a Program's ops read, those that are shared once.
int64_t weight_bytes(const core::Program& program);

// What a part of a model needs of one device's memory.
struct Need {
  int64_t weights = 0, cache = 0, state = 0, scratch = 0; // bytes; state: recurrent
  int64_t reserve = 0;                                    // that must be free beside it when it starts, on a GPU
  int64_t total() const { return weights + cache + state + scratch + reserve; }
  Need& operator+=(const Need& other);
};
Need cpu_need(const core::Program& program, const core::ExecutorConfig& config);
Need gpu_need(const core::Program& program, const core::ExecutorConfig& config,
              const kernels::cuda::DeviceLimits& limits = kernels::cuda::kPresumedLimits);

// What a model needs whose routed experts stay in the host's memory.
struct ExpertNeed {
  Need gpu; // without copies of experts
  kernels::cuda::ExpertSizes sizes;
  // How many experts of each layer have copies in so many bytes of the GPU's memory, if the host's memory has room for
  // so many; -1: the rest has no room.
  int64_t copies_in(double gpu_bytes, int64_t host_places) const;
};
ExpertNeed expert_need(const core::Program& program, const core::ExecutorConfig& config,
                       const kernels::cuda::DeviceLimits& limits = kernels::cuda::kPresumedLimits);

// How much of the host's memory experts may take, where so much is free. Where all have room, that is all they want.
// Else some memory is left for the file's pages and for other programs.
double host_memory_for(const kernels::cuda::ExpertSizes& sizes, double free_bytes, const Placement& wanted);

// The most last layers, of at most `layers`, that can be split off; the output is one of them.
int32_t layers_together(const core::Program& program, int32_t layers);
// The last `layers` layers of a Program, which can be.
core::SplitProgram split_off(const core::Program& program, int32_t layers);
// The largest number of them for which fits(their Program) holds. 0: not even the output.
int32_t layers_that_fit(const core::Program& program, const std::function<bool(const core::Program&)>& fits);

// Memory that a model may take, in bytes, and the GPU that it is of.
struct Room {
  double cpu = 0, gpu = 0; // gpu 0: there is none
  kernels::cuda::DeviceLimits limits = kernels::cuda::kPresumedLimits;
  std::vector<double> gpus = {}; // of each, by its number; empty: one has `gpu`
  void without_gpus() { gpu = 0, gpus.clear(); }
  // `gpu` is the first of those that the placement names.
  void choose_gpu(const Placement& placement);
};
Room free_room(); // of this machine, now; asks every GPU

// How a model is configured whose routed experts stay in the host's memory. A batch of a prompt wants nearly all
// experts, whatever its length, so it has as many tokens as the placement allows where that costs the GPU few of its
// copies.
core::ExecutorConfig config_with_experts_on_host(const core::Program& program, const core::ExecutorConfig& config,
                                                 const Room& room, const Placement& wanted);

// What a GPU has of a model that several share: of layers, the output being the last one, a rank's part.
struct RankFit {
  int gpu = 0, stages = 1, rank = 0, ranks = 1;
  int32_t first_layer = 0, end_layer = 0;
  Need need = {};
  double room = 0;
};

// What a token behind `past` others moves through memory, in bytes.
double token_bytes(const core::Program& program, const core::ExecutorConfig& config, int64_t past);

// Draft heads, or an encoder, which are whole on a device each.
struct HeadsFit {
  Need cpu, gpu;
  Room left; // for the model
};

struct Fit {
  core::ExecutorConfig config;
  int32_t layers = 0, gpu_layers = 0; // the output is one
  std::optional<Need> cpu, gpu;       // of the parts that are there; of several GPUs, the sum
  std::vector<RankFit> ranks = {};    // by GPU, where several share the model
  int64_t experts = 0, copies = 0;    // of a layer: off the GPU, with copies there; experts 0: none
  int64_t host_experts = 0;           // of a layer: in the host's memory; the others stay in the file
  double cache_per_token = 0;         // bytes of a further one, of both: caches that hold only a window take none
  HeadsFit heads;
  Room room;
  bool fits = false;
  int64_t largest_context = 0;                   // tokens for which it fits, at most what it was trained for; 0: none
  double cpu_bytes = 0, gpu_bytes = 0;           // that a token reads at the beginning of a text, of ranks the slowest
  double full_cpu_bytes = 0, full_gpu_bytes = 0; // and at the end of the context

  // Counts a layer's experts. Where the host's memory has all of them, the GPU has copies of these, else others.
  int64_t experts_in_file_only() const {
    return host_experts == experts ? 0 : std::max<int64_t>(experts - host_experts - copies, 0);
  }
};

// Where a model goes that starts with `config`, as start_executor places it. Room::gpu counts, or Room::gpus where
// there are some, not Placement::gpu_memory. Draft heads come before the model. Throws a usage Error for GPUs that are
// not there.
Fit fit(const core::Program& program, const core::ExecutorConfig& config, const Room& room,
        const Placement& placement = {}, std::span<const LoadedHead> heads = {});

// Where draft heads of a model go, by themselves.
HeadsFit fit_heads(std::span<const LoadedHead> heads, const core::Program& model, const core::ExecutorConfig& config,
                   const Room& room, const Placement& placement = {});
// How an executor of a draft head is configured, beside a model with `config`; and of a draft head or an encoder.
core::ExecutorConfig head_config(core::ExecutorConfig config);
core::ExecutorConfig config_beside(const LoadedHead& head, const core::ExecutorConfig& config);

// Says what would fit where the model does not: "-c 4096 fits", "with -c 4096 a Q3_K_M of it would fit (about 3.9 GB)".
// `parameters`: weights in all tensors.
std::string what_would_fit(const core::Program& program, const Fit& fit, int64_t parameters);

} // namespace ridge::engine
