#include "kernels/cpu/executor/executor.h"

#include "core/parallel/communicator.h"
#include "core/rings.h"
#include "kernels/cpu/executor/lowering.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cpu/formats/byte_dots.h"
#include "kernels/cpu/formats/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ridge::kernels::cpu {

std::string_view instruction_set() {
#if HWY_ARCH_ARM // Highway's names are of what the compiler was allowed
  return byte_dots() == ByteDots::i8mm ? "NEON i8mm" : byte_dots() == ByteDots::dotprod ? "NEON dotprod" : "NEON";
#else
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  const int64_t best = usable & -usable; // lowest bit
  return best == HWY_AVX3_DL && byte_dots() == ByteDots::amx ? "AVX3_DL with AMX" : hwy::TargetName(best);
#endif
}

namespace {

class CpuExecutor final : public core::Executor {
 public:
  CpuExecutor(const core::Program& program, const core::ExecutorConfig& config, int threads)
      : program_(program), config_(config), lowering_(program, config, threads), positions_(program, config),
        description_(fmt::format("CPU, {} thread{}, {}", threads, threads == 1 ? "" : "s", instruction_set())) {
    for (int64_t stream = 0; stream < config.streams; ++stream)
      std::ranges::copy(core::usual_adapters(program.adapters), std::back_inserter(lowering_.batch().adapters));
  }

  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    if (!choosing.samplers.empty() || choosing.chain != core::Chain::none) unsupported("choice of tokens");
    core::check_batch(program_, config_, batch);
    positions_.advance(batch);
    load(batch);
    lowering_.run();
    if (config_.communicator) config_.communicator->check();
  }
  std::span<const int32_t> wait() override { return {}; }

  std::span<const float> logits(int64_t i) override {
    if (i < 0 || i >= lowering_.batch().rows(program_.values[program_.result()].gathered))
      throw std::logic_error("logits were requested for an output that was not computed");
    return lowering_.result(i);
  }

  std::span<const float> hidden() override { return lowering_.hidden(); }

  bool can_resume_at(int32_t stream, int64_t position) const override {
    return positions_.can_resume_at(stream, position);
  }
  int64_t saved_floats() const override { return core::state_elements(program_) + lowering_.cache().window_floats(); }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    const int64_t recurrent = core::state_elements(program_);
    save_recurrent(stream, state.first(recurrent));
    lowering_.cache().save_windows(stream, position, state.subspan(recurrent));
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    if (state.empty()) return positions_.set_unchecked(stream, position);
    positions_.set(stream, position);
    const int64_t recurrent = core::state_elements(program_);
    load_recurrent(stream, state.first(recurrent));
    lowering_.cache().load_windows(stream, position, state.subspan(recurrent));
  }

  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    lowering_.cache().copy(from, to, tokens);
    positions_.copy(from, to);
  }
  void set_adapters(int32_t stream, std::span<const core::AdapterUse> uses) override {
    core::check_adapters(program_, config_, stream, uses);
    std::ranges::copy(uses, lowering_.batch().adapters.begin() + stream * std::ssize(uses));
  }
  std::string block_layout() const override { return "cpu 1" + core::left_out_of_blocks(program_, config_); }
  int64_t block_bytes() const override { return lowering_.cache().block_bytes(); }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    for (std::byte* block : blocks) lowering_.cache().save(stream, first++, block);
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    for (const std::byte* block : blocks) lowering_.cache().load(stream, first++, block);
  }
  void mark_state(int32_t stream) override {
    mark_.stream = stream;
    mark_.position = positions_.of(stream);
    mark_.state.resize(core::state_elements(program_));
    save_recurrent(stream, mark_.state);
  }
  void restore_mark() override {
    positions_.return_to(mark_.stream, mark_.position);
    load_recurrent(mark_.stream, mark_.state);
  }

  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override {
    forward(batch);
    return lowering_.profile(repetitions);
  }

  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override { return static_cast<double>(lowering_.bytes()); }

 private:
  void save_recurrent(int32_t stream, std::span<float> state) {
    for_states(stream,
               [&, at = state.begin()](std::span<float> layer) mutable { at = std::ranges::copy(layer, at).out; });
  }
  void load_recurrent(int32_t stream, std::span<const float> state) {
    for_states(stream, [&, at = state.begin()](std::span<float> layer) mutable {
      std::copy_n(at, layer.size(), layer.begin());
      at += std::ssize(layer);
    });
  }
  template <typename Run>
  void for_states(int32_t stream, Run run) {
    for (size_t i = 0; i < program_.states.size(); ++i)
      run(std::span(lowering_.state(static_cast<int32_t>(i), stream), program_.states[i].width));
  }

  void load(const core::Batch& batch) {
    BatchState& state = lowering_.batch();
    state.tokens.assign(batch.tokens.begin(), batch.tokens.end());
    state.positions.assign(batch.positions.begin(), batch.positions.end());
    state.streams.assign(batch.streams.begin(), batch.streams.end());
    state.streams.resize(batch.tokens.size(), 0);
    state.outputs.assign(batch.outputs.begin(), batch.outputs.end());
    state.axes.assign(batch.axes.begin(), batch.axes.end());
    state.given.assign(batch.rows.begin(), batch.rows.end());
    find_segments(state, batch.block_ends);
    if (!program_.states.empty()) find_sequences(state);
    std::ranges::copy(batch.input, lowering_.input().begin());
  }

  // A segment: consecutive tokens of one stream in the same block, at most one attention task.
  void find_segments(BatchState& state, std::span<const int32_t> block_ends) const {
    state.segments.clear();
    for (size_t i = 0; i < state.tokens.size(); ++i) {
      const int64_t block_end = block_ends.empty() ? 0 : block_ends[i];
      int64_t block_first = block_end > 0 ? state.positions[i] : 0;
      if (!state.segments.empty()) {
        BatchState::Segment& last = state.segments.back();
        const bool goes_on = last.stream == state.streams[i] &&
                             last.first_position + last.tokens == state.positions[i] && last.block_end == block_end;
        if (goes_on && last.tokens < lowering_.segment_tokens()) {
          ++last.tokens;
          continue;
        }
        if (goes_on) block_first = last.block_first;
      }
      state.segments.push_back(
          {state.streams[i], static_cast<int64_t>(i), 1, state.positions[i], 0, block_first, block_end});
    }
    std::vector<int64_t> ends(static_cast<size_t>(config_.streams), 0);
    for (const BatchState::Segment& segment : state.segments)
      ends[segment.stream] = std::max(ends[segment.stream], segment.first_position + segment.tokens);
    for (BatchState::Segment& segment : state.segments) segment.end = ends[segment.stream];
  }

  static void find_sequences(BatchState& state) {
    state.sequences.clear();
    for (size_t i = 0; i < state.tokens.size(); ++i) {
      auto at = std::ranges::find(state.sequences, state.streams[i], &BatchState::Sequence::stream);
      if (at == state.sequences.end()) at = state.sequences.insert(at, {state.streams[i], {}, state.positions[i] == 0});
      at->tokens.push_back(static_cast<int64_t>(i));
    }
  }

  const core::Program& program_;
  const core::ExecutorConfig config_;
  Lowering lowering_;
  core::StreamPositions positions_;
  struct {
    int32_t stream = 0;
    int64_t position = 0;
    std::vector<float> state;
  } mark_;
  const std::string description_;
};

} // namespace

namespace {

int threads_of(const core::Program& program, const core::ExecutorConfig& config) {
  core::validate(program);
  core::check_config(program, config);
  return config.threads > 0 ? config.threads : default_threads();
}

} // namespace

std::unique_ptr<core::Executor> make_cpu_executor(const core::Program& program, const core::ExecutorConfig& config) {
  return std::make_unique<CpuExecutor>(program, config, threads_of(program, config));
}

MemoryUse memory_use(const core::Program& program, const core::ExecutorConfig& config) {
  Lowering lowering(program, config, threads_of(program, config));
  const int64_t cache = lowering.cache().bytes();
  const int64_t state = static_cast<int64_t>(sizeof(float)) * core::state_elements(program) * config.streams;
  return {cache, state, lowering.bytes() - cache - state};
}

} // namespace ridge::kernels::cpu
