// Tokens chosen on the device.
#include "kernels/cuda/executor/executor_class.h"

#include <algorithm>
#include <stdexcept>

namespace ridge::kernels::cuda {
namespace {

const PlanShape kNextToken = {1, 1, kAttentionRows, true, true};

} // namespace

void Executor::submit(const core::Batch& batch, const core::Choosing& choosing) {
  const CurrentDevice current(context_.device());
  if (choosing.chain == core::Chain::resume) {
    if (!in_chain_) throw std::logic_error("CUDA: no chain to resume");
    return batch.tokens[0] == core::kChosenToken ? decode_chosen() : decode_known(batch, choosing.guesses);
  }
  in_chain_ = guessed_ = false;
  chosen_ = {};
  evaluate(batch);
  if (choosing.samplers.empty()) return;
  if (std::ssize(choosing.samplers) != result_rows_)
    throw std::logic_error("CUDA: the number of samplers differs from the rows of logits");
  if (choosing.chain == core::Chain::begin) return begin_chain(*choosing.samplers[0], batch);
  chosen_ =
      sampler_.choose(choosing.samplers, workspace_.value(program_.logits), program_.choices(), context_.launch());
}

std::span<const int32_t> Executor::wait() {
  if (!in_chain_) return chosen_; // it has ended already
  if (!decoding_.has_unread_token()) throw std::logic_error("CUDA: every token of the chain was waited for");
  const CurrentDevice current(context_.device());
  ++read_steps_;
  if (guessed_) {
    chosen_ = decoding_.read_tokens();
  } else {
    token_ = decoding_.read_token();
    chosen_ = {&token_, 1};
  }
  guessed_ = false;
  check_others();
  return chosen_;
}

bool Executor::can_chain(const core::SamplerParams& params) const {
  return program_.output < 0 && can_sample(params) && !core::rope_uses_picture_axis(program_);
}

// Captured choices hold addresses of the loop's memory.
void Executor::start_loop(const core::Sampler& sampler, int32_t position) {
  in_chain_ = guessed_ = false;
  if (decoding_.start(sampler, config_.context, position, workspace_.value(program_.logits), program_.choices(),
                      batch_.device(), context_.stream()))
    graphs_.clear();
}

void Executor::begin_chain(const core::Sampler& sampler, const core::Batch& batch) {
  if (!can_chain(sampler.params()) || result_rows_ != 1) throw std::logic_error("CUDA: a chain needs one output");
  const int32_t last = batch.outputs[0], token = 0, output = 0, before = batch.positions[last], position = before + 1;
  decoding_stream_ = batch.streams.empty() ? 0 : batch.streams[last];
  start_loop(sampler, position);
  in_chain_ = true;
  decoded_[0].count = 0;
  decoded_steps_ = 1;
  read_steps_ = 0;
  batch_.load_following({{&token, 1}, {&before, 1}, {&decoding_stream_, 1}, {&output, 1}}, context_.device(),
                        context_.stream());
  launch_sample(context_.launch(), decoding_.args(0, 1, 1));
  decoding_.record_choice(position, context_.stream());
}

void Executor::decode_chosen() {
  if (decoding_.position() >= config_.context) throw std::logic_error("CUDA: decoding past the context");
  if (!whole()) throw std::logic_error("CUDA: decoding ahead needs a Program whose only input is the token");
  if (!decoding_.has_unread_token()) throw std::logic_error("CUDA: the chosen token is known");
  run_decoded(kNextToken, decoding_.position() + 1);
  positions_.advance(decoding_stream_, decoding_.position());
}

void Executor::run_decoded(const PlanShape& shape, int64_t next_position) {
  run(shape);
  hidden_is_decoded_ = true;
  if (program_.hidden >= 0) {
    DecodedRows& rows = decoded_[decoded_steps_ % 2];
    rows.count = rows_of(program_.hidden, shape);
    RIDGE_CUDA(cudaMemcpyAsync(rows.host.as(), workspace_.value(program_.hidden),
                               rows.count * program_.values[program_.hidden].width * sizeof(float),
                               cudaMemcpyDeviceToHost, context_.stream()));
  }
  ++decoded_steps_;
  decoding_.record_choice(next_position, context_.stream());
}

void Executor::decode_known(const core::Batch& batch, int64_t guesses) {
  const int64_t count = std::ssize(batch.tokens);
  if (decoding_.has_unread_token()) throw std::logic_error("CUDA: drafts before the preceding token was read");
  if (guesses < 0 || guesses >= std::min<int64_t>(count, kChosenSlots) || count > kGraphTokens ||
      std::ssize(batch.outputs) != guesses + 1)
    throw std::logic_error("CUDA: drafts without a preceding token, or too many");
  core::check_batch(program_, config_, batch);
  positions_.advance(batch);
  batch_.load_following(batch, context_.device(), context_.stream());
  PlanShape shape = shape_of(batch);
  shape.sample = true;
  guessed_ = guesses > 0;
  run_decoded(shape, batch.positions.back() + 1);
}

// Enqueues all steps, waits once.
std::vector<int32_t> Executor::continue_greedily(const core::Batch& batch, core::Sampler& greedy, int64_t count) {
  if (program_.output >= 0 || count < 1 || count > kChosenSlots || batch.outputs.size() != 1)
    throw std::logic_error("CUDA: a text continues after one output, by a few tokens");
  const CurrentDevice current(context_.device());
  core::check_batch(program_, config_, batch);
  const int32_t stream = batch.streams.empty() ? 0 : batch.streams.back();
  const int64_t end = batch.positions.back() + 1;
  if (end + count - 1 > config_.context) throw std::logic_error("CUDA: a text continues past the context");
  positions_.advance(batch);
  hidden_is_decoded_ = result_read_ = hidden_read_ = false;
  start_loop(greedy, static_cast<int32_t>(end));
  batch_.load(batch, context_.device(), context_.stream());
  load_input(batch.input);
  PlanShape shape = shape_of(batch);
  shape.sample = true;
  run(shape);
  decoding_.record_choice(end, context_.stream());
  for (int64_t i = 1; i < count; ++i) {
    feed_back(shape);
    batch_.follow(shape.tokens - 1, context_.stream());
    shape = kNextToken;
    run(shape);
    decoding_.record_choice(end + i, context_.stream());
    positions_.advance(stream, end + i);
  }
  result_rows_ = 1;
  if (program_.hidden >= 0) hidden_rows_ = rows_of(program_.hidden, shape);
  const std::span<const int32_t> chosen = decoding_.read_tokens();
  check_others();
  const auto unusable = std::ranges::find(chosen, -1);
  return {chosen.begin(), unusable == chosen.end() ? unusable : unusable + 1};
}

// The next input is the last hidden row.
void Executor::feed_back(const PlanShape& from) {
  if (program_.input < 0) return;
  const int64_t width = program_.values[program_.input].width, last = rows_of(program_.hidden, from) - 1;
  float* input = workspace_.value(program_.input);
  const float* row = workspace_.value(program_.hidden) + last * width;
  if (row == input) return;
  RIDGE_CUDA(cudaMemcpyAsync(input, row, width * sizeof(float), cudaMemcpyDeviceToDevice, context_.stream()));
}

double Executor::time_decode(int64_t position, int64_t streams, int repetitions) {
  if (!whole()) throw std::logic_error("CUDA: a part of a Program cannot decode on its own");
  const CurrentDevice current(context_.device());
  std::vector<int32_t> tokens(streams), positions(streams, static_cast<int32_t>(position)), which(streams),
      outputs(streams);
  for (int64_t i = 0; i < streams; ++i) {
    tokens[i] = static_cast<int32_t>((i * 7919 + 13) % program_.vocab);
    which[i] = outputs[i] = static_cast<int32_t>(i);
  }
  const core::Batch batch{tokens, positions, which, outputs};
  core::check_batch(program_, config_, batch);
  for (const int32_t stream : which) positions_.advance(stream, position + 1);
  PlanShape shape{streams, streams, 1, true};
  if (streams == 1) { // also chooses a token, as decoding does
    shape.sample = true;
    core::SamplerParams greedy;
    greedy.temp = 0;
    start_loop(core::Sampler(greedy, program_.choices()), static_cast<int32_t>(position) + 1);
  }
  batch_.load(batch, context_.device(), context_.stream());
  for (int i = 0; i < 3; ++i) run(shape);
  const std::vector<TimedEvent> events(repetitions + 1);
  events[0].record(context_.stream());
  for (int i = 0; i < repetitions; ++i) {
    run(shape);
    events[i + 1].record(context_.stream());
  }
  context_.synchronize();
  check_others();
  std::vector<double> seconds(repetitions);
  for (int i = 0; i < repetitions; ++i) seconds[i] = events[i + 1].seconds_since(events[i]);
  std::ranges::nth_element(seconds, seconds.begin() + repetitions / 2);
  return seconds[repetitions / 2];
}

} // namespace ridge::kernels::cuda
