#include "core/parallel/parallel_executor.h"

#include "core/parallel/rank_threads.h"
#include "core/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ridge::core {
namespace {

class ParallelExecutor final : public Executor {
 public:
  ParallelExecutor(std::vector<Shard> shards, const ExecutorConfig& config,
                   std::vector<std::unique_ptr<Communicator>> communicators, const MakeRank& make_rank,
                   std::shared_ptr<void> companion)
      : shards_(std::move(shards)), config_(config), communicators_(std::move(communicators)),
        companion_(std::move(companion)), executors_(shards_.size()),
        threads_(static_cast<int>(shards_.size()), [this](int rank, const char* why) {
          (communicators_[rank] ? communicators_[rank] : communicators_[0])->fail(why);
        }) {
    each([&](int rank) {
      ExecutorConfig own = config_;
      own.communicator = communicators_[rank].get();
      executors_[rank] = make_rank(shards_[rank].program, own, rank);
    });
    description_ = fmt::format("{} x {}", shards_.size(), first().description());
  }
  ~ParallelExecutor() override {
    each([&](int rank) { executors_[rank].reset(); });
  }

  // Ranks start and end a batch together, unless its token is chosen by the one before: it starts with that one's end.
  void submit(const Batch& batch, const Choosing& choosing) override {
    chained_ = choosing.chain != Chain::none;
    chosen_ = {};
    following_.reset();
    if (choosing.chain == Chain::resume && batch.tokens[0] == kChosenToken) {
      following_ = {batch.positions[0], batch.streams.empty() ? 0 : batch.streams[0]};
      return;
    }
    if (choosing.chain != Chain::resume) check_batch(shards_[0].program, config_, batch); // before ranks wait
    each([&](int rank) {
      executors_[rank]->submit(batch, chained_ || rank == 0 ? choosing : Choosing{});
      if (chained_) return;
      const std::span<const int32_t> tokens = executors_[rank]->wait();
      if (rank == 0) chosen_ = tokens;
    });
  }
  std::span<const int32_t> wait() override {
    if (!chained_) return chosen_;
    const std::optional<Following> following = std::exchange(following_, std::nullopt);
    each([&](int rank) {
      if (following) {
        const int32_t output = 0;
        executors_[rank]->submit({{&kChosenToken, 1}, {&following->position, 1}, {&following->stream, 1}, {&output, 1}},
                                 {.chain = Chain::resume});
      }
      const std::span<const int32_t> tokens = executors_[rank]->wait();
      if (rank == 0) chosen_ = tokens;
    });
    return chosen_;
  }
  std::span<const float> logits(int64_t i) override { return first().logits(i); }
  std::shared_ptr<const float> copy_result_rows(int64_t count) override { return first().copy_result_rows(count); }
  std::span<const float> hidden() override { return first().hidden(); }

  bool can_choose(const SamplerParams& params) const override {
    return std::ranges::all_of(executors_, [&](const auto& executor) { return executor->can_choose(params); });
  }
  bool can_chain(const SamplerParams& params) const override { return can_choose(params) && first().can_chain(params); }

  bool can_resume_at(int32_t stream, int64_t position) const override {
    return executors_[0]->can_resume_at(stream, position);
  }
  int64_t saved_floats() const override {
    return total([](const Executor& e) { return e.saved_floats(); });
  }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    each([&](int rank) { executors_[rank]->save_state(stream, own_state(state, rank), position); });
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    each([&](int rank) { executors_[rank]->load_state(stream, own_state(state, rank), position); });
  }
  void mark_state(int32_t stream) override {
    each([&](int rank) { executors_[rank]->mark_state(stream); });
  }
  void restore_mark() override {
    each([&](int rank) { executors_[rank]->restore_mark(); });
  }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    each([&](int rank) { executors_[rank]->copy_cache(from, to, tokens); });
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    each([&](int rank) { executors_[rank]->set_adapters(stream, uses); });
  }

  std::string block_layout() const override {
    const std::string own = executors_[0]->block_layout();
    return own.empty() ? own : fmt::format("{} ranks, {}", executors_.size(), own);
  }
  int64_t block_bytes() const override {
    return total([](const Executor& e) { return e.block_bytes(); });
  }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    each([&](int rank) { executors_[rank]->save_blocks(stream, first, own_blocks(blocks, rank)); });
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    each([&](int rank) { executors_[rank]->load_blocks(stream, first, own_blocks(blocks, rank)); });
  }

  const ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override {
    return total([](const Executor& e) { return e.memory_bytes(); });
  }

  std::vector<OpTime> profile(const Batch& batch, int repetitions) override {
    std::vector<OpTime> times;
    each([&](int rank) {
      std::vector<OpTime> own = executors_[rank]->profile(batch, repetitions);
      if (rank == 0) times = std::move(own);
    });
    for (OpTime& time : times)
      for (int32_t& op : time.ops) op = shards_[0].origins[op];
    return times;
  }
  std::string describe_plan(const Batch& batch) override { return first().describe_plan(batch); }
  double time_decode(int64_t position, int64_t streams, int repetitions) override {
    double seconds = 0;
    each([&](int rank) {
      const double own = executors_[rank]->time_decode(position, streams, repetitions);
      if (rank == 0) seconds = own;
    });
    return seconds;
  }

 private:
  Executor& first() const { return *executors_[0]; }
  void each(const std::function<void(int rank)>& work) const { threads_.run(work); }
  template <typename Of>
  std::invoke_result_t<Of, const Executor&> total(Of of) const {
    std::invoke_result_t<Of, const Executor&> sum = 0;
    for (const auto& executor : executors_) sum += of(*executor);
    return sum;
  }
  template <typename Float>
  std::span<Float> own_state(std::span<Float> state, int rank) const {
    if (state.empty()) return state;
    size_t before = 0;
    for (int i = 0; i < rank; ++i) before += static_cast<size_t>(executors_[i]->saved_floats());
    return state.subspan(before, static_cast<size_t>(executors_[rank]->saved_floats()));
  }
  template <typename Byte>
  std::vector<Byte*> own_blocks(std::span<Byte* const> blocks, int rank) const {
    int64_t before = 0;
    for (int i = 0; i < rank; ++i) before += executors_[i]->block_bytes();
    std::vector<Byte*> own(blocks.begin(), blocks.end());
    for (Byte*& block : own) block += before;
    return own;
  }

  const std::vector<Shard> shards_; // the executors refer to their Programs
  const ExecutorConfig config_;
  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::shared_ptr<void> companion_;
  std::vector<std::unique_ptr<Executor>> executors_; // by rank
  std::string description_;
  struct Following {
    int32_t position, stream;
  };
  std::optional<Following> following_; // submitted, but not to ranks
  bool chained_ = false;
  std::span<const int32_t> chosen_;
  mutable RankThreads threads_;
};

} // namespace

std::unique_ptr<Executor> make_parallel_executor(std::vector<Shard> shards, const ExecutorConfig& config,
                                                 std::vector<std::unique_ptr<Communicator>> communicators,
                                                 const MakeRank& make_rank, std::shared_ptr<void> companion) {
  return std::make_unique<ParallelExecutor>(std::move(shards), config, std::move(communicators), make_rank,
                                            std::move(companion));
}

} // namespace ridge::core
