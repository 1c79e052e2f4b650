// A Program on the GPU: what an executor owns, and batches as graphs. Which kernels a batch runs is in its plan
// (plan/batch_plan.h); how they are launched is in launches.h.
#include "kernels/cuda/executor/executor.h"

#include "core/cache/rings.h"
#include "core/error.h"
#include "core/strings/units.h"
#include "kernels/cuda/cache/pinned_blocks.h"
#include "kernels/cuda/executor/launches.h"
#include "kernels/cuda/executor/profile.h"
#include "kernels/cuda/sampling/batch_sampler.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kPlansKept = 64; // prompts come in many lengths

core::ExecutorConfig checked(const core::Program& program, const core::ExecutorConfig& config) {
  core::validate(program);
  core::check_config(program, config);
  return config;
}

int64_t free_memory() { // of the current device, in bytes
  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

bool distinct(std::span<const int32_t> streams, int64_t tokens) {
  if (streams.empty()) return tokens == 1;
  std::vector<int32_t> sorted(streams.begin(), streams.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

PlanShape shape_of(const core::Batch& batch) {
  const auto stream = [&](size_t i) { return batch.streams.empty() ? 0 : batch.streams[i]; };
  const int64_t tokens = std::ssize(batch.tokens);
  std::vector<TokenRun> runs;
  for (int64_t i = 0; i < tokens; ++i)
    if (i > 0 && stream(i) == stream(i - 1) && batch.positions[i] == batch.positions[i - 1] + 1)
      ++runs.back().tokens;
    else
      runs.push_back({i, 1});
  // Tokens may share an attention tile where all are of one stream and in sequence.
  const bool one_run = runs.size() == 1;
  std::erase_if(runs, [&](const TokenRun& run) { return one_run || run.tokens < kPromptTokensAtLeast; });
  return {.tokens = tokens,
          .outputs = std::ssize(batch.outputs),
          .tile_tokens = one_run ? kAttentionRows : 1,
          .distinct_streams = distinct(batch.streams, tokens),
          .prompts = std::move(runs)};
}

// What `launch` puts on the stream, as a graph.
template <typename LaunchAll>
void capture(cudaStream_t stream, Graph& graph, LaunchAll&& launch) {
  cudaGraph_t captured = nullptr;
  RIDGE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    launch();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    if (captured) cudaGraphDestroy(captured);
    throw;
  }
  RIDGE_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaError_t status = cudaGraphInstantiate(&graph.handle, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiate");
}

class Executor final : public core::Executor {
 public:
  // The device must be the current one. `program` must outlive the executor.
  Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options);
  ~Executor() override {
    const CurrentDevice current(context_.device());
    cudaStreamSynchronize(context_.stream());
  }

  void forward(const core::Batch& batch) override;
  std::span<const float> logits(int64_t i) override;
  std::span<const float> hidden() override;
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override {
    const MemoryPlan memory = allocated();
    return static_cast<double>(memory.cache + memory.state + memory.scratch + memory.reserve);
  }
  MemoryPlan allocated() const;

  int64_t saved_floats() const override { return core::state_elements(program_) + cache_.window_floats(); }
  std::shared_ptr<float> make_state() override;
  void save_state(int32_t stream, std::span<float> state, int64_t position) override;
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override;

  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    const CurrentDevice current(context_.device());
    cache_.copy(from, to, tokens, context_.stream());
    positions_.copy(from, to);
  }
  bool continues_at(int32_t stream, int64_t position) const override {
    return positions_.continues_at(stream, position);
  }
  std::string block_layout() const override { return "cuda 1" + core::left_out_of_blocks(program_, config_); }
  int64_t block_bytes() const override { return cache_.block_bytes(); }
  std::shared_ptr<std::byte> make_block() override;
  void expect_blocks(int64_t count) override { blocks_.expect(count); }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override;
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override;
  void mark_state(int32_t stream) override;
  void return_to_mark() override;
  core::ExpertUse expert_use() override {
    const CurrentDevice current(context_.device());
    return experts_.use();
  }

  bool start_decoding(const core::Sampler& sampler, int32_t position, int32_t stream) override;
  int32_t next_token(bool ahead) override;
  bool can_choose(const core::SamplerParams& params) const override {
    return whole() && BatchSampler::can_sample(params);
  }
  std::span<const int32_t> choose(std::span<const core::Sampler* const> samplers) override;
  void decode_guesses(std::span<const int32_t> tokens, int64_t guesses, int32_t position) override;
  std::vector<int32_t> go_on(const core::Batch& batch, core::Sampler& greedy, int64_t count) override;
  std::span<const int32_t> chosen_tokens() override;

  // Times on the GPU. A step of one stream ends with the choice of the next token, and the steps are at consecutive
  // positions.
  double time_decode(int64_t position, int64_t streams, int repetitions) override;
  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override;
  std::string describe_plan(const core::Batch& batch) override;

 private:
  bool whole() const { return program_.input < 0 && program_.output < 0; } // else a part of a Program
  int64_t rows_of(core::ValueId id, const PlanShape& shape) const {
    return program_.values[id].gathered ? shape.outputs : shape.tokens;
  }
  void take_expert_slots();
  void load_input(std::span<const float> input);
  void start_loop(const core::Sampler& sampler, int32_t position);
  void run_decoded(const PlanShape& shape, int64_t next_position);
  void feed_back(const PlanShape& from);
  const BatchPlan& plan_of(const PlanShape& shape);
  void launch_all(const BatchPlan& plan, LaunchLog* log = nullptr);
  void run(const PlanShape& shape);

  const core::Program& program_;
  core::ExecutorConfig config_;
  CudaOptions options_;
  Plan plan_;
  std::vector<std::string> step_names_; // "3:attn_q attn_k attn_v", for Nsight
  std::string description_;

  DeviceContext context_;
  int64_t free_before_; // bytes of the GPU's memory
  ExpertStore experts_;
  DeviceWeights weights_;
  KvCache cache_;
  StateMemory states_;
  Workspace workspace_;
  BatchMemory batch_;
  DecodeLoop decoding_;
  BatchSampler sampler_;
  KernelLauncher launcher_;
  PlanInputs plan_inputs_;

  core::StreamPositions positions_;
  int64_t marked_position_ = 0; // of the stream whose state is marked
  int32_t decoding_stream_ = 0;
  PinnedMemory logits_host_;
  int64_t result_rows_ = 0;  // of the last forward()
  bool result_read_ = false; // all of it, into logits_host_
  PinnedMemory hidden_host_;
  int64_t hidden_rows_ = 0; // of the last forward()
  bool hidden_read_ = false;
  // Of the steps of decoding, in turn: while the host reads those of one, the next step's come.
  struct DecodedRows {
    PinnedMemory host;
    int64_t count = 0;
  };
  DecodedRows decoded_[2];
  int64_t decoded_steps_ = 0, read_steps_ = 0; // the choice behind the forward() before them is one without rows
  bool in_decoding_ = false;                   // hidden() gives decoded_
  std::map<PlanShape, BatchPlan> plans_;
  std::map<PlanShape, Graph> graphs_;
  PinnedBlocks blocks_, state_copies_;
};

Executor::Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options)
    : program_(program), config_(checked(program, config)), options_(options), plan_(make_plan(program, options.fuse)),
      step_names_(names_of_steps(program, plan_)), context_(options.device, options.as_compute),
      free_before_(free_memory()),
      experts_(program, options.experts_on_host ? expert_groups(program) : std::vector<ExpertGroup>{},
               options.host_limit, !options.upload, context_.limits().sm_count),
      weights_(program, experts_), cache_(program, config_, context_.stream()),
      states_(program, config_, context_.stream()), workspace_(program, config_, plan_, context_),
      batch_(config_.max_batch),
      launcher_(program_, config_, context_, weights_, experts_, cache_, states_, workspace_, batch_, decoding_),
      plan_inputs_{program_,          config_,  plan_, context_.limits(), options.overlap, options.dataflow_sync,
                   !experts_.empty(), launcher_},
      positions_(program_, config_), blocks_(context_.device(), static_cast<size_t>(cache_.block_bytes())),
      state_copies_(context_.device(), static_cast<size_t>(saved_floats()) * sizeof(float)) {
  const DeviceInfo info = device_info(options.device);
  description_ = fmt::format("CUDA, {}, {} multiprocessors", info.name, info.sm_count);
  const auto host_rows = [&](core::ValueId id) {
    const core::ValueInfo& value = program_.values[id];
    const int64_t most = value.gathered ? config_.max_outputs : config_.max_batch;
    return PinnedMemory(std::max<int64_t>(most, 1) * value.width * sizeof(float));
  };
  logits_host_ = host_rows(program_.result());
  if (program_.hidden >= 0) {
    hidden_host_ = host_rows(program_.hidden);
    const int64_t row_bytes = program_.values[program_.hidden].width * static_cast<int64_t>(sizeof(float));
    for (DecodedRows& rows : decoded_) rows.host = PinnedMemory(std::min(config_.max_batch, kGraphTokens) * row_bytes);
  }
  take_expert_slots();
  if (!options.upload) return;
  weights_.upload(program, context_.launch(), options.upload_progress);
  if (saved_floats() > 0) state_copies_.expect(1);
}

// `reserve`: what was allocated since the executor was made.
MemoryPlan Executor::allocated() const {
  MemoryPlan memory;
  memory.weights = weights_.bytes();
  memory.cache = static_cast<int64_t>(cache_.bytes());
  memory.state = static_cast<int64_t>(states_.bytes());
  memory.scratch = workspace_.bytes() + static_cast<int64_t>(batch_.bytes()) + experts_.table_bytes();
  memory.reserve = static_cast<int64_t>(decoding_.bytes() + sampler_.bytes());
  return memory;
}

// In what is left of the memory that was free, or is allowed, beside the reserve. Throws OutOfMemory where nothing is.
// What counts is what was asked for, as plan_memory() counts it, not what the device's pages make of it.
void Executor::take_expert_slots() {
  MemoryPlan needed = allocated();
  needed.reserve = reserve_bytes(program_, config_);
  const auto limit = static_cast<int64_t>(options_.memory_limit);
  const bool limited = limit > 0 && limit < free_before_;
  const int64_t room = (limited ? limit : free_before_) - needed.total();
  if (room < 0 || !experts_.take_slots(room, options_.most_copies, context_.launch()))
    throw OutOfMemory(fmt::format("CUDA: out of memory: {} are needed, {} are {}",
                                  core::human_bytes(static_cast<double>(needed.total() + experts_.least_bytes())),
                                  core::human_bytes(static_cast<double>(limited ? limit : free_before_)),
                                  limited ? "allowed" : "free"));
}

void Executor::load_input(std::span<const float> input) {
  if (input.empty()) return;
  RIDGE_CUDA(cudaMemcpyAsync(workspace_.value(program_.input), input.data(), input.size_bytes(), cudaMemcpyHostToDevice,
                             context_.stream()));
}

void Executor::forward(const core::Batch& batch) {
  const CurrentDevice current(context_.device());
  core::check_batch(program_, config_, batch);
  positions_.advance(batch);
  const PlanShape shape = shape_of(batch);
  batch_.load(batch, context_.stream());
  load_input(batch.input);
  result_rows_ = rows_of(program_.result(), shape);
  if (program_.hidden >= 0) hidden_rows_ = rows_of(program_.hidden, shape);
  result_read_ = hidden_read_ = in_decoding_ = false;
  run(shape);
  context_.synchronize();
  if (config_.communicator) config_.communicator->check();
}

std::span<const float> Executor::logits(int64_t i) {
  if (i < 0 || i >= result_rows_) throw std::logic_error("CUDA: logits that the last forward() was not asked for");
  const CurrentDevice current(context_.device());
  const core::ValueId result = program_.result();
  const auto columns = static_cast<size_t>(program_.values[result].width);
  float* row = logits_host_.as<float>() + i * columns;
  if (result_read_) return {row, columns};
  result_read_ = !whole(); // all rows of a part's result are wanted
  const int64_t first = result_read_ ? 0 : i, rows = result_read_ ? result_rows_ : 1;
  RIDGE_CUDA(cudaMemcpyAsync(logits_host_.as<float>() + first * columns, workspace_.value(result) + first * columns,
                             rows * columns * sizeof(float), cudaMemcpyDeviceToHost, context_.stream()));
  context_.synchronize();
  return {row, columns};
}

std::span<const float> Executor::hidden() {
  if (program_.hidden < 0) return {};
  const int64_t width = program_.values[program_.hidden].width;
  if (in_decoding_) {
    if (read_steps_ == 0) return {};
    const DecodedRows& last = decoded_[(read_steps_ - 1) % 2];
    return {last.host.as<float>(), static_cast<size_t>(last.count * width)};
  }
  if (hidden_rows_ == 0) return {};
  const std::span rows(hidden_host_.as<float>(), hidden_rows_ * width);
  if (hidden_read_) return rows;
  const CurrentDevice current(context_.device());
  RIDGE_CUDA(cudaMemcpyAsync(rows.data(), workspace_.value(program_.hidden), rows.size_bytes(), cudaMemcpyDeviceToHost,
                             context_.stream()));
  context_.synchronize();
  hidden_read_ = true;
  return rows;
}

// Captured choices hold addresses of the loop's memory.
void Executor::start_loop(const core::Sampler& sampler, int32_t position) {
  if (decoding_.start(sampler, config_.context, position, workspace_.value(program_.logits), program_.choices(),
                      batch_.device(), context_.stream()))
    graphs_.clear();
}

std::shared_ptr<float> Executor::make_state() {
  const std::shared_ptr<std::byte> pinned = state_copies_.take();
  state_copies_.expect(1); // for the next one
  return pinned ? std::shared_ptr<float>(pinned, reinterpret_cast<float*>(pinned.get())) : core::Executor::make_state();
}

void Executor::save_state(int32_t stream, std::span<float> state, int64_t position) {
  const CurrentDevice current(context_.device());
  const auto recurrent = static_cast<size_t>(core::state_elements(program_));
  states_.save(stream, state.first(recurrent), context_.stream());
  cache_.save_windows(stream, position, state.subspan(recurrent), context_.stream());
  context_.synchronize();
}

void Executor::load_state(int32_t stream, std::span<const float> state, int64_t position) {
  if (state.empty()) return positions_.assume(stream, position);
  positions_.set(stream, position);
  const CurrentDevice current(context_.device());
  const auto recurrent = static_cast<size_t>(core::state_elements(program_));
  states_.load(stream, state.first(recurrent), context_.stream());
  cache_.load_windows(stream, position, state.subspan(recurrent), context_.stream());
  context_.synchronize();
}

std::shared_ptr<std::byte> Executor::make_block() {
  const std::shared_ptr<std::byte> pinned = blocks_.take();
  return pinned ? pinned : core::Executor::make_block(); // copies take longer from other memory
}

void Executor::save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) {
  const CurrentDevice current(context_.device());
  cache_.save(stream, first, blocks, context_.launch());
  context_.synchronize();
}

void Executor::load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) {
  const CurrentDevice current(context_.device());
  cache_.load(stream, first, blocks, context_.launch());
  context_.synchronize();
}

void Executor::mark_state(int32_t stream) {
  const CurrentDevice current(context_.device());
  marked_position_ = positions_.of(stream);
  states_.mark(stream, context_.stream());
}

void Executor::return_to_mark() {
  const CurrentDevice current(context_.device());
  positions_.return_to(states_.marked(), marked_position_);
  states_.return_to_mark(context_.stream());
}

std::span<const int32_t> Executor::choose(std::span<const core::Sampler* const> samplers) {
  if (std::ssize(samplers) != result_rows_) throw std::logic_error("CUDA: as many samplers as rows of logits");
  const CurrentDevice current(context_.device());
  return sampler_.choose(samplers, workspace_.value(program_.logits), program_.choices(), context_.launch());
}

bool Executor::start_decoding(const core::Sampler& sampler, int32_t position, int32_t stream) {
  if (program_.output >= 0 || !can_sample(sampler.params())) return false;
  if (result_rows_ != 1 || position < 1 || stream < 0 || stream >= config_.streams)
    throw std::logic_error("CUDA: decoding must follow a forward() with one output");
  const CurrentDevice current(context_.device());
  start_loop(sampler, position);
  decoding_stream_ = stream;
  in_decoding_ = true;
  decoded_[0].count = 0;
  decoded_steps_ = 1;
  read_steps_ = 0;
  const int32_t token = 0, before = position - 1, output = 0;
  batch_.load({{&token, 1}, {&before, 1}, {&stream, 1}, {&output, 1}}, context_.stream());
  launch_sample(context_.launch(), decoding_.args(0, 1, 1));
  decoding_.record_choice(position, context_.stream());
  return true;
}

int32_t Executor::next_token(bool ahead) {
  if (!decoding_.has_unread_token()) throw std::logic_error("CUDA: next_token() without decoding");
  const CurrentDevice current(context_.device());
  if (ahead) {
    if (decoding_.position() >= config_.context) throw std::logic_error("CUDA: decoding past the context");
    if (!whole()) throw std::logic_error("CUDA: decoding ahead needs no input but the token");
    run_decoded({1, 1, kAttentionRows, true, true}, decoding_.position() + 1);
    positions_.advance(decoding_stream_, decoding_.position());
  }
  ++read_steps_;
  const int32_t token = decoding_.read_token();
  if (config_.communicator) config_.communicator->check();
  return token;
}

// A step that chooses tokens, the next step being at this position. Its hidden rows are there with its tokens.
void Executor::run_decoded(const PlanShape& shape, int64_t next_position) {
  run(shape);
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

void Executor::decode_guesses(std::span<const int32_t> tokens, int64_t guesses, int32_t position) {
  const int64_t count = std::ssize(tokens);
  if (decoding_.has_unread_token()) throw std::logic_error("CUDA: guesses before the token that they follow was read");
  if (guesses < 0 || guesses >= std::min<int64_t>(count, kChosenSlots) || count > kGraphTokens)
    throw std::logic_error("CUDA: guesses without a token before them, or too many");
  const CurrentDevice current(context_.device());
  std::vector<int32_t> positions(count), streams(count, decoding_stream_), outputs(guesses + 1);
  std::iota(positions.begin(), positions.end(), position);
  std::iota(outputs.begin(), outputs.end(), static_cast<int32_t>(count - guesses - 1));
  const core::Batch batch{tokens, positions, streams, outputs};
  core::check_batch(program_, config_, batch);
  positions_.advance(batch);
  batch_.load(batch, context_.stream());
  PlanShape shape = shape_of(batch);
  shape.sample = true;
  run_decoded(shape, position + count);
}

std::span<const int32_t> Executor::chosen_tokens() {
  const CurrentDevice current(context_.device());
  ++read_steps_;
  const std::span<const int32_t> tokens = decoding_.read_tokens();
  if (config_.communicator) config_.communicator->check();
  return tokens;
}

// All steps are put on the stream one after another, and waited for once.
std::vector<int32_t> Executor::go_on(const core::Batch& batch, core::Sampler& greedy, int64_t count) {
  if (program_.output >= 0 || count < 1 || count > kChosenSlots || batch.outputs.size() != 1)
    throw std::logic_error("CUDA: a text goes on behind one output, by a few tokens");
  const CurrentDevice current(context_.device());
  core::check_batch(program_, config_, batch);
  const int64_t end = batch.positions.back() + 1;
  if (end + count - 1 > config_.context) throw std::logic_error("CUDA: a text goes on past the context");
  positions_.advance(batch);
  decoding_stream_ = batch.streams.empty() ? 0 : batch.streams.back();
  in_decoding_ = result_read_ = hidden_read_ = false;
  start_loop(greedy, static_cast<int32_t>(end));
  batch_.load(batch, context_.stream());
  load_input(batch.input);
  PlanShape shape = shape_of(batch);
  shape.sample = true;
  run(shape);
  decoding_.record_choice(end, context_.stream());
  for (int64_t i = 1; i < count; ++i) {
    feed_back(shape);
    shape = {1, 1, kAttentionRows, true, true};
    run(shape);
    decoding_.record_choice(end + i, context_.stream());
    positions_.advance(decoding_stream_, end + i);
  }
  result_rows_ = 1;
  if (program_.hidden >= 0) hidden_rows_ = rows_of(program_.hidden, shape);
  const std::span<const int32_t> chosen = decoding_.read_tokens();
  if (config_.communicator) config_.communicator->check();
  const auto unusable = std::ranges::find(chosen, -1);
  return {chosen.begin(), unusable == chosen.end() ? unusable : unusable + 1};
}

// The next token's input is the last hidden row of the step before.
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
  if (streams == 1) { // ends with the choice of the next token, as decoding does
    shape.sample = true;
    core::SamplerParams greedy;
    greedy.temp = 0;
    start_loop(core::Sampler(greedy, program_.choices()), static_cast<int32_t>(position) + 1);
  }
  batch_.load(batch, context_.stream());
  for (int i = 0; i < 3; ++i) run(shape);
  const std::vector<TimedEvent> events(repetitions + 1);
  events[0].record(context_.stream());
  for (int i = 0; i < repetitions; ++i) {
    run(shape);
    events[i + 1].record(context_.stream());
  }
  context_.synchronize();
  std::vector<double> seconds(repetitions);
  for (int i = 0; i < repetitions; ++i) seconds[i] = events[i + 1].seconds_since(events[i]);
  std::ranges::nth_element(seconds, seconds.begin() + repetitions / 2);
  return seconds[repetitions / 2];
}

std::vector<core::OpTime> Executor::profile(const core::Batch& batch, int repetitions) {
  if ((config_.communicator && !options_.graphs) || experts_.filed()) return {}; // the host takes part
  forward(batch);
  const CurrentDevice current(context_.device());
  PlanShape shape = shape_of(batch);
  shape.tile_tokens = 1;
  shape.prompts.clear();
  if (shape.outputs == 0) throw std::logic_error("CUDA: a profile needs an output");
  const BatchPlan plan = plan_of(shape);
  LaunchLog log;
  launch_all(plan, &log); // once outside the graph, where Nsight sees its ranges: this counts the blocks
  const StampMemory stamps(log.blocks);
  log = {};
  log.stamps = stamps.device();
  Graph graph;
  capture(context_.stream(), graph, [&] { launch_all(plan, &log); });
  return profile_graph(program_, plan_, graph, log, stamps, context_.stream(), repetitions);
}

std::string Executor::describe_plan(const core::Batch& batch) {
  core::check_batch(program_, config_, batch);
  return describe(program_, plan_, plan_of(shape_of(batch)));
}

const BatchPlan& Executor::plan_of(const PlanShape& shape) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second;
  if (plans_.size() == kPlansKept) plans_.clear();
  return plans_[shape] = plan_for(plan_inputs_, shape);
}

void Executor::launch_all(const BatchPlan& plan, LaunchLog* log) {
  Launch launch = context_.launch();
  launch.log = log;
  bool served = false; // just now: the host waited
  for (const KernelCall& call : plan.calls) {
    const ProfilerRange range(step_names_[call.step]);
    launch.overlap = call.overlap && !std::exchange(served, false);
    if (call.kernel == Kernel::fetch_experts && experts_.filed()) {
      experts_.serve(call.outputs[0], launcher_.chosen_experts(plan, call), call.rows, context_.launch());
      served = true;
      continue;
    }
    if (log) log->step = call.step;
    launcher_.launch(plan, call, launch);
  }
}

void Executor::run(const PlanShape& shape) {
  if (!options_.graphs || shape.tokens > kGraphTokens || experts_.filed()) return launch_all(plan_of(shape));
  Graph& graph = graphs_[shape];
  if (!graph.handle) capture(context_.stream(), graph, [&] { launch_all(plan_of(shape)); });
  RIDGE_CUDA(cudaGraphLaunch(graph.handle, context_.stream()));
}

void require_usable(int device) {
  if (const DeviceInfo info = device_info(device); !info.usable)
    throw_error("CUDA: {}; use --device cpu", info.problem);
}

} // namespace

DeviceLimits limits_for_plans(int device) {
  return device_info(device).usable ? DeviceContext(device).limits() : kPresumedLimits;
}

MemoryPlan allocated_memory(const core::Executor& executor) {
  const auto* made = dynamic_cast<const Executor*>(&executor);
  if (!made) throw std::logic_error("CUDA: another kind of executor");
  return made->allocated();
}

bool fits(const core::Program& program, const core::ExecutorConfig& config, CudaOptions options) {
  options.upload = false;
  require_usable(options.device);
  const CurrentDevice current(options.device);
  try {
    const Executor trial(program, config, options);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

std::unique_ptr<core::Executor> make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config,
                                                   const CudaOptions& options) {
  require_usable(options.device);
  const CurrentDevice current(options.device);
  CudaOptions chosen = with_serial_mode(options, std::getenv("RIDGE_CUDA_SERIAL"));
  if (config.observer)
    chosen.fuse = chosen.graphs = false; // what goes into a matrix must be a value, and the host see it
  if (config.communicator && !dynamic_cast<const ExchangeRank*>(config.communicator))
    chosen.graphs = chosen.overlap = chosen.dataflow_sync = false; // the host takes part in a step
  return std::make_unique<Executor>(program, config, chosen);
}

} // namespace ridge::kernels::cuda
