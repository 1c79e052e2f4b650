#include "engine/loading/fit.h"

#include "core/encoding/encoder_executor.h"

#include "core/host_device/round_up.h"
#include "core/rings.h"
#include "core/units.h"
#include "engine/loading/cache_offers.h"
#include "engine/loading/fit_gpus.h"
#include "engine/loading/machine.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/plan/memory_plan.h"
#include "models/dflash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace ridge::engine {
namespace {

int64_t weight_bytes(const core::Program& program, std::set<const std::byte*>& seen) {
  int64_t bytes = 0;
  for (const core::Op& op : program.ops)
    for (const core::WeightId id : op.weights)
      if (seen.insert(program.weights[id].data).second) bytes += program.weights[id].total_bytes();
  return bytes;
}

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
      cpu_config = core::config_of_part(*cpu, config);
    }
  }
};

struct Places {
  int32_t gpu_layers = 0;
  bool experts_on_host = false;
};

int64_t host_places(const ExpertNeed& need, const Room& room, const Placement& wanted) {
  return need.sizes.host_places(host_memory_for(need.sizes, room.cpu, wanted));
}

bool fits_in(const core::Program& program, const core::ExecutorConfig& config, const Places& places, const Room& room,
             const Placement& wanted) {
  if (places.experts_on_host) {
    const ExpertNeed need = expert_need(program, config, room.limits);
    return need.copies_in(room.gpu, host_places(need, room, wanted)) >= 0;
  }
  const Parts parts(program, config, places.gpu_layers);
  return (!parts.cpu || static_cast<double>(cpu_need(*parts.cpu, parts.cpu_config).total()) <= room.cpu) &&
         (!parts.gpu || static_cast<double>(gpu_need(*parts.gpu, config, room.limits).total()) <= room.gpu);
}

Places find_places(const core::Program& program, const core::ExecutorConfig& config, const Room& room,
                   const Placement& wanted) {
  const int32_t all = core::layer_count(program) + 1;
  if (room.gpu <= 0 || wanted.gpu_layers == 0) return {};
  if (wanted.gpu_layers >= all) return {all};
  if (wanted.gpu_layers > 0) return {layers_together(program, static_cast<int32_t>(wanted.gpu_layers))};
  const auto fits = [&](const core::Program& part) {
    return static_cast<double>(gpu_need(part, config, room.limits).total()) <= room.gpu;
  };
  const Places apart{all, true};
  if ((wanted.experts_on_host || !fits(program)) && expert_need(program, config, room.limits).sizes.experts > 0 &&
      fits_in(program, config, apart, room, wanted))
    return apart;
  return {layers_that_fit(program, fits)};
}

std::vector<RankFit> find_ranks(const SharingCandidates& ways, const core::Program& program,
                                const core::ExecutorConfig& config, const Room& room) {
  if (ways.only) return ways.ways[0].ranks(config, room);
  if (ways.ways.empty() || static_cast<double>(gpu_need(program, config, room.limits).total()) <= room.gpu) return {};
  for (const SharingPlan& way : ways.ways)
    if (std::vector<RankFit> ranks = way.ranks(config, room); have_room(ranks)) return ranks;
  return {};
}

int64_t find_largest_context(const core::Program& program, core::ExecutorConfig config, const Room& room,
                             const Placement& wanted, std::span<const LoadedHead> heads,
                             const SharingCandidates& ways) {
  constexpr int64_t kStep = 256;
  const auto fits = [&](int64_t context) {
    config.context = context;
    config.max_batch = std::min(config.max_batch, context);
    const Room left = fit_heads(heads, program, config, room, wanted).left;
    if (const std::vector<RankFit> ranks = find_ranks(ways, program, config, left); !ranks.empty())
      return left.cpu >= 0 && have_room(ranks);
    return left.cpu >= 0 && fits_in(program, config, find_places(program, config, left, wanted), left, wanted);
  };
  const int64_t most = std::max<int64_t>(program.trained_context, 1);
  if (fits(most)) return most;
  int64_t fitting = 0, too_much = core::round_up(most, kStep) / kStep;
  while (too_much - fitting > 1) {
    const int64_t middle = (fitting + too_much) / 2;
    (fits(middle * kStep) ? fitting : too_much) = middle;
  }
  return fitting * kStep;
}

} // namespace

int64_t weight_bytes(const core::Program& program) {
  std::set<const std::byte*> seen;
  return weight_bytes(program, seen);
}

double token_bytes(const core::Program& program, const core::ExecutorConfig& config, int64_t past) {
  return core::program_cost(
             program, {1, past, 1, 1, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)})
      .bytes();
}

Need& Need::operator+=(const Need& other) {
  weights += other.weights;
  cache += other.cache;
  state += other.state;
  scratch += other.scratch;
  reserve += other.reserve;
  return *this;
}

Need cpu_need(const core::Program& program, const core::ExecutorConfig& config) {
  const kernels::cpu::MemoryUse use = kernels::cpu::memory_use(program, config);
  return {weight_bytes(program), use.cache, use.state, use.scratch};
}

static Need need_of(const kernels::cuda::MemoryPlan& plan) {
  return {plan.weights, plan.cache, plan.state, plan.scratch, plan.reserve};
}

Need gpu_need(const core::Program& program, const core::ExecutorConfig& config,
              const kernels::cuda::DeviceLimits& limits) {
  return need_of(kernels::cuda::plan_memory(program, config, limits));
}

ExpertNeed expert_need(const core::Program& program, const core::ExecutorConfig& config,
                       const kernels::cuda::DeviceLimits& limits) {
  const kernels::cuda::MemoryPlan plan = kernels::cuda::plan_memory(program, config, limits, true);
  return {need_of(plan), plan.experts};
}

int64_t ExpertNeed::copies_in(double gpu_bytes, int64_t host_places) const {
  return sizes.copies_in(static_cast<int64_t>(gpu_bytes) - gpu.total(), host_places);
}

double host_memory_for(const kernels::cuda::ExpertSizes& sizes, double free_bytes, const Placement& wanted) {
  constexpr double kMaxKept = 8.0 * (1 << 30);
  if (wanted.host_memory >= 0) return wanted.host_memory;
  const auto all = static_cast<double>(sizes.all_bytes);
  return all <= free_bytes ? all : free_bytes - std::min(free_bytes / 8, kMaxKept);
}

core::ExecutorConfig with_long_batch(core::ExecutorConfig config, const Placement& wanted) {
  config.max_batch = std::max(config.max_batch, std::min(wanted.long_batch, config.context * config.streams));
  return config;
}

core::ExecutorConfig config_with_experts_on_host(const core::Program& program, const core::ExecutorConfig& config,
                                                 const Room& room, const Placement& wanted) {
  constexpr int64_t kMaxLost = 8; // the longer batch may cost one copy in so many
  const auto copies = [&](const core::ExecutorConfig& tried) {
    const ExpertNeed need = expert_need(program, tried, room.limits);
    return need.copies_in(room.gpu, host_places(need, room, wanted));
  };
  const core::ExecutorConfig longer = with_long_batch(config, wanted);
  if (longer.max_batch == config.max_batch) return config;
  const int64_t before = copies(config);
  return before > 0 && copies(longer) >= before - before / kMaxLost ? longer : config;
}

static bool is_affordable(const Need& usual, const Need& longer, double room) {
  const auto before = static_cast<double>(usual.total()), after = static_cast<double>(longer.total());
  return after - before <= (room - before) / 8;
}

bool affords_batch(const core::Program& program, const core::ExecutorConfig& usual, const core::ExecutorConfig& longer,
                   const Room& room) {
  const auto need = [&](const core::ExecutorConfig& tried) { return gpu_need(program, tried, room.limits); };
  return longer.max_batch == usual.max_batch || is_affordable(need(usual), need(longer), room.gpu);
}

core::ExecutorConfig config_with_long_batch(const core::Program& program, const core::ExecutorConfig& config,
                                            const Room& room, const Placement& wanted) {
  const core::ExecutorConfig longer = with_long_batch(config, wanted);
  return affords_batch(program, config, longer, room) ? longer : config;
}

core::ExecutorConfig config_with_long_batch(const SharingPlan& plan, const core::ExecutorConfig& config,
                                            const Room& room, const Placement& wanted) {
  const core::ExecutorConfig longer = with_long_batch(config, wanted);
  if (longer.max_batch == config.max_batch) return config;
  const std::vector<RankFit> before = plan.ranks(config, room), after = plan.ranks(longer, room);
  for (size_t rank = 0; rank < before.size(); ++rank)
    if (!is_affordable(before[rank].need, after[rank].need, before[rank].room)) return config;
  return longer;
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
    const int32_t layers = (fitting + too_many) / 2, together = layers_together(program, layers);
    (together == 0 || fits(split_off(program, together).back) ? fitting : too_many) = layers;
  }
  return layers_together(program, fitting);
}

void Room::choose_gpu(const Placement& placement) {
  if (const auto first = static_cast<size_t>(placement.first_gpu()); first < gpus.size()) gpu = gpus[first];
}

Room free_room() {
  constexpr double kDriver = 32 << 20; // taken by the driver before an executor checks free memory
  Room room;
  room.cpu = available_memory();
  room.limits = kernels::cuda::limits_for_plans();
  for (int number = 0; number < kernels::cuda::device_count(); ++number) {
    const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info(number);
    room.gpus.push_back(gpu.usable ? std::max(0.0, gpu.free_bytes - kDriver) : 0);
  }
  room.choose_gpu({});
  return room;
}

Room free_room(int gpu, double limit) {
  Room room = free_room();
  if (limit > 0)
    for (double& free : room.gpus) free = std::min(free, limit);
  if (!room.gpus.empty()) room.gpu = room.gpus[static_cast<size_t>(gpu) < room.gpus.size() ? gpu : 0];
  return room;
}

bool guesses_blocks(const LoadedHead& head) { return head.file && models::is_dflash_head(*head.file); }

core::ExecutorConfig head_config(core::ExecutorConfig config) {
  config.max_outputs = 1;
  config.rewind_tokens = config.context; // a draft head rolls back freely
  config.batch_invariant = false;        // guesses change no text
  return config;
}

core::ExecutorConfig config_beside(const LoadedHead& head, const core::ExecutorConfig& config) {
  if (core::sees_ahead(head.program)) return core::encoder_config(config);
  core::ExecutorConfig own = head_config(config);
  if (guesses_blocks(head)) own.max_outputs = config.max_outputs;
  return own;
}

HeadsFit fit_heads(std::span<const LoadedHead> heads, const core::Program& model, const core::ExecutorConfig& config,
                   const Room& room, const Placement& placement) {
  HeadsFit found{.left = room};
  found.left.choose_gpu(placement);
  std::set<const std::byte*> mapped;
  weight_bytes(model, mapped);
  for (const LoadedHead& head : heads) {
    const core::ExecutorConfig own = config_beside(head, config);
    if (found.left.gpu > 0 && placement.gpu_layers != 0)
      if (const Need need = gpu_need(head.program, own, room.limits);
          static_cast<double>(need.total()) <= found.left.gpu) {
        found.gpu += need;
        found.gpu.reserve = 0; // shared with the model's
        found.left.gpu -= static_cast<double>(need.total() - need.reserve);
        continue;
      }
    Need need = cpu_need(head.program, own);
    need.weights = weight_bytes(head.program, mapped); // the file is mapped only once
    found.cpu += need;
    found.left.cpu -= static_cast<double>(need.total());
  }
  if (const auto first = static_cast<size_t>(placement.first_gpu()); first < room.gpus.size())
    found.left.gpus[first] = found.left.gpu;
  return found;
}

static void place_on_one(Fit& found, const core::Program& program, const Placement& placement) {
  const Room& left = found.heads.left;
  const Places places = find_places(program, found.config, left, placement);
  if (places.gpu_layers == found.layers && !places.experts_on_host)
    found.config = config_with_long_batch(program, found.config, left, placement);
  const core::ExecutorConfig& config = found.config;
  found.gpu_layers = places.gpu_layers;
  found.fits = left.cpu >= 0 && fits_in(program, config, places, left, placement);
  const Parts parts(program, config, found.gpu_layers);
  const int64_t full = std::max<int64_t>(config.context - 1, 0);
  if (parts.cpu) {
    found.cpu = cpu_need(*parts.cpu, parts.cpu_config);
    found.cpu_bytes = token_bytes(*parts.cpu, config, 0);
    found.full_cpu_bytes = token_bytes(*parts.cpu, config, full);
  }
  if (parts.gpu) {
    found.gpu = gpu_need(*parts.gpu, config, left.limits);
    found.gpu_bytes = token_bytes(*parts.gpu, config, 0);
    found.full_gpu_bytes = token_bytes(*parts.gpu, config, full);
  }
  if (!places.experts_on_host) return;
  found.config = config_with_experts_on_host(program, config, left, placement);
  const ExpertNeed need = expert_need(program, found.config, left.limits);
  found.experts = need.sizes.experts;
  found.host_experts = host_places(need, left, placement);
  found.copies = std::max<int64_t>(need.copies_in(left.gpu, found.host_experts), 0);
  found.gpu = need.gpu;
  found.gpu->weights += need.sizes.gpu_bytes(found.copies, found.host_experts);
  found.cpu = Need{.weights = found.host_experts == found.experts ? need.sizes.all_bytes
                                                                  : found.host_experts * need.sizes.copy_bytes};
}

Fit fit(const core::Program& program, const core::ExecutorConfig& config, const Room& room, const Placement& placement,
        std::span<const LoadedHead> heads) {
  Fit found;
  found.config = config;
  found.room = room;
  found.placement = placement;
  found.room.choose_gpu(placement);
  found.layers = core::layer_count(program) + 1;
  found.heads = fit_heads(heads, program, config, room, placement);
  const Room& left = found.heads.left;
  const SharingCandidates ways = sharing_candidates(program, room, placement);
  found.ranks = find_ranks(ways, program, config, left);
  const int64_t full = std::max<int64_t>(config.context - 1, 0);
  if (found.ranks.empty()) {
    place_on_one(found, program, placement);
  } else {
    const auto way = std::ranges::find(ways.ways, std::ssize(found.ranks), &SharingPlan::size);
    found.config = config_with_long_batch(*way, config, left, placement);
    found.ranks = way->ranks(found.config, left);
    found.gpu_layers = found.layers;
    found.fits = left.cpu >= 0 && have_room(found.ranks);
    found.gpu = Need();
    for (const RankFit& rank : found.ranks) *found.gpu += rank.need;
    found.gpu_bytes = way->bytes(config, 0);
    found.full_gpu_bytes = way->bytes(config, full);
  }
  found.cache_per_token =
      core::kv_cache_bytes(program, config, config.context) - core::kv_cache_bytes(program, config, config.context - 1);
  found.largest_context = find_largest_context(program, config, room, placement, heads, ways);
  return found;
}

std::string what_would_fit(const core::Program& program, const Fit& fit, int64_t parameters,
                           std::span<const CacheOffer> offers) {
  if (fit.largest_context > 0)
    return fmt::format("-c {} fits{}", fit.largest_context,
                       offers.empty() ? "" : "; " + text_of(offers[0], fit.config.context));
  // Common types with their mean bits per weight.
  constexpr std::pair<const char*, double> kTypes[] = {{"Q8_0", 8.5},    {"Q6_K", 6.6},    {"Q5_K_M", 5.7},
                                                       {"Q4_K_M", 4.9},  {"Q3_K_M", 3.95}, {"Q2_K", 3.0},
                                                       {"IQ2_XXS", 2.1}, {"IQ1_S", 1.6}};
  constexpr int64_t kSmallContext = 4096;
  core::ExecutorConfig config = fit.config;
  config.context = std::min({config.context, kSmallContext, std::max<int64_t>(program.trained_context, 1)});
  config.max_batch = std::min(config.max_batch, config.context);
  const double rest = static_cast<double>(cpu_need(program, config).total() - weight_bytes(program));
  const double on_gpus =
      fit.ranks.empty() ? fit.heads.left.gpu
                        : static_cast<double>(fit.ranks.size()) * std::ranges::min(fit.ranks, {}, &RankFit::room).room;
  const double room = std::max(fit.heads.left.cpu, on_gpus) - rest;
  const auto now = static_cast<double>(weight_bytes(program));
  for (const auto& [type, bits] : kTypes) {
    const double bytes = static_cast<double>(parameters) * bits / 8;
    if (bytes < now && bytes <= room)
      return fmt::format("a {} version would fit with -c {} (about {} of weights)", type, config.context,
                         core::human_bytes(bytes));
  }
  return fmt::format("no smaller type would fit: at most {} of weights have room with -c {}",
                     core::human_bytes(std::max(room, 0.0)), config.context);
}

} // namespace ridge::engine
