// Parts of a Program, on executors of their own, that act as one. Long batches go in pieces: while a stage evaluates
// one, the stage before it evaluates the next.
#include "core/error.h"
#include "core/sampler.h"
#include "core/stages/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ridge::core {
namespace {

constexpr size_t kMostWaiting = 2; // pieces before a stage

// Tokens of a piece. More pieces keep stages busier; larger ones multiply faster.
int64_t piece_of(int64_t tokens) {
  constexpr int64_t kPieces = 8, kLeast = 256, kMost = 1024, kMultiple = 64;
  const int64_t each = (tokens / kPieces + kMultiple - 1) / kMultiple * kMultiple;
  return std::clamp(each, kLeast, kMost);
}

// A batch, or a piece of one, on its way through the stages. Refers to the caller's arrays but for its own ones.
struct Handed {
  Batch batch;
  std::vector<int32_t> outputs;
  std::shared_ptr<const float> rows;
  bool last = true;
};

class StagesExecutor final : public Executor {
 public:
  StagesExecutor(std::vector<Program> parts, const ExecutorConfig& config, const MakeStage& make, bool overlap,
                 std::shared_ptr<void> companion = {})
      : parts_(std::move(parts)), config_(wide_where_needed(config)), overlap_(overlap),
        companion_(std::move(companion)), stages_(parts_.size()) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      stages_[i].executor = make(parts_[i], config_of_part(parts_[i], config_), static_cast<int>(i));
      description_ += fmt::format("{}{}", i == 0 ? "" : " + ", stages_[i].executor->description());
    }
  }
  ~StagesExecutor() override {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (Stage& stage : stages_)
      if (stage.thread.joinable()) stage.thread.join();
  }

  void submit(const Batch& batch, const Choosing& choosing) override {
    results_.clear();
    samplers_ = choosing.samplers;
    const int64_t tokens = std::ssize(batch.tokens), piece = piece_of(tokens);
    if (overlap_ && tokens > piece && can_cut(batch)) return forward_in_pieces(batch, piece);
    Handed whole{batch};
    for (size_t stage = 0; stage < stages_.size(); ++stage) evaluate(stage, whole);
  }
  std::span<const int32_t> wait() override {
    const size_t before = results_.size() / parts_.back().vocab;
    if (before == 0 || samplers_.empty()) return last_chosen_;
    chosen_.clear();
    for (size_t i = 0; i < before; ++i) chosen_.push_back(samplers_[i] ? choice_of(*samplers_[i], logits(i)) : 0);
    chosen_.insert(chosen_.end(), last_chosen_.begin(), last_chosen_.end());
    return chosen_;
  }
  std::span<const float> logits(int64_t i) override {
    const int64_t width = parts_.back().vocab, before = std::ssize(results_) / width;
    if (i < 0 || i >= before) return last().logits(i - before);
    return std::span<const float>(results_).subspan(i * width, width);
  }
  bool can_choose(const SamplerParams& params) const override { return last().can_choose(params); }
  std::span<const float> hidden() override {
    const auto with = std::ranges::find_if(parts_, [](const Program& part) { return part.hidden >= 0; });
    return (with == parts_.end() ? last() : *stages_[with - parts_.begin()].executor).hidden();
  }
  bool can_resume_at(int32_t stream, int64_t position) const override {
    return std::ranges::all_of(stages_, [&](const Stage& s) { return s.executor->can_resume_at(stream, position); });
  }
  int64_t saved_floats() const override {
    return total([](const Executor& e) { return e.saved_floats(); });
  }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    for (Stage& stage : stages_) stage.executor->save_state(stream, taken(state, *stage.executor), position);
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    for (Stage& stage : stages_) stage.executor->load_state(stream, taken(state, *stage.executor), position);
  }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    for (Stage& stage : stages_) stage.executor->copy_cache(from, to, tokens);
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    for (Stage& stage : stages_) stage.executor->set_adapters(stream, uses);
  }
  std::string block_layout() const override {
    std::string all = stages_.back().executor->block_layout();
    for (size_t i = stages_.size() - 1; i-- > 0 && !all.empty();) {
      const std::string own = stages_[i].executor->block_layout();
      all = own.empty() ? "" : fmt::format("{} of {} layers, {}", own, parts_[i].kv_layers.size(), all);
    }
    return all;
  }
  int64_t block_bytes() const override {
    return total([](const Executor& e) { return e.block_bytes(); });
  }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    each_with_blocks(blocks, [&](Executor& executor, auto own) { executor.save_blocks(stream, first, own); });
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    each_with_blocks(blocks, [&](Executor& executor, auto own) { executor.load_blocks(stream, first, own); });
  }
  void mark_state(int32_t stream) override {
    for (Stage& stage : stages_) stage.executor->mark_state(stream);
  }
  void restore_mark() override {
    for (Stage& stage : stages_) stage.executor->restore_mark();
  }
  const ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override {
    return total([](const Executor& e) { return e.memory_bytes(); });
  }

 private:
  struct Stage {
    std::unique_ptr<Executor> executor;
    std::deque<Handed> waiting;
    bool busy = false;
    std::thread thread; // of all but the first
  };

  static int32_t choice_of(Sampler sampler, std::span<const float> logits) {
    try {
      return sampler.sample(logits);
    } catch (const Error&) {
      return -1; // unusable logits
    }
  }

  Executor& last() const { return *stages_.back().executor; }
  // All parts are wide if one needs it.
  ExecutorConfig wide_where_needed(ExecutorConfig config) const {
    for (const Program& part : parts_) config.wide |= amplifies_errors(part);
    return config;
  }
  template <typename Of>
  std::invoke_result_t<Of, const Executor&> total(Of of) const {
    std::invoke_result_t<Of, const Executor&> sum = 0;
    for (const Stage& stage : stages_) sum += of(*stage.executor);
    return sum;
  }
  // Takes an executor's share from the front; empty stays empty.
  template <typename Float>
  static std::span<Float> taken(std::span<Float>& state, const Executor& executor) {
    if (state.empty()) return state;
    const auto own = static_cast<size_t>(executor.saved_floats());
    return std::exchange(state, state.subspan(own)).first(own);
  }
  template <typename Byte, typename Run>
  void each_with_blocks(std::span<Byte* const> blocks, Run run) {
    std::vector<Byte*> own(blocks.begin(), blocks.end());
    for (Stage& stage : stages_) {
      run(*stage.executor, std::span<Byte* const>(own));
      for (Byte*& block : own) block += stage.executor->block_bytes();
    }
  }

  // Leaves what the next stage needs in `handed`.
  void evaluate(size_t stage, Handed& handed) {
    Executor& executor = *stages_[stage].executor;
    const auto outputs = std::ssize(handed.batch.outputs);
    const bool is_last = stage + 1 == stages_.size(), chooses = is_last && handed.last && !samplers_.empty();
    executor.submit(handed.batch, {.samplers = chooses ? samplers_.last(outputs) : samplers_.first(0)});
    const std::span<const int32_t> chosen = executor.wait();
    if (is_last) last_chosen_ = chosen;
    if (!is_last) {
      const ValueInfo& value = parts_[stage].values[parts_[stage].output];
      const int64_t rows = value.gathered ? outputs : std::ssize(handed.batch.tokens);
      handed.rows = rows > 0 ? executor.copy_result_rows(rows) : nullptr;
      handed.batch.input = {handed.rows.get(), static_cast<size_t>(rows * value.width)};
    } else if (!handed.last) {
      for (int64_t i = 0; i < outputs; ++i) {
        const std::span<const float> row = executor.logits(i);
        results_.insert(results_.end(), row.begin(), row.end());
      }
    }
  }

  // Whether pieces, one after another, give the same.
  bool can_cut(const Batch& batch) const {
    return batch.block_ends.empty() && batch.input.empty() && !batch.input_taken && parts_.back().output < 0 &&
           std::ranges::none_of(parts_, [](const Program& part) { return part.hidden >= 0 || sees_ahead(part); });
  }
  static Handed cut(const Batch& batch, int64_t first, int64_t count) {
    const auto part = [&](std::span<const int32_t> list, int64_t each) {
      return list.empty() ? list : list.subspan(first * each, count * each);
    };
    Handed piece{batch};
    piece.batch.tokens = part(batch.tokens, 1);
    piece.batch.positions = part(batch.positions, 1);
    piece.batch.streams = part(batch.streams, 1);
    piece.batch.axes = part(batch.axes, kPlaceAxes);
    for (const int32_t output : batch.outputs)
      if (output >= first && output < first + count) piece.outputs.push_back(static_cast<int32_t>(output - first));
    piece.batch.outputs = piece.outputs; // stays in place when the piece moves
    piece.last = first + count == std::ssize(batch.tokens);
    return piece;
  }

  void forward_in_pieces(const Batch& batch, int64_t tokens) {
    check_batch(parts_[0], stages_[0].executor->config(), batch);
    for (size_t stage = 1; stage < stages_.size(); ++stage)
      if (!stages_[stage].thread.joinable()) stages_[stage].thread = std::thread([this, stage] { run(stage); });
    std::exception_ptr failure;
    try {
      for (int64_t first = 0; first < std::ssize(batch.tokens); first += tokens) {
        Handed piece = cut(batch, first, std::min(tokens, std::ssize(batch.tokens) - first));
        evaluate(0, piece);
        hand_on(0, std::move(piece));
      }
    } catch (...) {
      failure = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::ranges::none_of(stages_, [](const Stage& stage) { return stage.busy || !stage.waiting.empty(); });
    });
    if (const std::exception_ptr later = std::exchange(failure_, nullptr); later && !failure) failure = later;
    if (failure) std::rethrow_exception(failure);
  }
  // After a failure pieces are dropped.
  void hand_on(size_t from, Handed piece) {
    if (from + 1 == stages_.size()) return;
    Stage& next = stages_[from + 1];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next.waiting.size() < kMostWaiting || failure_; });
    if (failure_) return;
    next.waiting.push_back(std::move(piece));
    changed_.notify_all();
  }
  void run(size_t at) {
    Stage& stage = stages_[at];
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !stage.waiting.empty(); });
      if (stage.waiting.empty()) return;
      Handed piece = std::move(stage.waiting.front());
      stage.waiting.pop_front();
      if (failure_) {
        changed_.notify_all();
        continue;
      }
      stage.busy = true;
      lock.unlock();
      changed_.notify_all();
      std::exception_ptr failure;
      try {
        evaluate(at, piece);
        hand_on(at, std::move(piece));
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      stage.busy = false;
      changed_.notify_all();
    }
  }

  const std::vector<Program> parts_; // the executors refer to them
  const ExecutorConfig config_;
  const bool overlap_;
  const std::shared_ptr<void> companion_;
  std::mutex mutex_; // for the fields below, but executors
  std::condition_variable changed_;
  bool ends_ = false;
  std::exception_ptr failure_; // of a stage but the first
  std::vector<Stage> stages_;
  std::string description_;
  std::vector<float> results_;               // logits of all pieces but the last
  std::span<const Sampler* const> samplers_; // of the batch
  std::span<const int32_t> last_chosen_;     // by the last stage, of its last piece
  std::vector<int32_t> chosen_;
};

} // namespace

std::unique_ptr<Executor> make_split_executor(SplitProgram parts, const ExecutorConfig& config,
                                              const MakeExecutor& make_front, const MakeExecutor& make_back) {
  std::vector<Program> both;
  both.push_back(std::move(parts.front));
  both.push_back(std::move(parts.back));
  return std::make_unique<StagesExecutor>(
      std::move(both), config,
      [&](const Program& part, const ExecutorConfig& own, int stage) {
        return (stage == 0 ? make_front : make_back)(part, own);
      },
      false);
}

std::unique_ptr<Executor> make_pipeline_executor(const Program& program, const ExecutorConfig& config, int stages,
                                                 const MakeStage& make, std::shared_ptr<void> companion) {
  if (stages == 1) return make(program, config, 0);
  return std::make_unique<StagesExecutor>(pipeline_parts(program, stages), config, make, true, std::move(companion));
}

} // namespace ridge::core
