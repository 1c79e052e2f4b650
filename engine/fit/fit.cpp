#include "engine/fit/fit.h"

#include "core/strings/units.h"
#include "engine/machine.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace ridge::engine {
namespace {

int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

core::Cost cost_of(const core::Program& program, const core::ExecutorConfig& config, int64_t past) {
  return core::program_cost(
      program, {1, past, 1, 1, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)});
}

// The parts of a model with so many of its last layers on the GPU.
struct Parts {
  std::optional<core::SplitProgram> split;
  const core::Program *cpu = nullptr, *gpu = nullptr;
  core::ExecutorConfig cpu_config;

  Parts(const core::Program& program, const core::ExecutorConfig& config, int32_t gpu_layers) : cpu_config(config) {
    if (gpu_layers == 0) {
      cpu = &program;
    } else if (gpu_layers == core::layer_count(program) + 1) {
      gpu = &program;
    } else {
      split = split_off(program, gpu_layers);
      cpu = &split->front;
      gpu = &split->back;
      if (!cpu->values[cpu->output].gathered) // a row for each token passes
        cpu_config.max_outputs = std::max(config.max_outputs, config.max_batch);
    }
  }
};

bool fits_in(const core::Program& program, const core::ExecutorConfig& config, int32_t gpu_layers, const Room& room) {
  const Parts parts(program, config, gpu_layers);
  return (!parts.cpu || static_cast<double>(cpu_need(*parts.cpu, parts.cpu_config).total()) <= room.cpu) &&
         (!parts.gpu || static_cast<double>(gpu_need(*parts.gpu, config).total()) <= room.gpu);
}

// What loading does: as many layers as fit on the GPU, the rest on the CPU.
int32_t placed_layers(const core::Program& program, const core::ExecutorConfig& config, const Room& room,
                      int64_t wanted) {
  const int32_t all = core::layer_count(program) + 1;
  if (room.gpu <= 0 || wanted == 0) return 0;
  if (wanted >= all) return all;
  if (wanted > 0) return layers_together(program, static_cast<int32_t>(wanted));
  return layers_that_fit(program, [&](const core::Program& part) {
    return static_cast<double>(gpu_need(part, config).total()) <= room.gpu;
  });
}

int64_t find_largest_context(const core::Program& program, core::ExecutorConfig config, const Room& room,
                             int64_t gpu_layers) {
  constexpr int64_t kStep = 256; // tokens
  const auto fits = [&](int64_t context) {
    config.context = context;
    config.max_batch = std::min(config.max_batch, context);
    return fits_in(program, config, placed_layers(program, config, room, gpu_layers), room);
  };
  const int64_t most = std::max<int64_t>(program.trained_context, 1);
  if (fits(most)) return most;
  int64_t fitting = 0, too_much = padded(most, kStep) / kStep;
  while (too_much - fitting > 1) {
    const int64_t middle = (fitting + too_much) / 2;
    (fits(middle * kStep) ? fitting : too_much) = middle;
  }
  return fitting * kStep;
}

} // namespace

int64_t weight_bytes(const core::Program& program) {
  std::set<const std::byte*> seen;
  int64_t bytes = 0;
  for (const core::Op& op : program.ops)
    for (const core::WeightId id : op.weights)
      if (seen.insert(program.weights[id].data).second) bytes += program.weights[id].total_bytes();
  return bytes;
}

Need cpu_need(const core::Program& program, const core::ExecutorConfig& config) {
  const kernels::cpu::MemoryUse use = kernels::cpu::memory_use(program, config);
  return {weight_bytes(program), use.cache, use.state, use.scratch};
}

Need gpu_need(const core::Program& program, const core::ExecutorConfig& config) {
  const kernels::cuda::MemoryPlan plan = kernels::cuda::plan_memory(program, config);
  return {plan.weights, plan.cache, plan.state, plan.scratch};
}

int32_t layers_together(const core::Program& program, int32_t layers) {
  const int32_t all = core::layer_count(program) + 1;
  return layers == 0 ? 0 : all - core::next_cut(program, all - layers);
}

core::SplitProgram split_off(const core::Program& program, int32_t layers) {
  return core::split_program(program, core::layer_count(program) + 1 - layers);
}

int32_t layers_that_fit(const core::Program& program, const std::function<bool(const core::Program&)>& fits) {
  int32_t fitting = 0, too_many = core::layer_count(program) + 1;
  if (fits(program)) return too_many;
  while (too_many - fitting > 1) {
    const int32_t layers = (fitting + too_many) / 2;
    (fits(split_off(program, layers_together(program, layers)).back) ? fitting : too_many) = layers;
  }
  return layers_together(program, fitting);
}

Room free_room() {
  Room room;
  room.cpu = 1024 * std::strtod(proc_field("/proc/meminfo", "MemAvailable").c_str(), nullptr);
  if (const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info(); gpu.usable) room.gpu = gpu.free_bytes;
  return room;
}

Fit fit(const core::Program& program, const core::ExecutorConfig& config, const Room& room, int64_t gpu_layers) {
  Fit found;
  found.config = config;
  found.room = room;
  found.layers = core::layer_count(program) + 1;
  found.gpu_layers = placed_layers(program, config, room, gpu_layers);
  found.fits = fits_in(program, config, found.gpu_layers, room);
  const Parts parts(program, config, found.gpu_layers);
  const int64_t full = std::max<int64_t>(config.context - 1, 0);
  if (parts.cpu) {
    found.cpu = cpu_need(*parts.cpu, parts.cpu_config);
    found.cpu_bytes = cost_of(*parts.cpu, config, 0).bytes();
    found.full_cpu_bytes = cost_of(*parts.cpu, config, full).bytes();
  }
  if (parts.gpu) {
    found.gpu = gpu_need(*parts.gpu, config);
    found.gpu_bytes = cost_of(*parts.gpu, config, 0).bytes();
    found.full_gpu_bytes = cost_of(*parts.gpu, config, full).bytes();
  }
  for (const std::optional<Need>& need : {found.cpu, found.gpu})
    if (need)
      found.cache_per_token += static_cast<double>(need->cache) / static_cast<double>(config.context * config.streams);
  found.largest_context = find_largest_context(program, config, room, gpu_layers);
  return found;
}

std::string what_would_fit(const core::Program& program, const Fit& fit, int64_t parameters) {
  if (fit.largest_context > 0) return fmt::format("-c {} fits", fit.largest_context);
  // Usual types with their bits per weight, as recipes mix them.
  constexpr std::pair<const char*, double> kTypes[] = {{"Q8_0", 8.5},    {"Q6_K", 6.6},    {"Q5_K_M", 5.7},
                                                       {"Q4_K_M", 4.9},  {"Q3_K_M", 3.95}, {"Q2_K", 3.0},
                                                       {"IQ2_XXS", 2.1}, {"IQ1_S", 1.6}};
  constexpr int64_t kSmallContext = 4096;
  core::ExecutorConfig config = fit.config;
  config.context = std::min({config.context, kSmallContext, std::max<int64_t>(program.trained_context, 1)});
  config.max_batch = std::min(config.max_batch, config.context);
  const double rest = static_cast<double>(cpu_need(program, config).total() - weight_bytes(program));
  const double room = std::max(fit.room.cpu, fit.room.gpu) - rest;
  const auto now = static_cast<double>(weight_bytes(program));
  for (const auto& [type, bits] : kTypes) {
    const double bytes = static_cast<double>(parameters) * bits / 8;
    if (bytes < now && bytes <= room)
      return fmt::format("a {} of it would fit with -c {} (about {} of weights)", type, config.context,
                         core::human_bytes(bytes));
  }
  return fmt::format("no type of it would: at most {} of weights have room with -c {}",
                     core::human_bytes(std::max(room, 0.0)), config.context);
}

} // namespace ridge::engine
