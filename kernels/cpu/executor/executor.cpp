#include "kernels/cpu/executor/executor.h"

#include "core/error.h"
#include "kernels/cpu/executor/lowering.h"
#include "kernels/cpu/formats/targets.h"

#include <omp.h>

#include <algorithm>
#include <stdexcept>

namespace ridge::kernels::cpu {

std::string_view instruction_set() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable); // lower bits are better
}

namespace {

class CpuExecutor final : public core::Executor {
 public:
  CpuExecutor(const core::Program& program, const core::ExecutorConfig& config, int threads)
      : program_(program), config_(config), lowering_(program, config, threads),
        description_(fmt::format("CPU, {} thread{}, {}", threads, threads == 1 ? "" : "s", instruction_set())) {}

  void forward(const core::Batch& batch) override {
    check(batch);
    BatchState& state = lowering_.batch();
    state.tokens.assign(batch.tokens.begin(), batch.tokens.end());
    state.positions.assign(batch.positions.begin(), batch.positions.end());
    state.streams.assign(batch.streams.begin(), batch.streams.end());
    state.streams.resize(batch.tokens.size(), 0);
    state.outputs.assign(batch.outputs.begin(), batch.outputs.end());
    state.segments.clear();
    for (size_t i = 0; i < state.tokens.size(); ++i) {
      if (!state.segments.empty()) {
        BatchState::Segment& last = state.segments.back();
        if (last.stream == state.streams[i] && last.first_position + last.tokens == state.positions[i] &&
            last.tokens < lowering_.segment_tokens()) {
          ++last.tokens;
          continue;
        }
      }
      state.segments.push_back({state.streams[i], static_cast<int64_t>(i), 1, state.positions[i]});
    }
    const std::span<float> input = lowering_.input();
    if (batch.input.size() != input.size()) throw std::logic_error("batch: the input has another size");
    std::ranges::copy(batch.input, input.begin());
    lowering_.run();
  }

  std::span<const float> logits(int64_t i) override {
    if (i < 0 || i >= lowering_.batch().rows(program_.values[program_.result()].gathered))
      throw std::logic_error("logits of an output that was not asked for");
    return lowering_.result(i);
  }

  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override {
    forward(batch);
    return lowering_.profile(repetitions);
  }

  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override { return static_cast<double>(lowering_.bytes()); }

 private:
  void check(const core::Batch& batch) const {
    const size_t tokens = batch.tokens.size();
    if (batch.positions.size() != tokens || (!batch.streams.empty() && batch.streams.size() != tokens))
      throw std::logic_error("batch: positions or streams do not match the tokens");
    if (static_cast<int64_t>(tokens) > config_.max_batch ||
        static_cast<int64_t>(batch.outputs.size()) > config_.max_outputs)
      throw std::logic_error("batch: more tokens or outputs than the executor was made for");
    for (int32_t output : batch.outputs)
      if (output < 0 || static_cast<size_t>(output) >= tokens) throw std::logic_error("batch: output out of range");
    for (int32_t stream : batch.streams)
      if (stream < 0 || stream >= config_.streams) throw std::logic_error("batch: stream out of range");
    for (int32_t token : batch.tokens)
      if (token < 0 || token >= program_.vocab)
        throw_error("token id {} is outside this model's vocabulary of {}", token, program_.vocab);
    for (int32_t position : batch.positions)
      if (position < 0 || position >= config_.context)
        throw_error("position {} is outside the context of {} tokens; raise it with -c", position, config_.context);
  }

  const core::Program& program_;
  const core::ExecutorConfig config_;
  Lowering lowering_;
  const std::string description_;
};

} // namespace

std::unique_ptr<core::Executor> make_cpu_executor(const core::Program& program, const core::ExecutorConfig& config) {
  core::validate(program);
  core::check_cache_types(program, config);
  return std::make_unique<CpuExecutor>(program, config, config.threads > 0 ? config.threads : omp_get_num_procs());
}

} // namespace ridge::kernels::cpu
