#include "engine/loading/ranks.h"

#include "core/error.h"
#include "core/parallel/parallel_executor.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cuda/exchange/exchange.h"
#include "quant/registry.h"

#include <algorithm>
#include <charconv>
#include <sstream>

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

} // namespace

core::Shard shard(const core::Program& program, int rank, int ranks, bool sizes_only) {
  return core::shard_program(program, rank, ranks, block_weights, sizes_only);
}

core::ExecutorConfig config_of_ranks(const core::Program& program, core::ExecutorConfig config) {
  config.wide |= core::amplifies_errors(program);
  return config;
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
      throw Error(fmt::format("--gpus {}: GPU {} is listed twice", list, gpu), Error::kUsage);
    gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<int> gpus_to_use(const std::vector<int>& named, int ranks, int here) {
  for (const int gpu : named)
    if (gpu >= here) throw Error(fmt::format("--gpus: there is no GPU {}; numbers start at 0", gpu), Error::kUsage);
  std::vector<int> gpus = named;
  if (gpus.empty())
    for (int gpu = 0; gpu < std::min(here, kernels::cuda::kMaxRanks); ++gpu) gpus.push_back(gpu);
  if (ranks > std::ssize(gpus))
    throw Error(fmt::format("--tensor-parallel and --pipeline need {} GPUs, but there {} {}", ranks,
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

} // namespace ridge::engine
