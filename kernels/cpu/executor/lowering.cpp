#include "kernels/cpu/executor/lowering.h"

#include "core/error.h"
#include "core/rope_angle.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

// Work for one thread at a time in ops that walk along vectors: well above the cost of taking an item.
constexpr int64_t kElementsPerItem = 4096;
constexpr int64_t kAttentionRows = 32; // queries (tokens × heads of a group) per attention task, if the group allows

const quant::FormatInfo& format_of(const core::Weight& weight) {
  const quant::FormatInfo* format = quant::find_format(weight.type);
  if (!format) throw_error("tensor {}: weight type {} is unknown to this version", weight.name, weight.type);
  if (weight.cols % format->block_weights != 0)
    throw_error("tensor {}: rows of {} weights are no whole blocks of {}", weight.name, weight.cols, format->name);
  return *format;
}

} // namespace

Lowering::Lowering(const core::Program& program, const core::ExecutorConfig& config, int threads)
    : program_(program), config_(config), threads_(threads), plan_(core::plan_buffers(program)),
      cache_(program.kv_layers, config) {
  next_resource_ = static_cast<int64_t>(plan_.slots.size());
  for (const core::BufferPlan::Slot& slot : plan_.slots)
    slots_.emplace_back(4 * slot.width * (slot.gathered ? config.max_outputs : config.max_batch), "activations");
  identity_.resize(std::max(config.max_batch, config.max_outputs));
  for (size_t i = 0; i < identity_.size(); ++i) identity_[i] = static_cast<int32_t>(i);
  for (size_t i = 0; i < program.kv_layers.size(); ++i) cache_resource_.push_back(new_resource());

  // Scratch for linears and attention, never needed at the same time by one thread.
  int64_t scratch_bytes = sizeof(LinearScratch), largest_group = 1;
  for (const core::Op& op : program.ops)
    if (op.kind == core::OpKind::attention) {
      const auto& params = std::get<core::AttentionParams>(op.params);
      largest_group = std::max(largest_group, params.heads / program.kv_layers[params.layer].heads);
    }
  segment_tokens_ = std::max<int64_t>(1, kAttentionRows / largest_group);
  for (const core::KvLayer& kv : program.kv_layers)
    scratch_bytes = std::max(scratch_bytes, 4 * attention_scratch(segment_tokens_ * largest_group, kv.k_dim, kv.v_dim));
  for (int i = 0; i < threads; ++i) scratch_.emplace_back(scratch_bytes, "thread's scratch");

  for (const core::RopeTable& table : program.rope_tables) {
    const auto pairs = static_cast<int64_t>(table.inverse_frequency.size());
    angles_.push_back({Memory(8 * pairs * config.max_batch, "rotation angles"), new_resource()});
    float* cos_sin = angles_.back().cos_sin.as<float>();
    add_rows({}, {angles_.back().resource}, false, 32 * pairs,
             [this, &table, pairs, cos_sin](int64_t first, int64_t last) {
               for (int64_t t = first; t < last; ++t)
                 for (int64_t i = 0; i < pairs; ++i) {
                   const float angle = core::rope_angle(batch_.positions[t], table.inverse_frequency[i]);
                   cos_sin[2 * pairs * t + i] = std::cos(angle) * table.magnitude;
                   cos_sin[2 * pairs * t + pairs + i] = std::sin(angle) * table.magnitude;
                 }
             });
  }

  last_linear_use_.assign(program.values.size(), 0);
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].kind == core::OpKind::linear || program.ops[i].kind == core::OpKind::expert_linear)
      last_linear_use_[program.ops[i].inputs[0]] = i;

  for (current_op_ = 0; current_op_ < program.ops.size(); ++current_op_) {
    const core::Op& op = program.ops[current_op_];
    schedule_.set_label(static_cast<int32_t>(current_op_));
    switch (op.kind) {
    case core::OpKind::embed: embed(op); break;
    case core::OpKind::rms_norm: rms_norm(op); break;
    case core::OpKind::linear: linear(op); break;
    case core::OpKind::rope: rope(op); break;
    case core::OpKind::kv_store: kv_store(op); break;
    case core::OpKind::attention: attention(op); break;
    case core::OpKind::swiglu: swiglu(op); break;
    case core::OpKind::add: add(op); break;
    case core::OpKind::permute: permute(op); break;
    case core::OpKind::gather: gather(op); break;
    case core::OpKind::route: route(op); break;
    case core::OpKind::expert_linear: expert_linear(op); break;
    case core::OpKind::expert_sum: expert_sum(op); break;
    }
  }
}

std::vector<core::OpTime> Lowering::profile(int repetitions) {
  std::vector<double> seconds(schedule_.size());
  for (int i = 0; i < repetitions; ++i) schedule_.run(threads_, &seconds);
  std::vector<core::OpTime> times;
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const int32_t op = schedule_.label(i);
    if (op < 0) continue; // the tables of angles
    if (times.empty() || times.back().ops[0] != op) times.push_back({{op}, 0});
    times.back().seconds += seconds[i] / repetitions;
  }
  return times;
}

std::span<const float> Lowering::result(int64_t row) const {
  const core::ValueInfo& result = info(program_.result());
  return {value(program_.result()) + row * result.width, static_cast<size_t>(result.width)};
}

std::span<float> Lowering::input() {
  if (program_.input < 0) return {};
  const core::ValueInfo& input = info(program_.input);
  return {value(program_.input), static_cast<size_t>(batch_.rows(input.gathered) * input.width)};
}

int64_t Lowering::bytes() const {
  int64_t sum = cache_.bytes();
  for (const Memory& memory : slots_) sum += memory.bytes();
  for (const Memory& memory : scratch_) sum += memory.bytes();
  for (const RopeAngles& angles : angles_) sum += angles.cos_sin.bytes();
  for (const auto& buffer : code_buffers_) sum += buffer->memory.bytes();
  return sum;
}

void Lowering::add_rows(const std::set<int64_t>& reads, const std::set<int64_t>& writes, bool gathered, int64_t width,
                        RowRange run) {
  const int64_t step = std::max<int64_t>(1, kElementsPerItem / std::max<int64_t>(width, 1));
  schedule_.add(
      reads, writes, [this, gathered, step] { return ceil_div(batch_.rows(gathered), step); },
      [this, gathered, step, run = std::move(run)](int64_t item, int) {
        run(item * step, std::min((item + 1) * step, batch_.rows(gathered)));
      });
}

void Lowering::add_elements(const std::set<int64_t>& reads, const std::set<int64_t>& writes, core::ValueId value,
                            Elements run) {
  const bool gathered = info(value).gathered;
  const int64_t width = info(value).width;
  schedule_.add(
      reads, writes, [=, this] { return ceil_div(batch_.rows(gathered) * width, kElementsPerItem); },
      [=, this, run = std::move(run)](int64_t item, int) {
        const int64_t first = item * kElementsPerItem;
        run(first, std::min(kElementsPerItem, batch_.rows(gathered) * width - first));
      });
}

// Norm weights and biases, decoded to f32 once.
const std::vector<float>& Lowering::vector_weight(core::WeightId id) {
  std::vector<float>& decoded = vectors_[id];
  const core::Weight& weight = program_.weights[id];
  if (decoded.empty()) {
    decoded.resize(weight.cols);
    format_of(weight).decode(weight.data, weight.cols, decoded.data());
  }
  return decoded;
}

bool Lowering::wants_codes(const core::Weight& weight) const { return !config_.exact && format_of(weight).packed; }

Linear Lowering::make_linear(const core::Weight& weight) {
  format_of(weight); // or throws
  const auto [kernels, added] = kernels_.try_emplace(weight.type);
  if (added) kernels->second = format_kernels(weight.type);
  return {&kernels->second, weight.data, weight.row_bytes, weight.rows, weight.cols,
          nullptr,          nullptr,     nullptr,          nullptr};
}

std::pair<std::byte*, int64_t> Lowering::quantized(core::ValueId id, int64_t cols) {
  for (const auto& buffer : code_buffers_)
    if (buffer->holds == id && buffer->cols == cols) return {buffer->memory.data(), buffer->resource};
  const bool gathered = info(id).gathered;
  const int64_t per_row = info(id).width / cols; // several where each expert slot has its own input
  const int64_t bytes = QuantizedRow::bytes(round_up(cols, kChunk));
  const int64_t needed = (gathered ? config_.max_outputs : config_.max_batch) * per_row * bytes;
  CodeBuffer* buffer = nullptr;
  for (const auto& candidate : code_buffers_)
    if (candidate->free_after < current_op_ && candidate->memory.bytes() >= needed) buffer = candidate.get();
  if (!buffer) {
    code_buffers_.push_back(std::make_unique<CodeBuffer>());
    buffer = code_buffers_.back().get();
    buffer->memory = Memory(needed, "activations");
    buffer->resource = new_resource();
  }
  buffer->holds = id;
  buffer->cols = cols;
  buffer->free_after = last_linear_use_[id];
  const float* x = value(id);
  std::byte* out = buffer->memory.data();
  const VectorKernels& vectors = vector_kernels();
  schedule_.add(
      {slot(id)}, {buffer->resource}, [=, this] { return batch_.rows(gathered) * per_row; },
      [=, &vectors](int64_t row, int) {
        vectors.quantize(x + row * cols, cols, {out + row * bytes, round_up(cols, kChunk)});
      });
  return {out, buffer->resource};
}

void Lowering::embed(const core::Op& op) {
  const core::Weight& table = program_.weights[op.weights[0]];
  const quant::FormatInfo& format = format_of(table);
  if (table.rows < program_.vocab)
    throw_error("tensor {}: {} rows for a vocabulary of {}", table.name, table.rows, program_.vocab);
  float* out = value(op.outputs[0]);
  add_rows({}, {slot(op.outputs[0])}, false, table.cols, [=, this, &table](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t)
      format.decode(table.data + batch_.tokens[t] * table.row_bytes, table.cols, out + t * table.cols);
  });
}

void Lowering::rms_norm(const core::Op& op) {
  const auto& params = std::get<core::NormParams>(op.params);
  const int64_t width = info(op.inputs[0]).width, group = params.group;
  const float *x = value(op.inputs[0]), *weight = vector_weight(op.weights[0]).data();
  float* out = value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  add_rows({slot(op.inputs[0])}, {slot(op.outputs[0])}, info(op.inputs[0]).gathered, width,
           [=, &vectors, epsilon = params.epsilon](int64_t first, int64_t last) {
             for (int64_t i = first * width; i < last * width; i += group)
               vectors.rms_norm(x + i, weight, group, epsilon, out + i);
           });
}

void Lowering::linear(const core::Op& op) {
  const core::Weight& weight = program_.weights[op.weights[0]];
  const core::ValueId input = op.inputs[0];
  const bool gathered = info(input).gathered;
  Linear linear = make_linear(weight);
  linear.x = value(input);
  linear.out = value(op.outputs[0]);
  if (op.weights.size() > 1) linear.bias = vector_weight(op.weights[1]).data();
  std::set<int64_t> reads = {slot(input)};
  if (wants_codes(weight)) {
    const auto [codes, resource] = quantized(input, weight.cols);
    linear.quantized = codes;
    reads = {resource};
  }
  if (config_.observer)
    schedule_.add(
        {slot(input)}, {}, [] { return 1; },
        [=, this, &op, x = linear.x, cols = weight.cols](int64_t, int) {
          std::vector<const float*> rows(batch_.rows(gathered));
          for (size_t t = 0; t < rows.size(); ++t) rows[t] = x + static_cast<int64_t>(t) * cols;
          if (!rows.empty()) config_.observer->observe(op, 0, rows);
        });
  const std::vector<int64_t> pieces = guided_pieces(weight.rows, weight.row_bytes, threads_);
  const int64_t panels = ceil_div(weight.rows, kPanelRows);
  // Tokens per item: fewer where there are too few panels to keep every thread busy.
  const auto token_block = [panels, threads = threads_](int64_t tokens) {
    int64_t block = kTokenBlock;
    while (block > 32 && panels * ceil_div(tokens, block) < 2 * threads) block /= 2;
    return block;
  };
  schedule_.add(
      reads, {slot(op.outputs[0])},
      [=, this, count = static_cast<int64_t>(pieces.size()) - 1] {
        const int64_t tokens = batch_.rows(gathered);
        if (tokens == 0) return int64_t{0};
        return tokens <= kDotTokens ? count : panels * ceil_div(tokens, token_block(tokens));
      },
      [=, this](int64_t item, int thread) {
        const int64_t tokens = batch_.rows(gathered);
        if (tokens <= kDotTokens) {
          const std::span<const int32_t> all(identity_.data(), tokens);
          run_dots(linear, all, all, pieces[item], pieces[item + 1] - pieces[item]);
        } else {
          const int64_t block = token_block(tokens), first = item / panels * block;
          const std::span<const int32_t> some(identity_.data() + first, std::min(block, tokens - first));
          run_panel(linear, some, some, item % panels * kPanelRows, linear_scratch(thread));
        }
      });
}

void Lowering::rope(const core::Op& op) {
  const auto& params = std::get<core::RopeParams>(op.params);
  const core::RopeTable& table = program_.rope_tables[params.table];
  const int64_t heads = params.heads, head_dim = params.head_dim, width = heads * head_dim;
  const auto pairs = static_cast<int64_t>(table.inverse_frequency.size());
  const float *x = value(op.inputs[0]), *cos_sin = angles_[params.table].cos_sin.as<float>();
  float* out = value(op.outputs[0]);
  const auto rotate =
      table.style == core::RopeStyle::adjacent ? vector_kernels().rope_adjacent : vector_kernels().rope_split;
  add_rows({slot(op.inputs[0]), angles_[params.table].resource}, {slot(op.outputs[0])}, false, width,
           [=](int64_t first, int64_t last) {
             for (int64_t t = first; t < last; ++t)
               for (int64_t h = 0; h < heads; ++h)
                 rotate(x + t * width + h * head_dim, cos_sin + 2 * pairs * t, pairs, head_dim,
                        out + t * width + h * head_dim);
           });
}

void Lowering::kv_store(const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  const core::KvLayer kv = program_.kv_layers[layer];
  const float *k = value(op.inputs[0]), *v = value(op.inputs[1]);
  const AttentionKernels& kernels = attention_kernels();
  add_rows({slot(op.inputs[0]), slot(op.inputs[1])}, {cache_resource_[layer]}, false, kv.heads * (kv.k_dim + kv.v_dim),
           [=, this, &kernels](int64_t first, int64_t last) {
             for (int64_t t = first; t < last; ++t)
               for (int64_t h = 0; h < kv.heads; ++h) {
                 const int64_t position = batch_.positions[t], stream = batch_.streams[t];
                 kernels.store_key(k + (t * kv.heads + h) * kv.k_dim, kv.k_dim, position, config_.k_type,
                                   cache_.keys(layer, stream, h));
                 kernels.store_value(v + (t * kv.heads + h) * kv.v_dim, kv.v_dim, position, config_.v_type,
                                     cache_.values(layer, stream, h));
               }
           });
}

void Lowering::attention(const core::Op& op) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const core::KvLayer kv = program_.kv_layers[params.layer];
  const float* q = value(op.inputs[0]);
  float* out = value(op.outputs[0]);
  const AttentionKernels& kernels = attention_kernels();
  schedule_.add(
      {slot(op.inputs[0]), cache_resource_[params.layer]}, {slot(op.outputs[0])},
      [=, this] { return static_cast<int64_t>(batch_.segments.size()) * kv.heads; },
      [=, this, &params, &kernels](int64_t item, int thread) {
        // Backwards: the last segments have the most positions to look at.
        const auto& segment = batch_.segments[batch_.segments.size() - 1 - item / kv.heads];
        const int64_t head = item % kv.heads, group = params.heads / kv.heads;
        AttentionTask task = {};
        task.q_stride = params.heads * kv.k_dim;
        task.out_stride = params.heads * kv.v_dim;
        task.q = q + segment.first_token * task.q_stride + head * group * kv.k_dim;
        task.out = out + segment.first_token * task.out_stride + head * group * kv.v_dim;
        task.tokens = segment.tokens;
        task.group = group;
        task.first_position = segment.first_position;
        task.k = cache_.keys(params.layer, segment.stream, head);
        task.v = cache_.values(params.layer, segment.stream, head);
        task.k_type = config_.k_type;
        task.v_type = config_.v_type;
        task.k_dim = kv.k_dim;
        task.v_dim = kv.v_dim;
        task.scale = params.scale;
        task.scratch = scratch_[thread].as<float>();
        kernels.attend(task);
      });
}

void Lowering::swiglu(const core::Op& op) {
  const float *gate = value(op.inputs[0]), *up = value(op.inputs[1]);
  float* out = value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  add_elements({slot(op.inputs[0]), slot(op.inputs[1])}, {slot(op.outputs[0])}, op.outputs[0],
               [=, &vectors](int64_t i, int64_t count) { vectors.swiglu(gate + i, up + i, count, out + i); });
}

void Lowering::add(const core::Op& op) {
  const float *a = value(op.inputs[0]), *b = value(op.inputs[1]);
  float* out = value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  add_elements({slot(op.inputs[0]), slot(op.inputs[1])}, {slot(op.outputs[0])}, op.outputs[0],
               [=, &vectors](int64_t i, int64_t count) { vectors.add(a + i, b + i, count, out + i); });
}

void Lowering::permute(const core::Op& op) {
  const core::Weight& picks = program_.weights[op.weights[0]];
  const int64_t group = std::get<core::PermuteParams>(op.params).group, columns = picks.cols;
  const int64_t groups = info(op.inputs[0]).width / group;
  const float* x = value(op.inputs[0]);
  float* out = value(op.outputs[0]);
  const auto* order = reinterpret_cast<const int32_t*>(picks.data);
  add_rows({slot(op.inputs[0])}, {slot(op.outputs[0])}, info(op.inputs[0]).gathered, groups * columns,
           [=](int64_t first, int64_t last) {
             for (int64_t g = first * groups; g < last * groups; ++g)
               for (int64_t i = 0; i < columns; ++i) out[g * columns + i] = x[g * group + order[i]];
           });
}

void Lowering::gather(const core::Op& op) {
  const int64_t width = info(op.inputs[0]).width;
  const float* x = value(op.inputs[0]);
  float* out = value(op.outputs[0]);
  add_rows({slot(op.inputs[0])}, {slot(op.outputs[0])}, true, width, [=, this](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) std::copy_n(x + batch_.outputs[i] * width, width, out + i * width);
  });
}

} // namespace ridge::kernels::cpu
