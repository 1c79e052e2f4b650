// A Program on the GPU: memory for its values, cache and batch; batches as graphs; the loop that decodes on its own.
#include "kernels/cuda/executor/executor_impl.h"

#include "core/error.h"
#include "kernels/cuda/executor/profile.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kReserveBytes = 256 << 20; // what upload buffers, kernels and graphs take later

constexpr int64_t kHistory = 4096; // tokens per stream that a generating loop keeps before the host collects them

// What the device would say of itself if it were older.
void limit_to(int compute, cudaDeviceProp& properties) {
  const size_t shared_bytes = size_t{compute < 80 ? 64u : compute == 80 ? 163u : 99u} << 10;
  properties.sharedMemPerBlockOptin = std::min(properties.sharedMemPerBlockOptin, shared_bytes);
  properties.major = std::min(properties.major, compute / 10);
}

} // namespace

Executor::Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options)
    : program_(program), config_(config), options_(options), plan_(make_plan(program, options.fuse)),
      step_names_(names_of_steps(program, plan_)) {
  const DeviceInfo info = device_info();
  if (!info.usable) throw_error("CUDA: {}; use --device cpu", info.problem);
  check_config();
  cudaDeviceProp properties;
  RIDGE_CUDA(cudaGetDeviceProperties(&properties, 0));
  launch_.stream = stream_.handle;
  launch_.sm_count = properties.multiProcessorCount;
  if (options.as_compute > 0) limit_to(options.as_compute, properties);
  launch_.shared_per_block = static_cast<int>(properties.sharedMemPerBlockOptin);
  has_batch_kernels_ = properties.major >= 8 && compiled_for() >= 80;
  description_ = fmt::format("CUDA, {}, {} multiprocessors", info.name, info.sm_count);
  weights_ = allocate_weights(program);
  allocate();
  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  if (free < kReserveBytes) throw_out_of_memory(kReserveBytes, "kernels and graphs");
  if (!options.upload) return;
  upload_weights(program, weights_, launch_, options.upload_progress);
  launch_.overlap = options.overlap && properties.major >= 9 && compiled_for() >= 90;
}

void Executor::check_config() const {
  core::validate(program_);
  core::check_cache_types(program_, config_);
  const auto positive = [](int64_t value, const char* what) {
    if (value < 1 || value > int64_t{1} << 30) throw_error("CUDA: {} is {}, expected 1 to 2^30", what, value);
  };
  positive(config_.context, "the context");
  positive(config_.streams, "the number of streams");
  positive(config_.max_batch, "the batch size");
  positive(config_.max_outputs, "the number of outputs");
}

// What is set here is set in the stream of the kernels: it does not wait for the default one.
void Executor::allocate() {
  for (const auto& slot : plan_.buffers.slots) {
    const int64_t rows = slot.gathered ? config_.max_outputs : config_.max_batch;
    values_.push_back(memory(rows * slot.width * 4, "the activations"));
  }
  dataflow_offset_.push_back(0);
  for (size_t id = 0; id < program_.values.size(); ++id)
    dataflow_offset_.push_back(dataflow_offset_.back() +
                               (plan_.dataflow_values[id] ? (program_.values[id].width + 3) / 4 * 4 : 0));
  dataflow_memory_ = memory(dataflow_offset_.back() * kMatvecTokens * 4, "the activations");
  for (const core::RopeTable& table : program_.rope_tables) {
    const size_t bytes = table.inverse_frequency.size() * 4;
    rope_tables_.push_back(memory(bytes, "a rotation table"));
    RIDGE_CUDA(cudaMemcpyAsync(rope_tables_.back().as(), table.inverse_frequency.data(), bytes, cudaMemcpyHostToDevice,
                               stream_.handle));
  }

  const int64_t positions = config_.streams * config_.context;
  size_t bytes = 0;
  const auto aligned = [](size_t n) { return (n + 255) / 256 * 256; };
  for (const core::KvLayer& kv : program_.kv_layers)
    bytes += aligned(positions * kv.heads * core::head_bytes(config_.k_type, kv.k_dim)) +
             aligned(positions * kv.heads * core::head_bytes(config_.v_type, kv.v_dim));
  cache_ = DeviceMemory(bytes, "the KV cache");
  RIDGE_CUDA(cudaMemsetAsync(cache_.as(), 0, bytes, stream_.handle));
  uint8_t* at = cache_.as();
  int64_t most_kv_heads = 1, largest_v_dim = 1;
  for (const core::KvLayer& kv : program_.kv_layers) {
    Cache layer = {nullptr,
                   nullptr,
                   config_.k_type == core::KvType::f16,
                   config_.v_type == core::KvType::f16,
                   static_cast<int>(kv.heads),
                   static_cast<int>(kv.k_dim),
                   static_cast<int>(kv.v_dim),
                   config_.context};
    const int64_t rows = positions * kv.heads;
    layer.k = at;
    if (config_.k_type == core::KvType::q8_0) layer.k_scales = reinterpret_cast<uint16_t*>(at + rows * kv.k_dim);
    at += aligned(rows * core::head_bytes(config_.k_type, kv.k_dim));
    layer.v = at;
    if (config_.v_type == core::KvType::q8_0) layer.v_scales = reinterpret_cast<uint16_t*>(at + rows * kv.v_dim);
    at += aligned(rows * core::head_bytes(config_.v_type, kv.v_dim));
    cache_layers_.push_back(layer);
    most_kv_heads = std::max(most_kv_heads, kv.heads);
    largest_v_dim = std::max(largest_v_dim, kv.v_dim);
  }

  if (tensor_cores()) allocate_products();

  const int64_t tickets = config_.max_batch * most_kv_heads;
  partial_ = memory(attention_scratch_floats(static_cast<int>(std::min(config_.max_batch, kGraphTokens)),
                                             static_cast<int>(most_kv_heads), kMaxAttentionSplits,
                                             static_cast<int>(largest_v_dim)) *
                        4,
                    "attention");
  tickets_ = memory(tickets * sizeof(unsigned), "attention");
  RIDGE_CUDA(cudaMemsetAsync(tickets_.as(), 0, tickets_.bytes(), stream_.handle));

  const int64_t n = config_.max_batch;
  batch_memory_ = memory(4 * n * sizeof(int32_t), "the batch");
  batch_host_ = PinnedMemory(4 * n * sizeof(int32_t));
  const auto split = [&](int32_t* base) { return DeviceBatch{base, base + n, base + 2 * n, base + 3 * n}; };
  batch_ = split(batch_memory_.as<int32_t>());
  host_batch_ = split(batch_host_.as<int32_t>());
  const core::ValueInfo& result = program_.values[program_.result()];
  logits_host_ = PinnedMemory((result.gathered ? config_.max_outputs : n) * result.width * sizeof(float));

  const int64_t most = std::min(config_.max_outputs, config_.max_batch);
  greedy_ = memory((most * (2 + 2 * kGreedyBlocks) + most * kHistory) * 4, "sampling");
  RIDGE_CUDA(cudaMemsetAsync(greedy_.as(), 0, greedy_.bytes(), stream_.handle));
  auto* words = greedy_.as<int32_t>();
  greedy_args_.vocab = program_.vocab;
  greedy_args_.step = words;
  greedy_args_.tickets = reinterpret_cast<unsigned*>(words + most);
  greedy_args_.best_value = reinterpret_cast<float*>(words + 2 * most);
  greedy_args_.best_index = words + (2 + kGreedyBlocks) * most;
  greedy_args_.history = words + (2 + 2 * kGreedyBlocks) * most;
}

void Executor::allocate_products() {
  const auto padded = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  int64_t x = 0, x_rows = 0, widest = 0, gate = 0, parts = 0, slots = 0, tiles = 0;
  for (const Step& step : plan_.steps) {
    if (step.kind != Step::Kind::matrix) continue;
    const MatrixStep& m = step.matrix;
    const core::Weight& first = program_.weights[m.parts[0].weight];
    const bool experts = m.ids != kNone;
    const int64_t rows = padded(config_.max_batch * (experts ? m.used : 1), kGemmRows);
    x = std::max(x, rows * padded(first.cols, kGemmColumns));
    x_rows = std::max(x_rows, rows);
    int64_t row_tiles = 0;
    for (const MatrixStep::Part& part : m.parts) row_tiles += program_.weights[part.weight].rows / kBatchRows + 1;
    parts = std::max(parts, (row_tiles + launch_.sm_count) * (kBatchTokens / kMaxTileTokens) * (first.cols / 256 + 1) *
                                kMaxTileTokens * kBatchRows * 4);
    if (experts) {
      parts = kBatchScratchBytes;
      slots = std::max(slots, config_.max_batch * m.used);
      tiles = std::max(tiles, config_.max_batch * m.used / 8 + first.count);
    } else {
      widest = std::max(widest, first.cols);
      if (m.swiglu) gate = std::max(gate, first.rows);
    }
  }
  half_x_ = memory(x * 2, "the activations");
  RIDGE_CUDA(cudaMemsetAsync(half_x_.as(), 0, half_x_.bytes(), stream_.handle));
  exponents_ = memory(x_rows, "the activations");
  if (config_.max_batch > kBatchTokens && can_multiply_prompts(launch_)) {
    decoded_ = std::make_unique<PromptScratch>(widest);
    scratch_bytes_ += 2 * decoded_->buffer_bytes();
  } else {
    gate_ = memory(config_.max_batch * gate * 4, "the activations");
    up_ = memory(config_.max_batch * gate * 4, "the activations");
  }
  parts_ = memory(std::min(parts, kBatchScratchBytes), "sums of small batches");
  slots_ = memory((slots + 1) * 4 + tiles * sizeof(ExpertTile), "experts' tokens");
  tile_count_ = slots_.as<int32_t>();
  slot_order_ = tile_count_ + 1;
  expert_tiles_ = reinterpret_cast<ExpertTile*>(slot_order_ + slots);
}

void Executor::check_batch(const core::Batch& batch) const {
  const auto n = std::ssize(batch.tokens);
  if (n < 1 || n > config_.max_batch) throw_error("CUDA: a batch of {} tokens, expected 1 to {}", n, config_.max_batch);
  if (std::ssize(batch.positions) != n || (!batch.streams.empty() && std::ssize(batch.streams) != n))
    throw_error("CUDA: tokens, positions and streams of a batch differ in number");
  if (std::ssize(batch.outputs) > config_.max_outputs)
    throw_error("CUDA: {} outputs wanted, expected at most {}", batch.outputs.size(), config_.max_outputs);
  for (int64_t i = 0; i < n; ++i) {
    if (batch.tokens[i] < 0 || batch.tokens[i] >= program_.vocab)
      throw_error("CUDA: token {} is not in the vocabulary of {}", batch.tokens[i], program_.vocab);
    if (batch.positions[i] < 0 || batch.positions[i] >= config_.context)
      throw_error("CUDA: position {} is past the context of {} tokens", batch.positions[i], config_.context);
    if (!batch.streams.empty() && (batch.streams[i] < 0 || batch.streams[i] >= config_.streams))
      throw_error("CUDA: stream {}, expected 0 to {}", batch.streams[i], config_.streams - 1);
  }
  for (const int32_t output : batch.outputs)
    if (output < 0 || output >= n) throw_error("CUDA: output {} of a batch of {} tokens", output, n);
}

void Executor::load_batch(const core::Batch& batch) {
  std::ranges::copy(batch.tokens, host_batch_.tokens);
  std::ranges::copy(batch.positions, host_batch_.positions);
  if (batch.streams.empty())
    std::fill_n(host_batch_.streams, batch.tokens.size(), 0);
  else
    std::ranges::copy(batch.streams, host_batch_.streams);
  std::ranges::copy(batch.outputs, host_batch_.outputs);
  RIDGE_CUDA(cudaMemcpyAsync(batch_memory_.as(), batch_host_.as(), batch_memory_.bytes(), cudaMemcpyHostToDevice,
                             stream_.handle));
}

void Executor::load_input(std::span<const float> input, const Shape& shape) {
  const int64_t elements = program_.input < 0 ? 0 : rows_of(program_.input, shape) * width(program_.input);
  if (std::ssize(input) != elements) throw std::logic_error("CUDA: a batch whose input has another size");
  if (elements == 0) return;
  RIDGE_CUDA(
      cudaMemcpyAsync(value(program_.input), input.data(), input.size_bytes(), cudaMemcpyHostToDevice, stream_.handle));
}

bool Executor::distinct_streams(std::span<const int32_t> streams, int64_t tokens) {
  if (streams.empty()) return tokens == 1;
  std::vector<int32_t> sorted(streams.begin(), streams.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

void Executor::forward(const core::Batch& batch) {
  check_batch(batch);
  load_batch(batch);
  // Tokens may share an attention tile where all are of one stream and in sequence.
  bool one_run = true;
  for (size_t i = 1; i < batch.tokens.size(); ++i)
    one_run &= host_batch_.streams[i] == host_batch_.streams[0] &&
               batch.positions[i] == batch.positions[0] + static_cast<int32_t>(i);
  const Shape shape{std::ssize(batch.tokens), std::ssize(batch.outputs), one_run ? kAttentionRows : 1, false,
                    distinct_streams(batch.streams, std::ssize(batch.tokens))};
  load_input(batch.input, shape);
  result_rows_ = rows_of(program_.result(), shape);
  result_read_ = false;
  run(shape);
  RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
}

std::span<const float> Executor::logits(int64_t i) {
  if (i < 0 || i >= result_rows_) throw std::logic_error("CUDA: logits that the last forward() was not asked for");
  const auto columns = static_cast<size_t>(width(program_.result()));
  float* row = logits_host_.as<float>() + i * columns;
  if (result_read_) return {row, columns};
  result_read_ = !whole(); // all rows of a part's result are wanted
  const int64_t first = result_read_ ? 0 : i, rows = result_read_ ? result_rows_ : 1;
  RIDGE_CUDA(cudaMemcpyAsync(logits_host_.as<float>() + first * columns, value(program_.result()) + first * columns,
                             rows * columns * sizeof(float), cudaMemcpyDeviceToHost, stream_.handle));
  RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
  return {row, columns};
}

std::vector<int32_t> Executor::generate_greedy(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                               std::span<const int32_t> streams, int64_t count) {
  const auto n = std::ssize(tokens);
  std::vector<int32_t> outputs(n);
  for (int64_t i = 0; i < n; ++i) outputs[i] = static_cast<int32_t>(i);
  const core::Batch batch{tokens, positions, streams, outputs};
  check_batch(batch);
  require_whole();
  for (const int32_t position : positions)
    if (position + count > config_.context)
      throw_error("CUDA: {} tokens from position {} do not fit a context of {}", count, position, config_.context);
  load_batch(batch);
  std::vector<int32_t> chosen;
  for (int64_t done = 0; done < count;) {
    const int64_t steps = std::min(kHistory, count - done);
    RIDGE_CUDA(cudaMemsetAsync(greedy_args_.step, 0, n * sizeof(int32_t), stream_.handle));
    for (int64_t i = 0; i < steps; ++i) run({n, n, 1, true, distinct_streams(streams, n)});
    chosen.resize((done + steps) * n);
    RIDGE_CUDA(cudaMemcpyAsync(chosen.data() + done * n, greedy_args_.history, steps * n * sizeof(int32_t),
                               cudaMemcpyDeviceToHost, stream_.handle));
    RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
    done += steps;
  }
  return chosen;
}

double Executor::time_decode(int64_t position, int64_t streams, int repetitions) {
  std::vector<int32_t> tokens(streams), positions(streams, static_cast<int32_t>(position)), which(streams),
      outputs(streams);
  for (int64_t i = 0; i < streams; ++i) {
    tokens[i] = static_cast<int32_t>((i * 7919 + 13) % program_.vocab);
    which[i] = outputs[i] = static_cast<int32_t>(i);
  }
  const core::Batch batch{tokens, positions, which, outputs};
  check_batch(batch);
  require_whole();
  load_batch(batch);
  const Shape shape{streams, streams, 1, true, true};
  RIDGE_CUDA(cudaMemsetAsync(greedy_args_.step, 0, streams * sizeof(int32_t), stream_.handle));
  std::vector<cudaEvent_t> events(repetitions + 1);
  for (cudaEvent_t& event : events) RIDGE_CUDA(cudaEventCreate(&event));
  for (int i = 0; i < 3; ++i) run(shape);
  RIDGE_CUDA(cudaEventRecord(events[0], stream_.handle));
  for (int i = 0; i < repetitions; ++i) {
    run(shape);
    RIDGE_CUDA(cudaEventRecord(events[i + 1], stream_.handle));
  }
  RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
  std::vector<float> milliseconds(repetitions);
  for (int i = 0; i < repetitions; ++i) RIDGE_CUDA(cudaEventElapsedTime(&milliseconds[i], events[i], events[i + 1]));
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  std::ranges::nth_element(milliseconds, milliseconds.begin() + repetitions / 2);
  return milliseconds[repetitions / 2] * 1e-3;
}

void Executor::run(const Shape& shape) {
  if (!options_.graphs || shape.tokens > kGraphTokens) return launch_all(shape);
  Graph& graph = graphs_[shape];
  if (!graph.handle) capture(shape, graph);
  RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream_.handle));
}

void Executor::capture(const Shape& shape, Graph& graph) {
  cudaGraph_t captured = nullptr;
  RIDGE_CUDA(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
  try {
    launch_all(shape);
  } catch (...) {
    cudaStreamEndCapture(stream_.handle, &captured);
    if (captured) cudaGraphDestroy(captured);
    throw;
  }
  RIDGE_CUDA(cudaStreamEndCapture(stream_.handle, &captured));
  const cudaError_t status = cudaGraphInstantiate(&graph.handle, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiate");
}

bool fits(const core::Program& program, const core::ExecutorConfig& config) {
  CudaOptions options;
  options.upload = false;
  try {
    const Executor trial(program, config, options);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

std::unique_ptr<CudaExecutor> make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config,
                                                 const CudaOptions& options) {
  if (!config.observer) return std::make_unique<Executor>(program, config, options);
  CudaOptions observed = options; // what goes into a matrix must be a value, and the host see it in time
  observed.fuse = observed.graphs = false;
  return std::make_unique<Executor>(program, config, observed);
}

} // namespace ridge::kernels::cuda
