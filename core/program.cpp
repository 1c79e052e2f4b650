#include "core/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ridge::core {
namespace {

constexpr double kValueBytes = 4; // every value element is f32 or i32

// Flops per element that are worth counting for ops that are not dot products; all are memory-bound by far.
constexpr double kNormFlops = 4, kRopeFlops = 3, kSwigluFlops = 5;

int64_t rows_of(const ValueInfo& value, const Step& step) { return value.gathered ? step.outputs : step.tokens; }

[[noreturn]] void malformed(const Op& op, const std::string& problem) {
  throw std::logic_error(fmt::format("Program: {} ({}): {}", op.name, name_of(op.kind), problem));
}

// How many inputs, outputs and weights (min, max) each kind has.
struct Arity {
  size_t inputs, outputs, min_weights, max_weights;
};
Arity arity_of(OpKind kind) {
  switch (kind) {
  case OpKind::embed: return {0, 1, 1, 1};
  case OpKind::rms_norm: return {1, 1, 1, 1};
  case OpKind::linear: return {1, 1, 1, 2};
  case OpKind::rope: return {1, 1, 0, 0};
  case OpKind::kv_store: return {2, 0, 0, 0};
  case OpKind::attention: return {1, 1, 0, 0};
  case OpKind::swiglu: return {2, 1, 0, 0};
  case OpKind::add: return {2, 1, 0, 0};
  case OpKind::permute: return {1, 1, 1, 1};
  case OpKind::gather: return {1, 1, 0, 0};
  case OpKind::route: return {1, 2, 0, 0};
  case OpKind::expert_linear: return {2, 1, 1, 1};
  case OpKind::expert_sum: return {2, 1, 0, 0};
  }
  throw std::logic_error("Program: unknown op kind");
}

} // namespace

std::string_view name_of(OpKind kind) {
  switch (kind) {
  case OpKind::embed: return "embed";
  case OpKind::rms_norm: return "rms_norm";
  case OpKind::linear: return "linear";
  case OpKind::rope: return "rope";
  case OpKind::kv_store: return "kv_store";
  case OpKind::attention: return "attention";
  case OpKind::swiglu: return "swiglu";
  case OpKind::add: return "add";
  case OpKind::permute: return "permute";
  case OpKind::gather: return "gather";
  case OpKind::route: return "route";
  case OpKind::expert_linear: return "expert_linear";
  case OpKind::expert_sum: return "expert_sum";
  }
  return "?";
}

Cost& Cost::operator+=(const Cost& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  activation_bytes += other.activation_bytes;
  flops += other.flops;
  return *this;
}

Cost op_cost(const Program& program, const Op& op, const Step& step) {
  Cost cost;
  double elements_in = 0, elements_out = 0;
  for (ValueId id : op.inputs)
    elements_in += static_cast<double>(program.values[id].width * rows_of(program.values[id], step));
  for (ValueId id : op.outputs)
    elements_out += static_cast<double>(program.values[id].width * rows_of(program.values[id], step));
  cost.activation_bytes = kValueBytes * (elements_in + elements_out);

  const auto tokens = static_cast<double>(step.tokens);
  const auto streams = static_cast<double>(step.streams);
  const auto cached_bytes_per_token = [&](const KvLayer& kv) {
    return static_cast<double>(kv.heads) *
           (static_cast<double>(kv.k_dim) * step.k_bytes + static_cast<double>(kv.v_dim) * step.v_bytes);
  };

  switch (op.kind) {
  case OpKind::embed: cost.weight_bytes = tokens * static_cast<double>(program.weights[op.weights[0]].row_bytes); break;
  case OpKind::rms_norm: cost.flops = kNormFlops * elements_in; break;
  case OpKind::rope: cost.flops = kRopeFlops * elements_in; break;
  case OpKind::swiglu: cost.flops = kSwigluFlops * elements_out; break;
  case OpKind::add: cost.flops = elements_out; break;
  case OpKind::permute: break;                                                        // moves only
  case OpKind::gather: cost.activation_bytes = 2 * kValueBytes * elements_out; break; // the other rows are not read
  case OpKind::route: cost.flops = 3 * elements_in; break;
  case OpKind::expert_sum:
    cost.flops = 2 * static_cast<double>(step.tokens * program.values[op.inputs[0]].width);
    break;
  case OpKind::linear: {
    const Weight& w = program.weights[op.weights[0]];
    const auto rows = static_cast<double>(rows_of(program.values[op.outputs[0]], step));
    cost.flops = 2 * rows * static_cast<double>(w.rows) * static_cast<double>(w.cols);
    break;
  }
  case OpKind::expert_linear: {
    // Tokens choose `used` of the experts each; with even routing n tokens touch E (1 - (1 - used/E)^n) of them.
    const Weight& w = program.weights[op.weights[0]];
    const auto rows = static_cast<double>(rows_of(program.values[op.outputs[0]], step));
    const auto experts = static_cast<double>(w.count);
    const auto used = static_cast<double>(std::get<ExpertParams>(op.params).used);
    const double touched = experts * (1 - std::pow(1 - used / experts, rows));
    cost.weight_bytes = touched * static_cast<double>(w.matrix_bytes());
    cost.flops = 2 * rows * used * static_cast<double>(w.rows) * static_cast<double>(w.cols);
    break;
  }
  case OpKind::kv_store: {
    const KvLayer& kv = program.kv_layers[std::get<KvParams>(op.params).layer];
    cost.kv_bytes = tokens * cached_bytes_per_token(kv);
    break;
  }
  case OpKind::attention: {
    const auto& params = std::get<AttentionParams>(op.params);
    const KvLayer& kv = program.kv_layers[params.layer];
    const double past = static_cast<double>(step.past), per_stream = tokens / streams;
    cost.kv_bytes = streams * (past + per_stream) * cached_bytes_per_token(kv);
    const double pairs = tokens * past + streams * per_stream * (per_stream + 1) / 2; // (query, visible key)
    cost.flops = 2 * pairs * static_cast<double>(params.heads * (kv.k_dim + kv.v_dim));
    break;
  }
  }
  if (op.kind != OpKind::embed && op.kind != OpKind::expert_linear)
    for (WeightId id : op.weights) cost.weight_bytes += static_cast<double>(program.weights[id].total_bytes());
  return cost;
}

Cost program_cost(const Program& program, const Step& step) {
  Cost total;
  for (const Op& op : program.ops) total += op_cost(program, op, step);
  return total;
}

double kv_cache_bytes(const Program& program, int64_t context, double k_bytes, double v_bytes) {
  double bytes = 0;
  for (const KvLayer& kv : program.kv_layers)
    bytes += static_cast<double>(kv.heads) *
             (static_cast<double>(kv.k_dim) * k_bytes + static_cast<double>(kv.v_dim) * v_bytes);
  return bytes * static_cast<double>(context);
}

BufferPlan plan_buffers(const Program& program) {
  const size_t value_count = program.values.size();
  std::vector<size_t> last_use(value_count, 0);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId id : program.ops[i].inputs) last_use[id] = i;
    for (ValueId id : program.ops[i].outputs) last_use[id] = std::max(last_use[id], i);
  }
  if (program.result() >= 0) last_use[program.result()] = program.ops.size(); // read after the run

  BufferPlan plan;
  plan.slot_of_value.assign(value_count, -1);
  std::vector<bool> busy;
  const auto place = [&](ValueId id) {
    const ValueInfo& value = program.values[id];
    // The tightest free slot that is wide enough, else the widest free one (which grows), else a new one.
    int32_t best = -1;
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      if (busy[s] || plan.slots[s].gathered != value.gathered) continue;
      if (best < 0) {
        best = static_cast<int32_t>(s);
        continue;
      }
      const int64_t width = plan.slots[s].width, best_width = plan.slots[best].width;
      const bool fits = width >= value.width, best_fits = best_width >= value.width;
      if (fits != best_fits ? fits : (fits ? width < best_width : width > best_width)) best = static_cast<int32_t>(s);
    }
    if (best < 0) {
      best = static_cast<int32_t>(plan.slots.size());
      plan.slots.push_back({0, value.gathered});
      busy.push_back(false);
    }
    plan.slots[best].width = std::max(plan.slots[best].width, value.width);
    plan.slot_of_value[id] = best;
    busy[best] = true;
  };
  if (program.input >= 0) place(program.input);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId id : program.ops[i].outputs) place(id);
    const auto release = [&](ValueId id) {
      if (last_use[id] == i) busy[plan.slot_of_value[id]] = false;
    };
    for (ValueId id : program.ops[i].inputs) release(id);
    for (ValueId id : program.ops[i].outputs) release(id);
  }
  return plan;
}

void validate(const Program& program) {
  std::vector<bool> written(program.values.size(), false);
  if (program.input >= 0) written.at(program.input) = true;
  for (const Op& op : program.ops) {
    const Arity arity = arity_of(op.kind);
    if (op.inputs.size() != arity.inputs) malformed(op, "wrong number of inputs");
    if (op.outputs.size() != arity.outputs) malformed(op, "wrong number of outputs");
    if (op.weights.size() < arity.min_weights || op.weights.size() > arity.max_weights)
      malformed(op, "wrong number of weights");
    for (ValueId id : op.inputs)
      if (!written.at(id)) malformed(op, "reads " + program.values[id].name + " before it is written");
    for (ValueId id : op.outputs) {
      if (written.at(id)) malformed(op, "writes " + program.values[id].name + " twice");
      written[id] = true;
    }

    const auto in = [&](size_t i) -> const ValueInfo& { return program.values[op.inputs[i]]; };
    const auto out = [&](size_t i) -> const ValueInfo& { return program.values[op.outputs[i]]; };
    const auto weight = [&](size_t i) -> const Weight& { return program.weights.at(op.weights[i]); };
    const auto expect = [&](bool ok, const char* what) {
      if (!ok) malformed(op, what);
    };
    for (size_t i = 0; i < op.inputs.size() && op.kind != OpKind::gather; ++i)
      for (size_t o = 0; o < op.outputs.size(); ++o) expect(in(i).gathered == out(o).gathered, "mixes row counts");

    switch (op.kind) {
    case OpKind::embed: expect(weight(0).cols == out(0).width, "the table has another width"); break;
    case OpKind::rms_norm: {
      const int64_t group = std::get<NormParams>(op.params).group;
      expect(group > 0 && in(0).width % group == 0 && weight(0).cols == group, "group and weight differ");
      expect(in(0).width == out(0).width, "changes the width");
      break;
    }
    case OpKind::linear:
      expect(weight(0).count == 1 && weight(0).cols == in(0).width && weight(0).rows == out(0).width, "shape");
      if (op.weights.size() == 2) expect(weight(1).cols == out(0).width, "the bias has another width");
      break;
    case OpKind::rope: {
      const auto& params = std::get<RopeParams>(op.params);
      const RopeTable& table = program.rope_tables.at(params.table);
      expect(params.heads * params.head_dim == in(0).width && in(0).width == out(0).width, "shape");
      expect(2 * static_cast<int64_t>(table.inverse_frequency.size()) <= params.head_dim, "rotates past the head");
      break;
    }
    case OpKind::kv_store: {
      const KvLayer& kv = program.kv_layers.at(std::get<KvParams>(op.params).layer);
      expect(in(0).width == kv.heads * kv.k_dim && in(1).width == kv.heads * kv.v_dim, "shape");
      break;
    }
    case OpKind::attention: {
      const auto& params = std::get<AttentionParams>(op.params);
      const KvLayer& kv = program.kv_layers.at(params.layer);
      expect(params.heads % kv.heads == 0, "query heads are not a multiple of KV heads");
      expect(in(0).width == params.heads * kv.k_dim && out(0).width == params.heads * kv.v_dim, "shape");
      break;
    }
    case OpKind::swiglu:
    case OpKind::add:
      expect(in(0).width == in(1).width && in(0).width == out(0).width, "operands differ in width");
      break;
    case OpKind::permute: {
      const int64_t group = std::get<PermuteParams>(op.params).group;
      expect(group > 0 && in(0).width % group == 0 && weight(0).type == kOrderType, "the order");
      expect(out(0).width == in(0).width / group * weight(0).cols, "width");
      break;
    }
    case OpKind::gather: expect(!in(0).gathered && out(0).gathered && in(0).width == out(0).width, "shape"); break;
    case OpKind::route: {
      const auto& params = std::get<RouteParams>(op.params);
      expect(in(0).width == params.experts && params.used > 0 && params.used <= params.experts, "expert counts");
      expect(out(0).kind == ValueKind::i32 && out(0).width == params.used && out(1).width == params.used, "shape");
      break;
    }
    case OpKind::expert_linear: {
      const int64_t used = std::get<ExpertParams>(op.params).used;
      expect(in(0).width == weight(0).cols || in(0).width == used * weight(0).cols, "input width");
      expect(in(1).kind == ValueKind::i32 && in(1).width == used, "expert ids");
      expect(out(0).width == used * weight(0).rows, "output width");
      break;
    }
    case OpKind::expert_sum:
      expect(in(1).width == std::get<ExpertParams>(op.params).used && in(0).width == in(1).width * out(0).width,
             "shape");
      break;
    }
  }
  if (program.output >= 0) {
    if (!written.at(program.output)) throw std::logic_error("Program: its output is not written");
  } else if (program.logits < 0 || !written.at(program.logits) || program.values[program.logits].width != program.vocab)
    throw std::logic_error("Program: no logits of the vocabulary's width");
}

} // namespace ridge::core
