#include "kernels/cpu/executor/lowering.h"

#include "core/error.h"
#include "core/rope_angle.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

// Well above the cost of taking an item.
constexpr int64_t kElementsPerItem = 4096;
constexpr int64_t kAttentionRows = 32; // per task: tokens × heads of a group

using Lower = void (*)(Lowering&, const core::Op&);
constexpr Lower kLower[] = {
#define RIDGE_OP(name, ...) lower_##name,
#include "core/ops.def"
#undef RIDGE_OP
};

} // namespace

const quant::FormatInfo& format_of(const core::Weight& weight) {
  const quant::FormatInfo* format = quant::find_format(weight.type);
  if (!format) throw_error("tensor {}: unknown weight type {}", weight.name, weight.type);
  if (weight.cols % format->block_weights != 0)
    throw_error("tensor {}: rows of {} weights cannot be divided into blocks of {}", weight.name, weight.cols,
                format->name);
  return *format;
}

std::set<core::ValueId> attention_inputs(const core::Program& program) {
  std::vector<const core::Op*> producer(program.values.size(), nullptr);
  std::set<core::ValueId> found, seen;
  for (const core::Op& op : program.ops) {
    for (const core::ValueId id : op.outputs) producer[id] = &op;
    if (class_of(op.kind) != core::OpClass::attention && class_of(op.kind) != core::OpClass::cache) continue;
    std::vector<core::ValueId> open = op.inputs;
    while (!open.empty()) {
      const core::ValueId id = open.back();
      open.pop_back();
      const core::Op* made_by = id >= 0 ? producer[id] : nullptr;
      if (!made_by || !seen.insert(id).second) continue;
      if (made_by->kind == core::OpKind::linear)
        found.insert(made_by->inputs[0]);
      else
        open.insert(open.end(), made_by->inputs.begin(), made_by->inputs.end());
    }
  }
  return found;
}

Lowering::Lowering(const core::Program& program, const core::ExecutorConfig& config, int threads)
    : program_(program), config_(config), threads_(threads), wide_(config.wide || core::amplifies_errors(program)),
      attention_inputs_(attention_inputs(program)), plan_(core::plan_buffers(program)), cache_(program, config),
      next_resource_(static_cast<Resource>(plan_.slots.size())) {
  for (size_t i = 0; i < program.kv_layers.size(); ++i) cache_resources_.push_back(new_resource());
  allocate_values();
  allocate_states();
  allocate_scratch();
  add_rope_angles();
  find_last_products();
  lower_ops();
}

void Lowering::allocate_values() {
  for (const core::BufferPlan::Slot& slot : plan_.slots)
    slots_.emplace_back(4 * slot.width * (slot.gathered ? config_.max_outputs : config_.max_batch), "activations");
  row_numbers_.resize(std::max(config_.max_batch, config_.max_outputs));
  for (size_t i = 0; i < row_numbers_.size(); ++i) row_numbers_[i] = static_cast<int32_t>(i);
}

void Lowering::allocate_states() {
  for (const core::StateLayer& state : program_.states) {
    states_.emplace_back(4 * state.width * config_.streams, "recurrent state");
    state_resources_.push_back(new_resource());
  }
}

// Linear and attention share scratch: a thread never needs both.
void Lowering::allocate_scratch() {
  int64_t scratch_bytes = sizeof(LinearScratch), largest_group = 1;
  for (const core::Op& op : program_.ops)
    if (const auto* params = std::get_if<core::AttentionParams>(&op.params))
      largest_group = std::max(largest_group, program_.kv_layers[params->layer].latent
                                                  ? latent_heads_of_item(params->heads, threads_)
                                                  : params->heads / program_.kv_layers[params->layer].heads);
  for (const core::Op& op : program_.ops)
    if (const auto* mixed = std::get_if<core::MixedParams>(&op.params))
      largest_group = std::max(largest_group, latent_heads_of_item(mixed->heads, threads_));
  segment_tokens_ = std::max<int64_t>(1, kAttentionRows / largest_group);
  for (const core::KvLayer& kv : program_.kv_layers)
    scratch_bytes =
        std::max(scratch_bytes, 4 * (attention_tile(kv.k_dim, kv.v_dim) +
                                     cpu::attention_scratch(segment_tokens_ * largest_group, kv.k_dim, kv.v_dim)));
  for (const core::Op& op : program_.ops) {
    if (const auto* index = std::get_if<core::IndexParams>(&op.params)) {
      const int64_t dim = program_.kv_layers[index->layer].k_dim;
      scratch_bytes =
          std::max(scratch_bytes, 4 * (attention_tile(dim, 0) + cpu::attention_scratch(index->heads, dim, 0)));
    }
    if (const auto* delta = std::get_if<core::DeltaParams>(&op.params))
      scratch_bytes = std::max<int64_t>(scratch_bytes, 12 * delta->dim);
    if (const auto* scan = std::get_if<core::ScanParams>(&op.params))
      scratch_bytes = std::max<int64_t>(scratch_bytes, 4 * scan->states);
  }
  for (int i = 0; i < threads_; ++i) scratch_.emplace_back(scratch_bytes, "thread's scratch");
}

AttentionTask Lowering::attention_task(const core::AttentionParams& params, int thread) {
  const core::KvLayer& kv = program_.kv_layers[params.layer];
  AttentionTask task = {};
  task.k_type = config_.k_type;
  task.v_type = config_.v_type;
  task.k_dim = kv.k_dim;
  task.v_dim = kv.v_dim;
  task.params = &params;
  task.tile = attention_scratch(thread);
  task.scratch = task.tile + attention_tile(kv.k_dim, kv.v_dim);
  return task;
}

void Lowering::add_rope_angles() {
  for (const core::RopeTable& table : program_.rope_tables) {
    const std::vector<float>& frequencies = table.frequencies(config_.context);
    const auto pairs = static_cast<int64_t>(frequencies.size());
    angles_.push_back({Memory(8 * pairs * config_.max_batch, "rotation angles"), new_resource()});
    float* cos_sin = angles_.back().cos_sin.as<float>();
    add_rows({}, {angles_.back().resource}, false, 32 * pairs,
             [this, &table, &frequencies, pairs, cos_sin](int64_t first, int64_t last) {
               for (int64_t t = first; t < last; ++t)
                 for (int64_t i = 0; i < pairs; ++i) {
                   const int32_t place = table.axes.empty() || batch_.axes.empty()
                                             ? batch_.positions[t] / table.span * table.span
                                             : batch_.axes[t * core::kPlaceAxes + table.axes[i]];
                   const float angle = core::rope_angle(place, frequencies[i]);
                   cos_sin[2 * pairs * t + i] = std::cos(angle) * table.magnitude;
                   cos_sin[2 * pairs * t + pairs + i] = std::sin(angle) * table.magnitude;
                 }
             });
  }
}

void Lowering::find_last_products() {
  last_reader_.assign(program_.values.size(), 0);
  for (size_t i = 0; i < program_.ops.size(); ++i)
    if (class_of(program_.ops[i].kind) == core::OpClass::matrix) last_reader_[program_.ops[i].inputs[0]] = i;
}

void Lowering::lower_ops() {
  for (current_op_ = 0; current_op_ < program_.ops.size(); ++current_op_) {
    const core::Op& op = program_.ops[current_op_];
    schedule_.set_label(static_cast<int32_t>(current_op_));
    kLower[static_cast<size_t>(op.kind)](*this, op);
  }
}

std::vector<core::OpTime> Lowering::profile(int repetitions) {
  std::vector<double> seconds(schedule_.size());
  for (int i = 0; i < repetitions; ++i) schedule_.run(threads_, &seconds);
  std::vector<core::OpTime> times;
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const int32_t op = schedule_.label(i);
    if (op < 0) continue; // rope tables
    if (times.empty() || times.back().ops[0] != op) times.push_back({{op}, 0});
    times.back().seconds += seconds[i] / repetitions;
  }
  return times;
}

std::span<const float> Lowering::result(int64_t row) const {
  const core::ValueInfo& result = info(program_.result());
  return {value(program_.result()) + row * result.width, static_cast<size_t>(result.width)};
}

std::span<float> Lowering::rows_of(core::ValueId id) const {
  if (id < 0) return {};
  return {value(id), static_cast<size_t>(batch_.rows(info(id).gathered) * info(id).width)};
}

int64_t Lowering::bytes() const {
  int64_t sum = cache_.bytes();
  for (const Memory& memory : slots_) sum += memory.bytes();
  for (const Memory& memory : states_) sum += memory.bytes();
  for (const Memory& memory : scratch_) sum += memory.bytes();
  for (const RopeAngles& angles : angles_) sum += angles.cos_sin.bytes();
  for (const auto& buffer : code_buffers_) sum += buffer->memory.bytes();
  return sum;
}

Lowering::Resources Lowering::slots(const std::vector<core::ValueId>& ids) const {
  Resources all;
  for (const core::ValueId id : ids) all.insert(slot(id));
  return all;
}

void Lowering::add_rows(const Resources& reads, const Resources& writes, bool gathered, int64_t width, RowRange run) {
  const int64_t step = std::max<int64_t>(1, kElementsPerItem / std::max<int64_t>(width, 1));
  schedule_.add(
      reads, writes, [this, gathered, step] { return ceil_div(batch_.rows(gathered), step); },
      [this, gathered, step, run = std::move(run)](int64_t item, int) {
        run(item * step, std::min((item + 1) * step, batch_.rows(gathered)));
      });
}

void Lowering::add_elements(const core::Op& op, Elements run) {
  const bool gathered = info(op.outputs[0]).gathered;
  const int64_t width = info(op.outputs[0]).width;
  schedule_.add(
      slots(op.inputs), slots(op.outputs),
      [=, this] { return ceil_div(batch_.rows(gathered) * width, kElementsPerItem); },
      [=, this, run = std::move(run)](int64_t item, int) {
        const int64_t first = item * kElementsPerItem;
        run(first, std::min(kElementsPerItem, batch_.rows(gathered) * width - first));
      });
}

void Lowering::add_sequences(const core::Op& op, int32_t layer, int64_t pieces, RunSequence run) {
  Resources reads = slots(op.inputs), writes = slots(op.outputs);
  writes.insert(state_resources_[layer]);
  schedule_.add(
      reads, writes, [this, pieces] { return std::ssize(batch_.sequences) * pieces; },
      [this, layer, pieces, run = std::move(run)](int64_t item, int thread) {
        const BatchState::Sequence& sequence = batch_.sequences[item / pieces];
        run(sequence, state(layer, sequence.stream), item % pieces, thread);
      });
}

float* Lowering::state(int32_t layer, int64_t stream) const {
  return states_[layer].as<float>() + stream * program_.states[layer].width;
}

const std::vector<float>& Lowering::vector_weight(core::WeightId id) {
  std::vector<float>& decoded = vectors_[id];
  const core::Weight& vector = weight(id);
  if (decoded.empty()) {
    decoded.resize(vector.cols);
    format_of(vector).decode(vector.data, vector.cols, decoded.data());
  }
  return decoded;
}

bool Lowering::wants_codes(const core::Weight& weight) const { return !config_.exact && format_of(weight).packed; }

Linear Lowering::make_linear(const core::Weight& weight, core::ValueId input) {
  format_of(weight);
  const auto [kernels, added] = kernels_.try_emplace(weight.type);
  if (added) kernels->second = format_kernels(weight.type);
  Linear linear = cpu::make_linear(weight, kernels->second);
  linear.wide = is_wide(input);
  return linear;
}

Lowering::CodeBuffer& Lowering::code_buffer(int64_t bytes) {
  CodeBuffer* found = nullptr;
  for (const auto& candidate : code_buffers_)
    if (candidate->free_after < current_op_ && candidate->memory.bytes() >= bytes) found = candidate.get();
  if (found) return *found;
  CodeBuffer& made = *code_buffers_.emplace_back(std::make_unique<CodeBuffer>());
  made.memory = Memory(bytes, "activations");
  made.resource = new_resource();
  return made;
}

Lowering::Quantized Lowering::quantized(core::ValueId id, int64_t cols) {
  const bool gathered = info(id).gathered, wide = is_wide(id);
  const int64_t per_row = info(id).width / cols; // > 1: expert slots with separate inputs
  const int64_t padded = round_up(cols, kChunk), bytes = QuantizedRow::bytes(padded, wide);
  const int64_t most = (gathered ? config_.max_outputs : config_.max_batch) * per_row;
  const MatmulKernels& matmul = matmul_kernels();
  const bool tiled = matmul.tiles && per_row == 1;
  const auto made = [&](const CodeBuffer& buffer) -> Quantized {
    std::byte* rows = buffer.memory.data();
    return {rows, tiled ? rows + most * bytes : nullptr, buffer.resource};
  };
  for (const auto& buffer : code_buffers_)
    if (buffer->holds == id && buffer->cols == cols) return made(*buffer);
  CodeBuffer& buffer =
      code_buffer(most * bytes + (tiled ? ceil_div(most, TokenTile::kTokens) * TokenTile::bytes(padded, wide) : 0));
  buffer.holds = id;
  buffer.cols = cols;
  buffer.free_after = last_reader_[id];
  const Quantized out = made(buffer);
  const auto tile_rows = [=, this] {
    return out.tiles && batch_.rows(gathered) >= kLeastTiledTokens ? TokenTile::kTokens : 1;
  };
  schedule_.add(
      {slot(id)}, {buffer.resource}, [=, this] { return ceil_div(batch_.rows(gathered) * per_row, tile_rows()); },
      [=, this, &matmul, &vectors = vector_kernels(), x = value(id)](int64_t item, int) {
        const int64_t first = item * tile_rows();
        const int64_t count = std::min(tile_rows(), batch_.rows(gathered) * per_row - first);
        QuantizedRow rows[TokenTile::kTokens];
        for (int64_t i = 0; i < count; ++i) {
          rows[i] = {out.rows + (first + i) * bytes, padded, wide};
          vectors.quantize(x + (first + i) * cols, cols, rows[i]);
        }
        if (tile_rows() > 1) matmul.arrange(rows, count, TokenTile{out.tiles, padded, wide}.next(item));
      });
  return out;
}

} // namespace ridge::kernels::cpu
