#include "kernels/cuda/executor.h"

#include "core/error.h"
#include "kernels/cuda/format_kernels.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/upload.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

using core::OpKind;
using core::ValueId;

constexpr int64_t kGraphTokens = 64; // batches up to this size are replayed as a graph
constexpr int kMaxSplits = 64;       // blocks that share one tile's context
constexpr int64_t kHistory = 4096;   // tokens per stream that a generating loop keeps before the host collects them

// Batches up to these sizes go through the matvec kernel and the product for small batches, larger ones through the
// prompts' product.
constexpr int64_t kMatvecTokens = 1, kBatchTokens = 96;

// So many tokens fill the chip with a block or more for each of them, in attention and rotation.
constexpr int64_t kPromptTokensAtLeast = 64;

struct Stream {
  cudaStream_t handle = nullptr;
  // Its blocks come before those that decode weights for later (prompt_product.h), whose stream has priority 0.
  Stream() { RIDGE_CUDA(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, -1)); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
};

struct Graph {
  cudaGraphExec_t handle = nullptr;
  Graph() = default;
  ~Graph() {
    if (handle) cudaGraphExecDestroy(handle);
  }
  Graph(const Graph&) = delete;
};

// The batch in device memory, one allocation so that one copy brings it in.
struct DeviceBatch {
  int32_t *tokens, *positions, *streams, *outputs;
};

class Executor final : public CudaExecutor {
 public:
  Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options)
      : program_(program), config_(config), options_(options), plan_(make_plan(program, options.fuse)) {
    const DeviceInfo info = device_info();
    if (!info.usable) throw_error("CUDA: {}; use --device cpu", info.problem);
    check_config();
    cudaDeviceProp properties;
    RIDGE_CUDA(cudaGetDeviceProperties(&properties, 0));
    launch_.stream = stream_.handle;
    launch_.sm_count = properties.multiProcessorCount;
    launch_.shared_per_block = static_cast<int>(properties.sharedMemPerBlockOptin);
    description_ = fmt::format("CUDA, {}, {} multiprocessors", info.name, info.sm_count);
    weights_ = upload_weights(program, launch_, options.upload_progress);
    launch_.overlap = options.overlap && properties.major >= 9 && compiled_for_overlap();
    allocate();
  }

  ~Executor() override { cudaStreamSynchronize(stream_.handle); }

  void forward(const core::Batch& batch) override;
  std::span<const float> logits(int64_t i) override;
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override { return static_cast<double>(cache_.bytes() + scratch_bytes_); }

  std::vector<int32_t> generate_greedy(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                       std::span<const int32_t> streams, int64_t count) override;
  double time_decode(int64_t position, int64_t streams, int repetitions) override;

 private:
  struct Shape { // of a batch, as far as launches depend on it
    int64_t tokens, outputs;
    int tile_tokens; // for attention
    bool greedy;     // ends with the choice of the next tokens
    auto operator<=>(const Shape&) const = default;
  };

  void check_config() const;
  void check_batch(const core::Batch& batch) const;
  void allocate();
  void allocate_products();
  void load_batch(const core::Batch& batch);
  void run(const Shape& shape);
  void launch_all(const Shape& shape);
  void launch_step(const Step& step, const Shape& shape);
  void launch_matrix(const MatrixStep& m, const Shape& shape);
  void launch_product(const MatrixStep& m, int64_t rows);
  bool launch_experts(const MatrixStep& m, int64_t rows);
  bool launch_batch(const MatrixStep& m, BatchArgs& args, int tile_tokens);
  GemmArgs product_args(const MatrixStep& m, int64_t rows, int64_t cols, bool tiled);
  void launch_op(const core::Op& op, const Shape& shape);
  void launch_attention_op(const core::Op& op, const Shape& shape);

  float* value(ValueId id) const { return values_[plan_.buffers.slot_of_value[id]].as<float>(); }
  int32_t* ids(ValueId id) const { return reinterpret_cast<int32_t*>(value(id)); }
  int64_t width(ValueId id) const { return program_.values[id].width; }
  int64_t rows_of(ValueId id, const Shape& shape) const {
    return program_.values[id].gathered ? shape.outputs : shape.tokens;
  }
  const float* vector(core::WeightId id) const {
    return id == kNone ? nullptr : reinterpret_cast<const float*>(weights_.weights[id].data);
  }
  const FormatKernels& format_of(core::WeightId id) const { return format_kernels(program_.weights[id].type); }
  DeviceMemory memory(size_t bytes, const char* what) {
    scratch_bytes_ += bytes;
    return DeviceMemory(bytes, what);
  }
  bool tensor_cores() const { return !config_.exact && launch_.shared_per_block >= kGemmSharedBytes; }
  // Whether `slots` choices among `experts` are sorted by expert, because some are likely to be of the same one.
  bool groups_experts(int64_t slots, int64_t experts) const { return tensor_cores() && 2 * slots > experts; }
  static int expert_tile_tokens(int64_t slots, int64_t experts) { // experts differ in how often they are chosen
    return slots > 12 * experts ? 32 : slots > 5 * experts ? 16 : 8;
  }

  const core::Program& program_;
  core::ExecutorConfig config_;
  CudaOptions options_;
  Plan plan_;
  Stream stream_;
  Launch launch_;
  std::string description_;
  UploadedWeights weights_;
  size_t scratch_bytes_ = 0;

  std::vector<DeviceMemory> values_; // by slot
  std::vector<DeviceMemory> rope_tables_;
  DeviceMemory cache_;
  std::vector<Cache> cache_layers_; // views into cache_
  struct Converted {
    ValueId x;
    core::WeightId norm;
    int64_t cols;
    bool tiled;
    bool operator==(const Converted&) const = default;
  };
  std::optional<Converted> converted_; // what half_x_ holds; several matrices may want the same
  DeviceMemory half_x_, exponents_;    // of matrix products
  DeviceMemory gate_, up_;             // of those for older chips
  bool wgmma_ = false;                 // prompts go through decoded operands, which are in decoded_
  std::unique_ptr<PromptScratch> decoded_;
  std::vector<PromptMatrices> pending_; // of siblings, until the last of them comes
  bool sibling_follows_ = false;
  DeviceMemory parts_; // of small batches
  DeviceMemory slots_; // sorted by expert: order, tiles, number of tiles
  int32_t *slot_order_ = nullptr, *tile_count_ = nullptr;
  ExpertTile* expert_tiles_ = nullptr;
  DeviceMemory partial_, tickets_; // of attention
  DeviceMemory greedy_;
  GreedyArgs greedy_args_ = {};
  DeviceMemory batch_memory_;
  PinnedMemory batch_host_;
  DeviceBatch batch_ = {}, host_batch_ = {};
  PinnedMemory logits_host_;
  int64_t outputs_ = 0; // of the last forward()
  std::map<Shape, Graph> graphs_;
};

void Executor::check_config() const {
  core::validate(program_);
  const auto positive = [](int64_t value, const char* what) {
    if (value < 1 || value > int64_t{1} << 30) throw_error("CUDA: {} is {}, expected 1 to 2^30", what, value);
  };
  positive(config_.context, "the context");
  positive(config_.streams, "the number of streams");
  positive(config_.max_batch, "the batch size");
  positive(config_.max_outputs, "the number of outputs");
}

void Executor::allocate() {
  for (const auto& slot : plan_.buffers.slots) {
    const int64_t rows = slot.gathered ? config_.max_outputs : config_.max_batch;
    values_.push_back(memory(rows * slot.width * 4, "the activations"));
  }
  for (const core::RopeTable& table : program_.rope_tables) {
    const size_t bytes = table.inverse_frequency.size() * 4;
    rope_tables_.push_back(memory(bytes, "a rotation table"));
    RIDGE_CUDA(cudaMemcpy(rope_tables_.back().as(), table.inverse_frequency.data(), bytes, cudaMemcpyHostToDevice));
  }

  const int64_t positions = config_.streams * config_.context;
  size_t bytes = 0;
  const auto aligned = [](size_t n) { return (n + 255) / 256 * 256; };
  for (const core::KvLayer& kv : program_.kv_layers)
    bytes += aligned(positions * kv.heads * kv.k_dim * core::bytes_per_element(config_.k_type)) +
             aligned(positions * kv.heads * kv.v_dim * core::bytes_per_element(config_.v_type));
  cache_ = DeviceMemory(bytes, "the KV cache");
  RIDGE_CUDA(cudaMemset(cache_.as(), 0, bytes));
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
    layer.k = at;
    at += aligned(positions * kv.heads * kv.k_dim * core::bytes_per_element(config_.k_type));
    layer.v = at;
    at += aligned(positions * kv.heads * kv.v_dim * core::bytes_per_element(config_.v_type));
    cache_layers_.push_back(layer);
    most_kv_heads = std::max(most_kv_heads, kv.heads);
    largest_v_dim = std::max(largest_v_dim, kv.v_dim);
  }

  if (tensor_cores()) allocate_products();

  const int64_t tickets = config_.max_batch * most_kv_heads;
  partial_ =
      memory(attention_scratch_floats(static_cast<int>(std::min(config_.max_batch, kGraphTokens)),
                                      static_cast<int>(most_kv_heads), kMaxSplits, static_cast<int>(largest_v_dim)) *
                 4,
             "attention");
  tickets_ = memory(tickets * sizeof(unsigned), "attention");
  RIDGE_CUDA(cudaMemset(tickets_.as(), 0, tickets_.bytes()));

  const int64_t n = config_.max_batch;
  batch_memory_ = memory(4 * n * sizeof(int32_t), "the batch");
  batch_host_ = PinnedMemory(4 * n * sizeof(int32_t));
  const auto split = [&](int32_t* base) { return DeviceBatch{base, base + n, base + 2 * n, base + 3 * n}; };
  batch_ = split(batch_memory_.as<int32_t>());
  host_batch_ = split(batch_host_.as<int32_t>());
  logits_host_ = PinnedMemory(config_.max_outputs * program_.vocab * sizeof(float));

  const int64_t most = std::min(config_.max_outputs, config_.max_batch);
  greedy_ = memory((most * (2 + 2 * kGreedyBlocks) + most * kHistory) * 4, "sampling");
  RIDGE_CUDA(cudaMemset(greedy_.as(), 0, greedy_.bytes()));
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
  wgmma_ = options_.wgmma && can_multiply_prompts(launch_);
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
  RIDGE_CUDA(cudaMemset(half_x_.as(), 0, half_x_.bytes()));
  exponents_ = memory(x_rows, "the activations");
  if (config_.max_batch > kBatchTokens && wgmma_) {
    decoded_ = std::make_unique<PromptScratch>(widest);
    scratch_bytes_ += 2 * decoded_->buffer_bytes();
  }
  if (!wgmma_) {
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

void Executor::forward(const core::Batch& batch) {
  check_batch(batch);
  load_batch(batch);
  // Tokens may share an attention tile where all are of one stream and in sequence.
  bool one_run = true;
  for (size_t i = 1; i < batch.tokens.size(); ++i)
    one_run &= host_batch_.streams[i] == host_batch_.streams[0] &&
               batch.positions[i] == batch.positions[0] + static_cast<int32_t>(i);
  outputs_ = std::ssize(batch.outputs);
  run({std::ssize(batch.tokens), outputs_, one_run ? kAttentionRows : 1, false});
  RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
}

std::span<const float> Executor::logits(int64_t i) {
  if (i < 0 || i >= outputs_) throw std::logic_error("CUDA: logits that the last forward() was not asked for");
  const size_t vocab = static_cast<size_t>(program_.vocab);
  float* row = logits_host_.as<float>() + i * vocab;
  RIDGE_CUDA(cudaMemcpyAsync(row, value(program_.logits) + i * vocab, vocab * sizeof(float), cudaMemcpyDeviceToHost,
                             stream_.handle));
  RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
  return {row, vocab};
}

std::vector<int32_t> Executor::generate_greedy(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                               std::span<const int32_t> streams, int64_t count) {
  const auto n = std::ssize(tokens);
  std::vector<int32_t> outputs(n);
  for (int64_t i = 0; i < n; ++i) outputs[i] = static_cast<int32_t>(i);
  const core::Batch batch{tokens, positions, streams, outputs};
  check_batch(batch);
  for (const int32_t position : positions)
    if (position + count > config_.context)
      throw_error("CUDA: {} tokens from position {} do not fit a context of {}", count, position, config_.context);
  load_batch(batch);
  std::vector<int32_t> chosen;
  for (int64_t done = 0; done < count;) {
    const int64_t steps = std::min(kHistory, count - done);
    RIDGE_CUDA(cudaMemsetAsync(greedy_args_.step, 0, n * sizeof(int32_t), stream_.handle));
    for (int64_t i = 0; i < steps; ++i) run({n, n, 1, true});
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
  load_batch(batch);
  const Shape shape{streams, streams, 1, true};
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
  if (!graph.handle) {
    cudaGraph_t captured = nullptr;
    RIDGE_CUDA(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
    try {
      launch_all(shape);
    } catch (...) {
      cudaStreamEndCapture(stream_.handle, &captured);
      if (captured) cudaGraphDestroy(captured);
      graphs_.erase(shape);
      throw;
    }
    RIDGE_CUDA(cudaStreamEndCapture(stream_.handle, &captured));
    const cudaError_t status = cudaGraphInstantiate(&graph.handle, captured, 0);
    cudaGraphDestroy(captured);
    check(status, "cudaGraphInstantiate");
  }
  RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream_.handle));
}

// Products of different formats with the same input, as q, k and v can be: for prompts they become one.
bool are_siblings(const Step& a, const Step& b) {
  const auto plain = [](const Step& s) {
    return s.kind == Step::Kind::matrix && s.matrix.ids == kNone && !s.matrix.swiglu && s.matrix.residual == kNone;
  };
  return plain(a) && plain(b) && a.matrix.x == b.matrix.x && a.matrix.norm == b.matrix.norm;
}

void Executor::launch_all(const Shape& shape) {
  converted_.reset();
  pending_.clear();
  size_t parts = 0; // of products that become one
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    const auto& written = step.outputs;
    if (shape.outputs == 0 && !written.empty() && program_.values[written[0]].gathered) continue; // no rows
    parts += step.matrix.parts.size();
    sibling_follows_ = i + 1 < plan_.steps.size() && are_siblings(step, plan_.steps[i + 1]) &&
                       parts + plan_.steps[i + 1].matrix.parts.size() <= kMostPromptMatrices;
    if (!sibling_follows_) parts = 0;
    launch_step(step, shape);
    for (const ValueId id : written)
      if (converted_ && plan_.buffers.slot_of_value[id] == plan_.buffers.slot_of_value[converted_->x])
        converted_.reset();
  }
  if (!shape.greedy) return;
  GreedyArgs args = greedy_args_;
  args.logits = value(program_.logits);
  args.n = static_cast<int>(shape.outputs);
  args.tokens = batch_.tokens;
  args.positions = batch_.positions;
  launch_greedy(launch_, args);
}

void Executor::launch_step(const Step& step, const Shape& shape) {
  switch (step.kind) {
  case Step::Kind::op: return launch_op(*step.op, shape);
  case Step::Kind::matrix: return launch_matrix(step.matrix, shape);
  case Step::Kind::heads: break;
  }
  const HeadsStep& h = step.heads;
  RopeStoreArgs args = {};
  args.positions = batch_.positions;
  args.streams = batch_.streams;
  args.tokens = static_cast<int>(shape.tokens);
  args.q_in = value(h.q_in);
  args.k_in = value(h.k_in);
  args.v_in = value(h.v_in);
  args.q_out = value(h.q_out);
  args.q_norm = vector(h.q_norm);
  args.k_norm = vector(h.k_norm);
  args.epsilon = h.epsilon;
  args.q_heads = static_cast<int>(h.q_heads);
  args.k_heads = static_cast<int>(h.k_heads);
  args.head_dim = static_cast<int>(h.head_dim);
  const core::RopeTable& table = program_.rope_tables[h.table];
  args.rotate = true;
  args.rope = {rope_tables_[h.table].as<float>(), static_cast<int>(table.inverse_frequency.size()), table.magnitude,
               table.style == core::RopeStyle::split};
  args.store = true;
  args.cache = cache_layers_[h.kv_layer];
  if (shape.tokens >= kPromptTokensAtLeast && can_rope_prompts(args)) return launch_prompt_rope(launch_, args);
  launch_rope_store(launch_, args);
}

void Executor::launch_matrix(const MatrixStep& m, const Shape& shape) {
  const int64_t rows = rows_of(m.x, shape);
  const core::Weight& first = program_.weights[m.parts[0].weight];
  if (m.ids == kNone && tensor_cores() && rows > kMatvecTokens) return launch_product(m, rows);
  if (m.ids != kNone && groups_experts(rows * m.used, first.count) && launch_experts(m, rows)) return;
  MatvecArgs args = {};
  args.x = value(m.x);
  args.x_per_slot = m.ids != kNone && width(m.x) != first.cols;
  args.x_stride = first.cols;
  args.tokens = static_cast<int>(rows * m.used);
  args.cols = static_cast<int>(first.cols);
  args.row_bytes = weights_.weights[m.parts[0].weight].row_bytes;
  args.norm_weight = vector(m.norm);
  args.norm_epsilon = m.norm_epsilon;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    const core::Weight& w = program_.weights[part.weight];
    args.segment[i] = {weights_.weights[part.weight].data, static_cast<int>(w.rows), value(part.out), w.rows,
                       vector(part.bias)};
  }
  args.swiglu = m.swiglu;
  if (m.residual != kNone) {
    args.residual = value(m.residual);
    args.residual_stride = width(m.residual);
  }
  if (m.ids != kNone) {
    args.ids = ids(m.ids);
    args.expert_bytes = args.row_bytes * first.rows;
    args.slots = static_cast<int>(m.used);
  }
  format_of(m.parts[0].weight).matvec(launch_, args, config_.exact);
}

// `rows` rows of `cols` columns of the step's input as halves, and where the results go.
GemmArgs Executor::product_args(const MatrixStep& m, int64_t rows, int64_t cols, bool tiled) {
  const int64_t stride = (cols + kGemmColumns - 1) / kGemmColumns * kGemmColumns;
  const int64_t tiled_rows = tiled ? (rows + kPromptTokens - 1) / kPromptTokens * kPromptTokens : 0;
  const Converted converted = {m.x, m.norm, cols, tiled};
  if (converted_ != converted)
    launch_to_half(launch_, value(m.x), vector(m.norm), m.norm_epsilon, rows, cols, half_x_.as<uint16_t>(), stride,
                   tiled_rows, exponents_.as<int8_t>());
  converted_ = converted;
  GemmArgs args = {};
  args.x = half_x_.as<uint16_t>();
  args.x_stride = stride;
  args.exponent = exponents_.as<int8_t>();
  args.tokens = static_cast<int>(rows);
  args.cols = static_cast<int>(cols);
  args.row_bytes = weights_.weights[m.parts[0].weight].row_bytes;
  args.segments = static_cast<int>(m.parts.size());
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Part& part = m.parts[i];
    args.segment[i] = {weights_.weights[part.weight].data, static_cast<int>(program_.weights[part.weight].rows),
                       value(part.out), vector(part.bias)};
  }
  args.residual = m.residual == kNone ? nullptr : value(m.residual);
  return args;
}

bool Executor::launch_batch(const MatrixStep& m, BatchArgs& args, int tile_tokens) {
  args.swiglu = m.swiglu;
  args.partial = parts_.as<float>();
  return format_of(m.parts[0].weight).batch(launch_, args, tile_tokens);
}

void Executor::launch_product(const MatrixStep& m, int64_t rows) {
  const FormatKernels& format = format_of(m.parts[0].weight);
  const bool small = rows <= kBatchTokens, tiled = wgmma_ && !small;
  BatchArgs batch = {};
  batch.product = product_args(m, rows, width(m.x), tiled);
  batch.used = 1;
  for (int tile = rows <= 8 ? 8 : rows <= 16 ? 16 : kMaxTileTokens; small && tile >= 8; tile /= 2)
    if (launch_batch(m, batch, tile)) return;
  GemmArgs& args = batch.product;
  if (tiled) {
    pending_.push_back({args, format.expand});
    if (sibling_follows_) return;
    launch_prompt_product(launch_, pending_, m.swiglu, *decoded_);
    return pending_.clear();
  }
  if (m.swiglu)
    for (int i = 0; i < 2; ++i) args.segment[i].out = (i == 0 ? gate_ : up_).as<float>();
  format.gemm(launch_, args);
  if (m.swiglu)
    launch_swiglu(launch_, gate_.as<float>(), up_.as<float>(), value(m.parts[0].out), rows * width(m.parts[0].out));
}

bool Executor::launch_experts(const MatrixStep& m, int64_t rows) {
  const core::Weight& first = program_.weights[m.parts[0].weight];
  const int64_t slots = rows * m.used;
  const bool per_slot = width(m.x) != first.cols;
  BatchArgs args = {};
  args.product = product_args(m, per_slot ? slots : rows, first.cols, false);
  args.product.tokens = static_cast<int>(slots);
  args.used = per_slot ? 1 : static_cast<int>(m.used);
  args.expert_bytes = args.product.row_bytes * first.rows;
  args.tiles = expert_tiles_;
  args.tile_count = tile_count_;
  args.order = slot_order_;
  return launch_batch(m, args, expert_tile_tokens(slots, first.count));
}

void Executor::launch_attention_op(const core::Op& op, const Shape& shape) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  AttentionArgs args = {};
  args.q = value(op.inputs[0]);
  args.out = value(op.outputs[0]);
  args.positions = batch_.positions;
  args.streams = batch_.streams;
  args.tokens = static_cast<int>(shape.tokens);
  args.heads = static_cast<int>(params.heads);
  args.scale = params.scale;
  args.cache = cache_layers_[params.layer];
  if (wgmma_ && shape.tile_tokens > 1 && shape.tokens >= kPromptTokensAtLeast &&
      can_attend_prompts(args.cache, args.heads))
    return launch_prompt_attention(launch_, args);
  args.tile_tokens = std::clamp(kAttentionRows / (args.heads / args.cache.heads), 1, shape.tile_tokens);
  const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
  // Two blocks per multiprocessor, where the context has that much to share out.
  args.splits = tiles > kGraphTokens
                    ? 1
                    : std::clamp(2 * launch_.sm_count / (tiles * args.cache.heads), 1,
                                 static_cast<int>(std::min<int64_t>(kMaxSplits, (config_.context + 63) / 64)));
  args.partial = partial_.as<float>();
  args.tickets = tickets_.as<unsigned>();
  launch_attention(launch_, args);
}

void Executor::launch_op(const core::Op& op, const Shape& shape) {
  const auto in = [&](size_t i) { return value(op.inputs[i]); };
  const auto rows = [&] { return rows_of(op.outputs[0], shape); };
  switch (op.kind) {
  case OpKind::embed:
    return format_of(op.weights[0])
        .embed(launch_, weights_.weights[op.weights[0]].data, width(op.outputs[0]), batch_.tokens,
               static_cast<int>(shape.tokens), value(op.outputs[0]));
  case OpKind::rms_norm: {
    const auto& params = std::get<core::NormParams>(op.params);
    return launch_rms_norm(launch_, in(0), vector(op.weights[0]), value(op.outputs[0]),
                           rows() * width(op.outputs[0]) / params.group, params.group, params.epsilon);
  }
  case OpKind::rope: {
    const auto& params = std::get<core::RopeParams>(op.params);
    const core::RopeTable& table = program_.rope_tables[params.table];
    RopeStoreArgs args = {};
    args.positions = batch_.positions;
    args.streams = batch_.streams;
    args.tokens = static_cast<int>(shape.tokens);
    args.q_in = in(0);
    args.q_out = value(op.outputs[0]);
    args.q_heads = static_cast<int>(params.heads);
    args.head_dim = static_cast<int>(params.head_dim);
    args.rotate = true;
    args.rope = {rope_tables_[params.table].as<float>(), static_cast<int>(table.inverse_frequency.size()),
                 table.magnitude, table.style == core::RopeStyle::split};
    return launch_rope_store(launch_, args);
  }
  case OpKind::kv_store: {
    RopeStoreArgs args = {};
    args.positions = batch_.positions;
    args.streams = batch_.streams;
    args.tokens = static_cast<int>(shape.tokens);
    args.cache = cache_layers_[std::get<core::KvParams>(op.params).layer];
    args.k_in = in(0);
    args.v_in = in(1);
    args.k_heads = args.cache.heads;
    args.head_dim = args.cache.k_dim;
    args.store = true;
    return launch_rope_store(launch_, args);
  }
  case OpKind::attention: return launch_attention_op(op, shape);
  case OpKind::swiglu: return launch_swiglu(launch_, in(0), in(1), value(op.outputs[0]), rows() * width(op.outputs[0]));
  case OpKind::add: return launch_add(launch_, in(0), in(1), value(op.outputs[0]), rows() * width(op.outputs[0]));
  case OpKind::gather:
    return launch_gather(launch_, in(0), batch_.outputs, value(op.outputs[0]), rows(), width(op.outputs[0]));
  case OpKind::route: {
    const auto& params = std::get<core::RouteParams>(op.params);
    launch_route(launch_, in(0), ids(op.outputs[0]), value(op.outputs[1]), rows(), static_cast<int>(params.experts),
                 static_cast<int>(params.used), params.normalize);
    if (const int64_t slots = rows() * params.used; groups_experts(slots, params.experts))
      launch_group_slots(launch_, ids(op.outputs[0]), static_cast<int>(slots), static_cast<int>(params.experts),
                         expert_tile_tokens(slots, params.experts), slot_order_, expert_tiles_, tile_count_);
    return;
  }
  case OpKind::expert_sum:
    return launch_expert_sum(launch_, in(0), in(1), value(op.outputs[0]), rows(), static_cast<int>(width(op.inputs[1])),
                             width(op.outputs[0]));
  case OpKind::linear:
  case OpKind::expert_linear: break; // matrix steps
  }
}

} // namespace

DeviceInfo device_info() {
  DeviceInfo info;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    info.problem = status == cudaSuccess                   ? "no NVIDIA GPU"
                   : status == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one older than this build needs"
                                                           : cudaGetErrorString(status);
    return info;
  }
  cudaDeviceProp properties;
  RIDGE_CUDA(cudaGetDeviceProperties(&properties, 0));
  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  info.usable = true;
  info.name = properties.name;
  info.sm_count = properties.multiProcessorCount;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.memory_bytes = static_cast<double>(total);
  info.free_bytes = static_cast<double>(free);
  return info;
}

std::unique_ptr<CudaExecutor> make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config,
                                                 const CudaOptions& options) {
  return std::make_unique<Executor>(program, config, options);
}

double measure_read_bandwidth() {
  constexpr size_t kBytes = size_t{2} << 30;
  constexpr int kRuns = 9;
  Stream stream;
  cudaDeviceProp properties;
  RIDGE_CUDA(cudaGetDeviceProperties(&properties, 0));
  Launch launch;
  launch.stream = stream.handle;
  launch.sm_count = properties.multiProcessorCount;
  const DeviceMemory data(kBytes, "the bandwidth measurement"), sink(4, "the bandwidth measurement");
  RIDGE_CUDA(cudaMemset(data.as(), 0x5b, kBytes));
  cudaEvent_t start, stop;
  RIDGE_CUDA(cudaEventCreate(&start));
  RIDGE_CUDA(cudaEventCreate(&stop));
  std::vector<float> milliseconds;
  for (int i = 0; i <= kRuns; ++i) {
    RIDGE_CUDA(cudaEventRecord(start, stream.handle));
    launch_read(launch, data.as(), kBytes, sink.as<uint32_t>());
    RIDGE_CUDA(cudaEventRecord(stop, stream.handle));
    RIDGE_CUDA(cudaEventSynchronize(stop));
    float elapsed = 0;
    RIDGE_CUDA(cudaEventElapsedTime(&elapsed, start, stop));
    if (i > 0) milliseconds.push_back(elapsed); // the first run loads the kernel
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::ranges::nth_element(milliseconds, milliseconds.begin() + kRuns / 2);
  return static_cast<double>(kBytes) / (milliseconds[kRuns / 2] * 1e-3);
}

} // namespace ridge::kernels::cuda
