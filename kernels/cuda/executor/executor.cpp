#include "kernels/cuda/executor/executor_class.h"

#include "core/error.h"
#include "core/units.h"
#include "kernels/cuda/encode/encode_kernels.h"
#include "kernels/cuda/executor/device_limits.h"
#include "kernels/cuda/ops/rows/take_rows.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/plan/packed_adapters.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kPlansKept = 64, kGraphsKept = 128;

core::ExecutorConfig checked(const core::Program& program, const core::ExecutorConfig& config) {
  core::validate(program);
  core::check_config(program, config);
  return config;
}

int64_t free_memory() { // in bytes
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

void require_usable(int device) {
  if (const DeviceInfo info = device_info(device); !info.usable)
    throw_error("CUDA: {}; use --device cpu", info.problem);
}

} // namespace

DeviceWeights Executor::make_weights(const core::Program& program, const ExpertStore& experts,
                                     const core::Executor* others) {
  const auto* other = dynamic_cast<const Executor*>(others);
  return DeviceWeights(program, experts, other ? &other->weights_ : nullptr, other ? &other->program_ : nullptr);
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
  // Consecutive tokens of one stream may share an attention tile.
  const bool one_run = runs.size() == 1;
  std::erase_if(runs, [&](const TokenRun& run) { return one_run || run.tokens < kPromptTokensAtLeast; });
  return {.tokens = tokens,
          .outputs = std::ssize(batch.outputs),
          .tile_tokens = one_run ? kAttentionRows : 1,
          .distinct_streams = distinct(batch.streams, tokens),
          .prompts = std::move(runs),
          .has_given_rows = !batch.rows.empty(),
          .has_blocks = std::ranges::any_of(batch.block_ends, [](int32_t end) { return end > 0; })};
}

Executor::Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options)
    : program_(program), config_(checked(program, config)), options_(options),
      plan_(make_plan(program, options.fuse, !config.batch_invariant)),
      context_(options.device, device_limits(options.device, options.as_compute)), free_before_(free_memory()),
      experts_(program, options.experts_on_host ? expert_groups(program) : std::vector<ExpertGroup>{},
               options.host_limit, !options.upload, context_.limits().sm_count),
      weights_(make_weights(program, experts_, options.weights_of)),
      routers_(program, config_, plan_, context_.limits()),
      adapted_(options.fuse && adapts_products(config_, context_.limits()) ? make_adapted_plan(program) : std::nullopt),
      adapters_(program, adapted_ ? &*adapted_ : nullptr, adapts_prompts(config_, context_.limits())),
      step_names_{names_of_steps(program, plan_), {}}, cache_(program, config_, context_.stream()),
      states_(program, config_, context_.stream()),
      workspace_(program, config_, plan_, adapted_ ? &*adapted_ : nullptr, context_), batch_(program_, config_),
      launcher_(program_, config_, context_, weights_, routers_, adapters_, experts_, cache_, states_, workspace_,
                batch_, decoding_),
      plan_inputs_{program_,
                   config_,
                   plan_,
                   context_.limits(),
                   options.overlap,
                   options.dataflow_sync,
                   !experts_.empty(),
                   launcher_.attention_fits(plan_),
                   device_rates(options.device, options.as_compute),
                   options.least_side,
                   {},
                   way_factors(options.way_factors),
                   adapted_ ? &*adapted_ : nullptr,
                   adapted_ ? launcher_.attention_fits(*adapted_) : std::vector<AttentionFit>{}},
      positions_(program_, config_), blocks_(context_.device(), static_cast<size_t>(cache_.block_bytes())),
      state_copies_(context_.device(), static_cast<size_t>(saved_floats()) * sizeof(float)),
      sender_(context_.device(), bytes_of(program_.result())) {
  if (adapted_) step_names_[1] = names_of_steps(program, *adapted_);
  const DeviceInfo info = device_info(options.device);
  description_ = fmt::format("CUDA, {}, {} multiprocessors", info.name, info.sm_count);
  if (program_.hidden >= 0) {
    hidden_host_ = PinnedMemory(bytes_of(program_.hidden));
    const int64_t row_bytes = program_.values[program_.hidden].width * static_cast<int64_t>(sizeof(float));
    for (DecodedRows& rows : decoded_) rows.host = PinnedMemory(std::min(config_.max_batch, kGraphTokens) * row_bytes);
  }
  const std::vector<core::AdapterUse> usual = core::usual_adapters(program.adapters);
  for (int32_t stream = 0; stream < config_.streams; ++stream) batch_.set_adapters(stream, usual, context_.stream());
  take_expert_slots();
  if (!options.way.empty()) force_way("", options.way);
  if (!options.upload) return;
  weights_.upload(program, context_.launch(), options.upload_progress);
  routers_.make(program, plan_, weights_, context_.launch());
  if (adapted_) adapters_.make(program, *adapted_, weights_, context_.launch());
  if (has_prompt_products(config_, context_.limits())) launcher_.bound_products(plan_, context_.launch());
  if (adapted_ && adapts_prompts(config_, context_.limits())) launcher_.bound_products(*adapted_, context_.launch());
  if (saved_floats() > 0) state_copies_.expect(1);
  start_cpu_experts();
}

void Executor::start_cpu_experts() {
  if (!options_.cpu_experts.make || !experts_.has_slots() || config_.exact || config_.observer || !options_.fuse)
    return;
  const std::vector<CpuExpertLayer> layers = cpu_expert_layers(program_, plan_, experts_.groups());
  if (layers.empty()) return;
  cpu_experts_ = std::make_unique<CpuExperts>(program_, layers, options_.cpu_experts, experts_, context_.launch());
  if (!cpu_experts_->useful()) return cpu_experts_.reset();
  for (size_t i = 0; i < layers.size(); ++i) experts_.ask_cpu(layers[i].ids, cpu_experts_->args(static_cast<int>(i)));
  plan_inputs_.cpu_experts = layers;
  description_ += fmt::format(", {} CPU threads for experts", cpu_experts_->threads());
}

void Executor::check_others() const {
  if (config_.communicator) config_.communicator->check();
  if (cpu_experts_) cpu_experts_->check();
}

// `reserve`: allocated since construction.
MemoryPlan Executor::allocated() const {
  MemoryPlan memory;
  memory.weights = weights_.bytes() + routers_.bytes() + adapters_.bytes();
  memory.cache = static_cast<int64_t>(cache_.bytes());
  memory.state = static_cast<int64_t>(states_.bytes());
  memory.scratch = workspace_.bytes() + static_cast<int64_t>(batch_.bytes()) + experts_.table_bytes();
  memory.reserve = static_cast<int64_t>(decoding_.bytes() + sampler_.bytes());
  return memory;
}

// Fills the free or allowed memory, less the reserve. Throws OutOfMemory. Counts requested bytes, like plan_memory().
void Executor::take_expert_slots() {
  MemoryPlan needed = allocated();
  needed.reserve = reserve_bytes(program_, config_);
  const auto limit = static_cast<int64_t>(options_.memory_limit);
  const bool limited = limit > 0 && limit < free_before_;
  const int64_t room = (limited ? limit : free_before_) - needed.total();
  if (room < 0 || !experts_.take_slots(room, options_.most_copies, context_.launch()))
    throw OutOfMemory(fmt::format("CUDA: out of memory: {} needed, {} {}",
                                  core::human_bytes(static_cast<double>(needed.total() + experts_.least_bytes())),
                                  core::human_bytes(static_cast<double>(limited ? limit : free_before_)),
                                  limited ? "allowed" : "free"));
}

void Executor::load_input(std::span<const float> input) {
  if (input.empty()) return;
  RIDGE_CUDA(cudaMemcpyAsync(workspace_.value(program_.input), input.data(), input.size_bytes(), cudaMemcpyHostToDevice,
                             context_.stream()));
}

std::shared_ptr<float> Executor::make_input(int64_t floats) {
  const CurrentDevice current(context_.device());
  const auto pinned = std::make_shared<PinnedMemory>(floats * sizeof(float));
  return {pinned, pinned->as<float>()};
}

bool Executor::take_input(const core::Executor& from, std::span<const int32_t> which) {
  const auto* other = dynamic_cast<const Executor*>(&from);
  if (!other || other->context_.device() != context_.device() || program_.input < 0) return false;
  const core::ValueId result = other->program_.result();
  const int64_t width = other->program_.values[result].width, count = std::ssize(which);
  const bool fits = count * width <= config_.max_batch * program_.values[program_.input].width;
  if (!fits || std::ranges::any_of(which, [&](int32_t row) { return row >= other->result_rows_; }))
    throw std::logic_error("CUDA: rows that the other executor lacks, or no room for them");
  const CurrentDevice current(context_.device());
  sender_.give_up(context_.stream()); // the input may share memory with the result
  if (taken_rows_.bytes() < which.size_bytes()) taken_rows_ = DeviceMemory(which.size_bytes(), "the batch");
  RIDGE_CUDA(
      cudaMemcpyAsync(taken_rows_.as(), which.data(), which.size_bytes(), cudaMemcpyHostToDevice, context_.stream()));
  launch_take_rows(context_.launch(), other->workspace_.value(result), taken_rows_.as<int32_t>(),
                   workspace_.value(program_.input), count, width);
  return true;
}

void Executor::evaluate(const core::Batch& batch) {
  core::check_batch(program_, config_, batch);
  positions_.advance(batch);
  const PlanShape shape = shape_of(batch);
  sender_.give_up(context_.stream());
  batch_.load(batch, context_.device(), context_.stream());
  load_input(batch.input);
  result_rows_ = rows_of(program_.result(), shape);
  if (program_.hidden >= 0) hidden_rows_ = rows_of(program_.hidden, shape);
  result_read_ = hidden_read_ = hidden_is_decoded_ = false;
  run(shape);
  context_.synchronize();
  check_others();
}

std::span<const float> Executor::logits(int64_t i) {
  if (i < 0 || i >= result_rows_) throw std::logic_error("CUDA: logits that the last forward() did not compute");
  const CurrentDevice current(context_.device());
  const core::ValueId result = program_.result();
  const auto columns = static_cast<size_t>(program_.values[result].width);
  if (logits_host_.bytes() == 0) logits_host_ = PinnedMemory(bytes_of(result));
  float* row = logits_host_.as<float>() + i * columns;
  if (result_read_) return {row, columns};
  result_read_ = !whole(); // a part's caller needs all rows
  const int64_t first = result_read_ ? 0 : i, rows = result_read_ ? result_rows_ : 1;
  RIDGE_CUDA(cudaMemcpyAsync(logits_host_.as<float>() + first * columns, workspace_.value(result) + first * columns,
                             rows * columns * sizeof(float), cudaMemcpyDeviceToHost, context_.stream()));
  context_.synchronize();
  return {row, columns};
}

std::shared_ptr<const float> Executor::copy_result_rows(int64_t count) {
  const std::shared_ptr<const SentRows> sent = send_result(count);
  if (!sent) return core::Executor::copy_result_rows(count);
  sent->arrive();
  return {sent, sent->host()};
}

std::shared_ptr<const SentRows> Executor::send_result(int64_t count) {
  if (count > result_rows_) throw std::logic_error("CUDA: rows that the last forward() did not compute");
  const CurrentDevice current(context_.device());
  const core::ValueId result = program_.result();
  return sender_.send(workspace_.value(result), count * program_.values[result].width * sizeof(float));
}

SentResult Executor::send_result_rows(int64_t count) {
  const std::shared_ptr<const SentRows> sent = send_result(count);
  if (!sent) return {};
  const CurrentDevice current(context_.device());
  const core::ValueId result = program_.result();
  if (first_bad_.bytes() == 0) first_bad_ = DeviceMemory(sizeof(unsigned long long), "the result");
  auto* device_first_bad = first_bad_.as<unsigned long long>();
  unsigned long long first_bad = 0;
  RIDGE_CUDA(cudaMemsetAsync(device_first_bad, 0xff, sizeof(first_bad), context_.stream()));
  find_not_finite(workspace_.value(result), count * program_.values[result].width, 0, device_first_bad,
                  context_.stream());
  RIDGE_CUDA(
      cudaMemcpyAsync(&first_bad, device_first_bad, sizeof(first_bad), cudaMemcpyDeviceToHost, context_.stream()));
  context_.synchronize();
  return {{sent, sent->host()}, [sent] { sent->arrive(); }, first_bad == ~0ull};
}

std::span<const float> Executor::hidden() {
  if (program_.hidden < 0) return {};
  const int64_t width = program_.values[program_.hidden].width;
  if (hidden_is_decoded_) {
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

std::shared_ptr<float> Executor::make_state() {
  const std::shared_ptr<std::byte> pinned = state_copies_.take();
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
  if (state.empty()) return positions_.set_unchecked(stream, position);
  positions_.set(stream, position);
  const CurrentDevice current(context_.device());
  const auto recurrent = static_cast<size_t>(core::state_elements(program_));
  states_.load(stream, state.first(recurrent), context_.stream());
  cache_.load_windows(stream, position, state.subspan(recurrent), context_.stream());
  context_.synchronize();
}

std::shared_ptr<std::byte> Executor::make_block() {
  const std::shared_ptr<std::byte> pinned = blocks_.take();
  return pinned ? pinned : core::Executor::make_block(); // pageable copies are slower
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

void Executor::restore_mark() {
  const CurrentDevice current(context_.device());
  positions_.return_to(states_.marked(), marked_position_);
  states_.restore_mark(context_.stream());
}

std::vector<core::OpTime> Executor::profile(const core::Batch& batch, int repetitions) {
  if ((config_.communicator && !options_.graphs) || experts_.filed()) return {}; // the host takes part
  forward(batch);
  const CurrentDevice current(context_.device());
  const PlanShape shape = shape_of(batch);
  if (shape.outputs == 0 && whole()) throw std::logic_error("CUDA: a profile needs an output");
  const BatchPlan plan = plan_of(shape);
  struct Expecting { // launches may repeat
    CpuExperts* of;
    explicit Expecting(CpuExperts* of) : of(of) {
      if (of) of->expect_any();
    }
    ~Expecting() {
      if (of) of->expect_no_more();
    }
  } const expecting(cpu_experts_.get());
  const auto decodes_beside = [](const KernelCall& call) { return call.get<PromptProduct>() != nullptr; };
  if (std::ranges::any_of(plan.calls, decodes_beside)) // its second stream is not in a graph
    return profile_calls(program_, steps_of(plan), plan, context_.stream(), repetitions,
                         [&](const KernelCall& call) { launcher_.launch(plan, call, context_.launch()); });
  LaunchLog log;
  launch_all(plan, &log); // counts blocks; outside a graph Nsight sees the ranges
  const DeviceMemory stamps(log.blocks * kStampPlaces * sizeof(Stamp), "a profile");
  log = {};
  log.stamps = stamps.as<Stamp>();
  Graph graph;
  graph.capture(context_.stream(), [&] { launch_all(plan, &log); });
  return profile_graph(program_, steps_of(plan), graph, log, stamps, context_.stream(), repetitions);
}

std::string Executor::describe_plan(const core::Batch& batch) {
  core::check_batch(program_, config_, batch);
  const BatchPlan& plan = plan_of(shape_of(batch));
  return describe(program_, steps_of(plan), plan) + (cpu_experts_ ? "\n" + cpu_experts_->description() : "");
}

std::vector<ProductWays> Executor::product_ways(const core::Batch& batch) {
  core::check_batch(program_, config_, batch);
  std::vector<ProductWays> all;
  const BatchPlan& plan = plan_of(shape_of(batch));
  for (const PlannedProducts& planned : plan.products) {
    ProductWays ways{name_of_products(program_, steps_of(plan), planned.steps),
                     std::string(name_of(planned.choice.way))};
    const auto known = std::ranges::find(all, ways.products, &ProductWays::products);
    if (known != all.end()) {
      ++known->layers;
      continue;
    }
    for (const Estimate& estimate : planned.choice.estimates)
      ways.ways.push_back({std::string(name_of(estimate.way)), estimate.microseconds});
    ways.layers = 1;
    all.push_back(std::move(ways));
  }
  return all;
}

void Executor::force_way(const std::string& products, const std::string& way) {
  const std::optional<ProductKernel> wanted = way_named(way);
  if (!way.empty() && !wanted) throw std::logic_error("CUDA: unknown way to multiply: " + way);
  forget_plans();
  if (wanted)
    plan_inputs_.forced[products] = *wanted;
  else
    plan_inputs_.forced.erase(products);
}

void Executor::set_way_factors(const std::map<std::string, double>& factors) {
  forget_plans();
  plan_inputs_.factors = way_factors(factors);
}

void Executor::forget_plans() {
  context_.synchronize(); // graphs may run
  plans_.clear();
  graphs_.clear();
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
  bool served = false; // the host has just waited
  for (const KernelCall& call : plan.calls) {
    const ProfilerRange range(step_names_[plan.adapted][call.step]);
    launch.overlap = call.overlap && !std::exchange(served, false);
    if (const auto* fetch = call.get<FetchExperts>(); fetch && experts_.filed()) {
      experts_.serve(fetch->ids, launcher_.chosen_experts(plan, *fetch), fetch->rows, context_.launch());
      served = true;
      continue;
    }
    if (log) log->step = call.step;
    launcher_.launch(plan, call, launch);
  }
}

void Executor::run(const PlanShape& shape) {
  if (config_.communicator) config_.communicator->check();
  if (cpu_experts_) cpu_experts_->expect(plan_of(shape).messages);
  if (!options_.graphs || shape.tokens > kGraphTokens || experts_.filed()) return launch_all(plan_of(shape));
  if (graphs_.size() == kGraphsKept && !graphs_.contains(shape)) {
    context_.synchronize();
    graphs_.clear();
  }
  Graph& graph = graphs_[shape];
  if (!graph.handle) graph.capture(context_.stream(), [&] { launch_all(plan_of(shape)); });
  RIDGE_CUDA(cudaGraphLaunch(graph.handle, context_.stream()));
}

DeviceLimits limits_for_plans(int device) {
  return device_info(device).usable ? device_limits(device, 0) : kPresumedLimits;
}

namespace {

template <typename Of>
auto& as_made_here(Of& executor) {
  using Made = std::conditional_t<std::is_const_v<Of>, const Executor, Executor>;
  auto* made = dynamic_cast<Made*>(&executor);
  if (!made) throw std::logic_error("CUDA: another kind of executor");
  return *made;
}

} // namespace

MemoryPlan allocated_memory(const core::Executor& executor) { return as_made_here(executor).allocated(); }

bool shares_experts_with_cpu(const core::Executor& executor) { return as_made_here(executor).shares_experts(); }

std::vector<ProductWays> product_ways(core::Executor& executor, const core::Batch& batch) {
  return as_made_here(executor).product_ways(batch);
}

void force_way(core::Executor& executor, const std::string& products, const std::string& way) {
  as_made_here(executor).force_way(products, way);
}

void set_way_factors(core::Executor& executor, const std::map<std::string, double>& factors) {
  as_made_here(executor).set_way_factors(factors);
}

void expect_sending(core::Executor& executor) {
  if (auto* here = dynamic_cast<Executor*>(&executor)) here->expect_sending();
}

SentResult send_result_rows(core::Executor& executor, int64_t count) {
  auto* here = dynamic_cast<Executor*>(&executor);
  return here ? here->send_result_rows(count) : SentResult{};
}

bool reads_sent_rows(const core::Executor& executor) { return dynamic_cast<const Executor*>(&executor) != nullptr; }

int version_of_expected_times() { return kCostsVersion; }

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
  if (config.batch_invariant && config.communicator)
    throw Error("--batch-invariant: sums over several GPUs depend on the other tokens of a step; use one (--gpus 0)");
  if (config.batch_invariant && chooses_experts(program))
    throw Error("--batch-invariant: on a GPU, sums of experts depend on the other tokens of a step; use --device cpu");
  CudaOptions chosen = with_serial_mode(options, std::getenv("RIDGE_CUDA_SERIAL"));
  if (config.observer) chosen.fuse = chosen.graphs = false; // the host must see inputs
  if (config.communicator && !dynamic_cast<const ExchangeRank*>(config.communicator)) {
    chosen.overlap = chosen.dataflow_sync = false;                                  // the exchange is no kernel of ours
    if (!dynamic_cast<const NcclRank*>(config.communicator)) chosen.graphs = false; // the host takes part
  }
  return std::make_unique<Executor>(program, config, chosen);
}

} // namespace ridge::kernels::cuda
