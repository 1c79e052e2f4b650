#include "engine/ranks/ranks.h"

#include "core/error.h"
#include "core/kv_type.h"
#include "core/parallel/processes.h"
#include "core/parallel/secret.h"
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

// An executor owns its communicators, and so keeps the SharedModel alive.
class SharedCommunicator final : public core::Communicator {
 public:
  SharedCommunicator(std::unique_ptr<core::Communicator> inner, std::shared_ptr<const SharedModel> model)
      : inner_(std::move(inner)), model_(std::move(model)) {}

  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  void all_reduce(std::span<float> values) override { inner_->all_reduce(values); }
  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    inner_->all_gather(part, rows, first, whole);
  }
  void fail(const std::string& why) override { inner_->fail(why); }
  void check() const override { inner_->check(); }

 private:
  const std::unique_ptr<core::Communicator> inner_;
  const std::shared_ptr<const SharedModel> model_;
};

constexpr const char* kByItself = "start it by itself, without torchrun or mpirun (WORLD_SIZE)";

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
  const auto start = [&](const core::Program& own, const core::ExecutorConfig& own_config) {
    kernels::cuda::CudaOptions own_options = options;
    own_options.device = me.local_rank;
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
  core::ProcessLinks links = core::join_processes(me, what, core::find_rank_secret(me.one_host));
  if (links.rejected_callers > 0)
    note(fmt::format("{} caller{} did not know the ranks' secret", links.rejected_callers,
                     links.rejected_callers == 1 ? "" : "s"));
  auto communicator = core::make_process_communicator(std::move(links.values), me.rank, me.ranks);
  core::ExecutorConfig own = config_of_ranks(program, config);
  if (me.rank > 0) {
    own.communicator = communicator.get();
    const core::Shard shared = shard(program, me.rank, me.ranks);
    const auto executor = start(shared.program, own);
    core::serve_rank(*executor, *links.commands[0]);
    throw RankEnded{};
  }
  std::vector<core::Shard> shards(static_cast<size_t>(me.ranks));
  shards[0] = shard(program, 0, me.ranks);
  std::vector<std::unique_ptr<core::Communicator>> communicators(shards.size());
  const auto model = std::make_shared<const SharedModel>();
  communicators[0] = std::make_unique<SharedCommunicator>(std::move(communicator), model);
  shared_model = model;
  shared_one = true;
  return core::make_parallel_executor(
      std::move(shards), own, std::move(communicators),
      [&](const core::Program& program, const core::ExecutorConfig& config, int rank) {
        return rank == 0 ? start(program, config) : core::make_remote_executor(std::move(links.commands[rank]), config);
      });
}

void need_one_process(std::string_view command, std::string_view why) {
  if (const int ranks = core::ProcessRank::from_environment().ranks; ranks > 1)
    throw Error(fmt::format("{}: is one of {} processes, and {}: {}", command, ranks, why, kByItself), Error::kUsage);
}

} // namespace ridge::engine
