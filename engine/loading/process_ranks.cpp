// A rank that is a process.
#include "core/error.h"
#include "core/kv_type.h"
#include "core/parallel/processes/processes.h"
#include "core/parallel/processes/secret.h"
#include "core/stages/split.h"
#include "engine/loading/fit.h"
#include "engine/loading/links.h"
#include "engine/loading/ranks.h"
#include "engine/loading/watch.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/exchange/exchange.h"

#include <algorithm>

namespace ridge::engine {
namespace {

constexpr const char* kByItself = "start it directly, without torchrun, mpirun or srun (WORLD_SIZE)";

// Rank 0 keeps it beside the executors, which it outlives.
std::weak_ptr<ProcessWatch> shared_model;
bool shared_one = false;

// For rank 0: a stage whose executors have their communicators elsewhere, and which only tells of failures.
class StageCommunicator final : public core::Communicator {
 public:
  StageCommunicator(ProcessWatch& watch, int ranks) : watch_(watch), ranks_(ranks) {}

  int rank() const override { return 0; }
  int ranks() const override { return ranks_; }
  void all_reduce(std::span<float>) override { throw std::logic_error("another communicator has the values"); }
  void all_gather(std::span<const float>, int64_t, int64_t, std::span<float>) override { all_reduce({}); }
  void fail(const std::string& why) override { watch_.own->fail(why); }
  void check() const override { watch_.own->check(); }

 private:
  ProcessWatch& watch_;
  const int ranks_;
};

std::string description_of(const core::Program& program, const core::ExecutorConfig& config) {
  int64_t bytes = 0;
  for (const core::Weight& weight : program.weights) bytes += weight.total_bytes();
  return fmt::format("ridge {}, {} of {} ops and {} bytes, -c {}, batches of {}, caches of {} and {}, {}",
                     RIDGE_VERSION, program.architecture, program.ops.size(), bytes, config.context, config.max_batch,
                     core::format_of(config.k_type).name, core::format_of(config.v_type).name,
                     config.exact ? "exact" : "fast");
}

using Start = std::function<std::unique_ptr<core::Executor>(const core::Program&, const core::ExecutorConfig&)>;

// Serves rank 0 until it ends.
void serve_stage(const core::Program& part, const core::ExecutorConfig& config, const std::vector<int>& group, int rank,
                 ProcessWatch& watch, const Start& start) {
  const int ranks = static_cast<int>(group.size());
  core::Shard shared;
  core::ExecutorConfig own = core::config_of_part(part, config);
  if (ranks > 1) {
    shared = shard(part, rank, ranks);
    own.communicator = watch.own.get();
  }
  const auto executor = start(ranks > 1 ? shared.program : part, own);
  core::serve_rank(*executor, *watch.commands[0]);
  watch.pulse.wait_for_ends();
}

// Rank 0's view of a stage.
std::unique_ptr<core::Executor> make_stage(const core::Program& part, const core::ExecutorConfig& config,
                                           const std::vector<int>& group, ProcessWatch& watch, const Start& start,
                                           std::shared_ptr<void> companion) {
  const int ranks = static_cast<int>(group.size());
  const auto make = [&](const core::Program& program, core::ExecutorConfig of_rank, int i) {
    of_rank.communicator = ranks > 1 ? watch.own.get() : nullptr;
    return group[i] == 0 ? start(program, of_rank) : core::make_remote_executor(watch.commands[group[i]], of_rank);
  };
  if (ranks == 1) return make(part, config, 0);
  std::vector<core::Shard> shards(group.size());
  shards[0] = shard(part, 0, ranks, group[0] != 0);
  std::vector<std::unique_ptr<core::Communicator>> communicators(group.size());
  communicators[0] = std::make_unique<StageCommunicator>(watch, ranks);
  return core::make_parallel_executor(std::move(shards), config, std::move(communicators), make, std::move(companion));
}

// All ranks call it at once.
bool all_agree(core::Communicator& ranks, bool own) {
  const std::vector<std::string> answers = core::gather_texts(ranks, own ? "y" : "n", 1);
  return std::ranges::count(answers, "y") == std::ssize(answers);
}

} // namespace

std::unique_ptr<core::Executor> as_process_rank(const core::Program& program, const core::ExecutorConfig& config,
                                                const core::ExecutorConfig& longer, const core::ProcessRank& me,
                                                bool on_gpu, const kernels::cuda::CudaOptions& options,
                                                const std::function<void(const std::string&)>& note) {
  kernels::cuda::CudaOptions own_options = options;
  if (on_gpu) own_options.device = device_of_rank(me);
  const Start start = [&](const core::Program& own, const core::ExecutorConfig& own_config) {
    return on_gpu ? kernels::cuda::make_cuda_executor(own, own_config, own_options)
                  : kernels::cpu::make_cpu_executor(own, own_config);
  };
  if (!shared_model.expired()) return start(program, config);
  if (shared_one)
    throw_error(
        "several processes can share only one model with one setting, and this is a second: use only one, or {}",
        kByItself);
  wanted_link(); // before waiting
  core::ProcessLinks links =
      core::join_processes(me, description_of(program, config), core::find_rank_secret(me.one_host));
  if (links.rejected_callers > 0)
    note(fmt::format("{} caller{} had the wrong rank secret", links.rejected_callers,
                     links.rejected_callers == 1 ? "" : "s"));

  const auto all = std::make_shared<ProcessWatch>(std::move(links), me);
  ProcessWatch& watch = *all;
  try {
    LinkNeeds needs{.note = note};
    if (on_gpu) needs.device = own_options.device;
    const std::vector<RankFacts> facts = gather_facts(*watch.host, needs.device);
    // Draft heads read rows that later stages would keep to themselves.
    const RankGroups groups = program.hidden < 0 ? groups_of(facts) : one_group(me.ranks);
    core::ExecutorConfig common = config_of_ranks(program, config);
    const int stages = static_cast<int>(groups.size());
    if (stages > 1 && me.rank == 0)
      note(fmt::format("{} hosts are stages of a pipeline, which share the layers{}", stages,
                       stages < me.ranks ? "; the GPUs of a host share each layer" : ""));
    std::vector<core::Program> parts = core::pipeline_parts(program, stages);
    for (size_t stage = 0; stage < groups.size(); ++stage) {
      const auto own = std::ranges::find(groups[stage], me.rank);
      if (own == groups[stage].end()) continue;
      const core::Program& part = parts[stage];
      const int rank = static_cast<int>(own - groups[stage].begin()), ranks = static_cast<int>(groups[stage].size());
      const core::Program shared = ranks > 1 ? shard(part, rank, ranks, true).program : core::Program();
      const bool affords = on_gpu && affords_batch(ranks > 1 ? shared : part, core::config_of_part(part, config),
                                                   core::config_of_part(part, longer),
                                                   free_room(own_options.device, own_options.memory_limit));
      if (all_agree(*watch.host, affords)) common = config_of_ranks(program, longer);
      if (ranks > 1)
        needs.most_floats = kernels::cuda::max_exchanged_floats(shared, core::config_of_part(part, common));
      watch.take(link_ranks(watch.host, facts, groups, needs));
      if (me.rank > 0) serve_stage(part, common, groups[stage], rank, watch, start);
    }
    if (me.rank > 0) throw RankEnded{};
    shared_model = all;
    shared_one = true;
    if (stages == 1) return make_stage(program, common, groups[0], watch, start, all);
    return core::make_pipeline_executor(
        program, common, stages,
        [&](const core::Program& part, const core::ExecutorConfig& own, int stage) {
          return make_stage(part, own, groups[stage], watch, start, nullptr);
        },
        all);
  } catch (const std::exception& error) {
    watch.pulse.fail(fmt::format("rank {}: {}", me.rank, error.what()));
    throw;
  }
}

void when_rank_lost(std::function<void(const std::string&)> lost) {
  if (const auto watch = shared_model.lock()) watch->call_when_lost(std::move(lost));
}

void need_one_process(std::string_view command, std::string_view why) {
  if (const int ranks = core::ProcessRank::from_environment().ranks; ranks > 1)
    throw Error(fmt::format("{}: runs as one of {} processes, but {}: {}", command, ranks, why, kByItself),
                Error::kUsage);
}

} // namespace ridge::engine
