#include "engine/ranks/ranks.h"

#include "core/error.h"
#include "core/kv_type.h"
#include "core/parallel/processes/processes.h"
#include "core/parallel/processes/pulse.h"
#include "core/parallel/processes/secret.h"
#include "engine/ranks/links.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cuda/exchange/exchange.h"
#include "quant/registry.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <thread>

namespace ridge::engine {
namespace {

int64_t block_weights(uint32_t type) {
  const quant::FormatInfo* format = quant::find_format(type);
  return format ? format->block_weights : 1;
}

std::vector<core::Shard> shards_of(const core::Program& program, int ranks) {
  std::vector<core::Shard> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back(shard(program, rank, ranks));
  return shards;
}

// Applies to all ranks, even those whose part does not amplify errors.
core::ExecutorConfig config_of_ranks(const core::Program& program, core::ExecutorConfig config) {
  config.wide |= core::amplifies_errors(program);
  return config;
}

bool fit_together(const core::Program& program, const core::ExecutorConfig& config, const std::vector<int>& gpus,
                  kernels::cuda::CudaOptions options) {
  const auto ranks = static_cast<int>(gpus.size());
  for (int rank = 0; rank < ranks; ++rank) {
    options.device = gpus[rank];
    if (!kernels::cuda::fits(ranks == 1 ? program : shard(program, rank, ranks, true).program, config, options))
      return false;
  }
  return true;
}

struct SharedModel {};
std::weak_ptr<const SharedModel> shared_model;
bool shared_one = false;

// Keeps watch over the other processes, and marks the model as shared while its executor lives.
struct Watch {
  Watch(std::vector<std::unique_ptr<core::Connection>> links, int rank) : pulse(std::move(links), rank) {}
  core::Pulse pulse;
  std::shared_ptr<const SharedModel> model = std::make_shared<const SharedModel>();
};

int device_of(const core::ProcessRank& me) {
  const int here = kernels::cuda::device_count(); // launchers may show each process only its own
  if (here > 1 && me.local_rank >= here)
    throw_error("rank {} is process {} of its host, which shows {} GPUs: start as many processes as GPUs", me.rank,
                me.local_rank, here);
  return here == 1 ? 0 : me.local_rank;
}

constexpr const char* kByItself = "start it by itself, without torchrun, mpirun or srun (WORLD_SIZE)";

} // namespace

core::Shard shard(const core::Program& program, int rank, int ranks, bool sizes_only) {
  return core::shard_program(program, rank, ranks, block_weights, sizes_only);
}

std::vector<int> parse_gpus(const std::string& list) {
  std::vector<int> gpus;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    int gpu = -1;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), gpu);
    if (problem != std::errc() || end != word.data() + word.size() || gpu < 0)
      throw Error(fmt::format("--gpus {}: expected numbers of GPUs, such as 0,1", list), Error::kUsage);
    if (std::ranges::count(gpus, gpu) > 0)
      throw Error(fmt::format("--gpus {}: GPU {} comes twice", list, gpu), Error::kUsage);
    gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<int> gpus_to_use(const std::vector<int>& named, int ranks, int here) {
  for (const int gpu : named)
    if (gpu >= here) throw Error(fmt::format("--gpus: there is no GPU {}; they count from 0", gpu), Error::kUsage);
  std::vector<int> gpus = named;
  if (gpus.empty())
    for (int gpu = 0; gpu < std::min(here, kernels::cuda::kMaxRanks); ++gpu) gpus.push_back(gpu);
  if (ranks > std::ssize(gpus))
    throw Error(fmt::format("--tensor-parallel and --pipeline ask for {} GPUs, and there {} {}", ranks,
                            gpus.size() == 1 ? "is" : "are", gpus.size()),
                Error::kUsage);
  if (ranks > 0) gpus.resize(static_cast<size_t>(ranks));
  return gpus;
}

std::vector<int> gpus_for_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                const std::vector<int>& named, int ranks, const kernels::cuda::CudaOptions& options) {
  const std::vector<int> gpus = gpus_to_use(named, ranks, kernels::cuda::device_count());
  if (ranks > 0 || !named.empty() || gpus.size() < 2) return gpus;
  for (size_t count = 1; count <= gpus.size(); ++count) {
    const std::vector<int> some(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(count));
    if (fit_together(program, config, some, options)) return some;
  }
  return {gpus[0]};
}

std::unique_ptr<core::Executor> on_gpus(const core::Program& program, const core::ExecutorConfig& config,
                                        const std::vector<int>& gpus, const kernels::cuda::CudaOptions& options,
                                        const std::function<void(double, double)>& progress) {
  if (gpus.size() == 1) {
    kernels::cuda::CudaOptions own = options;
    own.device = gpus[0];
    own.upload_progress = progress;
    return kernels::cuda::make_cuda_executor(program, config, own);
  }
  std::vector<core::Shard> shards = shards_of(program, static_cast<int>(gpus.size()));
  auto communicators =
      kernels::cuda::make_exchange(gpus, kernels::cuda::max_exchanged_floats(shards[0].program, config));
  return core::make_parallel_executor(std::move(shards), config_of_ranks(program, config), std::move(communicators),
                                      [&](const core::Program& own, const core::ExecutorConfig& own_config, int rank) {
                                        kernels::cuda::CudaOptions own_options = options;
                                        own_options.device = gpus[rank];
                                        if (rank == 0) own_options.upload_progress = progress;
                                        return kernels::cuda::make_cuda_executor(own, own_config, own_options);
                                      });
}

std::unique_ptr<core::Executor> on_cpu_ranks(const core::Program& program, const core::ExecutorConfig& config,
                                             int ranks) {
  if (ranks == 1) return kernels::cpu::make_cpu_executor(program, config);
  core::ExecutorConfig own = config_of_ranks(program, config);
  const int threads = config.threads > 0 ? config.threads : kernels::cpu::default_threads();
  own.threads = std::max(1, threads / ranks);
  return core::make_parallel_executor(shards_of(program, ranks), own, core::make_thread_communicators(ranks),
                                      [](const core::Program& program, const core::ExecutorConfig& config, int) {
                                        return kernels::cpu::make_cpu_executor(program, config);
                                      });
}

std::unique_ptr<core::Executor> as_process_rank(const core::Program& program, const core::ExecutorConfig& config,
                                                const core::ProcessRank& me, bool on_gpu,
                                                const kernels::cuda::CudaOptions& options,
                                                const std::function<void(const std::string&)>& note) {
  kernels::cuda::CudaOptions own_options = options;
  if (on_gpu) own_options.device = device_of(me);
  const auto start = [&](const core::Program& own, const core::ExecutorConfig& own_config) {
    return on_gpu ? kernels::cuda::make_cuda_executor(own, own_config, own_options)
                  : kernels::cpu::make_cpu_executor(own, own_config);
  };
  if (!shared_model.expired()) return start(program, config);
  if (shared_one)
    throw_error("several processes share out one model, with one setting, and this is a second: give only one, or {}",
                kByItself);
  int64_t bytes = 0;
  for (const core::Weight& weight : program.weights) bytes += weight.total_bytes();
  const std::string what = fmt::format(
      "ridge {}, {} of {} ops and {} bytes, -c {}, batches of {}, caches of {} and {}, {}", RIDGE_VERSION,
      program.architecture, program.ops.size(), bytes, config.context, config.max_batch,
      core::format_of(config.k_type).name, core::format_of(config.v_type).name, config.exact ? "exact" : "fast");
  wanted_link(); // before waiting
  core::ProcessLinks links = core::join_processes(me, what, core::find_rank_secret(me.one_host));
  if (links.rejected_callers > 0)
    note(fmt::format("{} caller{} did not know the ranks' secret", links.rejected_callers,
                     links.rejected_callers == 1 ? "" : "s"));

  std::vector<std::shared_ptr<core::Connection>> commands;
  for (auto& link : links.commands) commands.push_back(std::move(link));
  std::unique_ptr<core::Communicator> communicator;
  auto watch = std::make_shared<Watch>(std::move(links.pulses), me.rank); // ends before the communicator
  core::Pulse& pulse = watch->pulse;
  communicator = core::make_process_communicator(std::move(links.values), me.rank, me.ranks,
                                                 [&pulse](const std::string& why) { pulse.fail(why); });
  pulse.watch(*communicator);
  pulse.start([commands](const std::string& why) {
    for (const auto& link : commands)
      if (link) link->close(why);
  });
  std::vector<core::Shard> shards(static_cast<size_t>(me.ranks));
  core::Shard& shared = shards[static_cast<size_t>(me.rank)];
  const core::ExecutorConfig own = config_of_ranks(program, config);
  try {
    shared = shard(program, me.rank, me.ranks);
    LinkNeeds needs{.most_floats = kernels::cuda::max_exchanged_floats(shared.program, own), .note = note};
    if (on_gpu) needs.device = own_options.device;
    communicator = link_ranks(std::move(communicator), needs);
    pulse.watch(*communicator, [ranks = communicator.get()] { return kernels::cuda::late_rank(*ranks); });
    if (me.rank > 0) {
      core::ExecutorConfig of_rank = own;
      of_rank.communicator = communicator.get();
      const auto executor = start(shared.program, of_rank);
      core::serve_rank(*executor, *commands[0]);
      pulse.wait_for_ends();
    }
  } catch (const std::exception& error) {
    pulse.fail(fmt::format("rank {}: {}", me.rank, error.what()));
    throw;
  }
  if (me.rank > 0) throw RankEnded{};
  std::vector<std::unique_ptr<core::Communicator>> communicators(shards.size());
  communicators[0] = std::move(communicator);
  shared_model = watch->model;
  shared_one = true;
  return core::make_parallel_executor(
      std::move(shards), own, std::move(communicators),
      [&](const core::Program& program, const core::ExecutorConfig& config, int rank) {
        return rank == 0 ? start(program, config) : core::make_remote_executor(commands[rank], config);
      },
      std::move(watch));
}

void need_one_process(std::string_view command, std::string_view why) {
  if (const int ranks = core::ProcessRank::from_environment().ranks; ranks > 1)
    throw Error(fmt::format("{}: is one of {} processes, and {}: {}", command, ranks, why, kByItself), Error::kUsage);
}

} // namespace ridge::engine
