// What a layer's matrices see.
#include "convert/attention_shares.h"
#include "convert/calibrated_layer.h"
#include "convert/tuning/products.h"

#include <algorithm>
#include <cmath>

namespace ridge::convert {

using core::OpKind;
using core::ValueId;

// Inputs of keys and values count once for the token itself and by the attention that it receives. Without, feedback
// trades errors of the few tokens that all others attend to for those of all others.
void CalibratedQuantizer::Layer::weigh_tokens() {
  const auto run_to_value = [&](ValueId value, const auto& each) {
    run_to(static_cast<size_t>(writer_of(value) - program.ops.data()) + 1, value)(owner.hidden_, each);
  };
  for (const core::Op& op : program.ops) {
    const auto* params = std::get_if<core::AttentionParams>(&op.params);
    if (op.kind != OpKind::attention || params->reach > 0) continue;
    const auto store = std::ranges::find_if(program.ops, [&](const core::Op& other) {
      return other.kind == OpKind::kv_store && std::get<core::KvParams>(other.params).layer == params->layer;
    });
    if (store == program.ops.end()) continue; // an earlier layer's keys
    const core::KvLayer& kv = program.kv_layers[params->layer];
    std::vector<float> sinks(op.weights.empty() ? 0 : static_cast<size_t>(params->heads));
    if (!sinks.empty()) source_of(op.weights[0])->decode(0, 1, sinks.data());
    std::vector<float> keys, factors(static_cast<size_t>(owner.text_.tokens()), 1.0f);
    run_to_value(store->inputs[0],
                 [&](int64_t, std::span<const float> k) { keys.insert(keys.end(), k.begin(), k.end()); });
    run_to_value(op.inputs[0], [&](int64_t first, std::span<const float> q) {
      const int64_t count = owner.text_.chunk_tokens(), width = kv.heads * kv.k_dim;
      add_attention_shares(*params, kv, q, std::span(keys).subspan(first * width, count * width), sinks,
                           std::span(factors).subspan(first, count));
    });
    for (float& factor : factors) factor = std::sqrt(factor);
    for (ValueId value : store->inputs) {
      const core::Op* matrix = writer_of(value);
      while (matrix && !is_matrix(*matrix)) matrix = matrix->inputs.empty() ? nullptr : writer_of(matrix->inputs[0]);
      for (Group& group : groups)
        if (matrix && program.ops[group.ops[0]].inputs[0] == matrix->inputs[0]) group.token_factors = factors;
    }
  }
}

void CalibratedQuantizer::Layer::Group::weigh(std::span<float> rows, int64_t first, int64_t width) const {
  if (token_factors.empty()) return;
  for (int64_t i = 0; i < std::ssize(rows); ++i) rows[i] *= token_factors[first + i / width];
}

void CalibratedQuantizer::Layer::run_inputs(const Group& group,
                                            const std::function<void(std::span<const float>)>& each) {
  const ValueId input = program.ops[group.ops[0]].inputs[0];
  std::vector<float> scaled;
  const auto give = [&](int64_t first, std::span<const float> rows) {
    if (group.token_factors.empty()) return each(rows);
    scaled.assign(rows.begin(), rows.end());
    group.weigh(scaled, first, program.values[input].width);
    each(scaled);
  };
  if (input == program.input) return give(0, owner.hidden_);
  run_to(group.ops[0], input)(owner.hidden_, give);
}

// A value by chunks of the text, in a form of the layer.
struct CalibratedQuantizer::Layer::Values {
  Values(const Layer& layer, const core::Program& of, ValueId value)
      : input(&of == &layer.original ? layer.owner.original_ : layer.owner.hidden_),
        chunks(std::ssize(layer.owner.text_.chunks)) {
    if (value == of.input) return;
    core::Program part = of;
    part.ops.resize(static_cast<size_t>(layer.writer_of(value) - layer.program.ops.data()) + 1);
    part.output = value;
    run.emplace(std::move(part), layer.owner.text_, layer.owner.make_executor_, layer.owner.threads_);
  }
  std::span<const float> operator[](int64_t chunk) {
    if (run) return run->chunk(static_cast<size_t>(chunk), input);
    const size_t count = input.size() / static_cast<size_t>(chunks);
    return std::span(input).subspan(static_cast<size_t>(chunk) * count, count);
  }

  const std::vector<float>& input;
  int64_t chunks;
  std::optional<LayerRun> run;
};

// What the group's output is added to, if nothing else reads it.
std::optional<ValueId> CalibratedQuantizer::Layer::joined_stream(const Group& group) const {
  if (group.ops.size() > 1) return std::nullopt;
  const core::Op& matrix = program.ops[group.ops[0]];
  const ValueId value = matrix.outputs[0];
  if (slices.at(matrix.weights[0]).copied || source_of(matrix.weights[0])->rows() != program.values[value].width)
    return std::nullopt;
  const core::Op* add = nullptr;
  for (const core::Op& op : program.ops) {
    if (std::ranges::find(op.inputs, value) == op.inputs.end()) continue;
    if (add || op.kind != OpKind::add || std::get<core::AddParams>(op.params).scale != 1.0f) return std::nullopt;
    add = &op;
  }
  if (!add) return std::nullopt;
  return add->inputs[0] == value ? add->inputs[1] : add->inputs[0];
}

CalibratedQuantizer::Layer::HeldBack CalibratedQuantizer::Layer::add_originals(const Group& group,
                                                                               quant::Hessian& hessian) const {
  const ValueId input = program.ops[group.ops[0]].inputs[0];
  const std::optional<ValueId> stream = joined_stream(group);
  Values ours(*this, program, input), theirs(*this, original, input);
  std::optional<Values> our_stream, their_stream;
  if (stream) our_stream.emplace(*this, program, *stream), their_stream.emplace(*this, original, *stream);
  const int64_t tokens = owner.text_.chunk_tokens();
  std::vector<float> inputs, originals, ahead, behind;
  HeldBack held;
  for (int64_t chunk = 0; chunk < ours.chunks; ++chunk) {
    const auto weighted = [&](std::vector<float>& out, std::span<const float> rows) {
      out.assign(rows.begin(), rows.end());
      group.weigh(out, chunk * tokens, std::ssize(rows) / tokens);
    };
    weighted(inputs, ours[chunk]);
    weighted(originals, theirs[chunk]);
    if (stream) {
      weighted(ahead, (*their_stream)[chunk]);
      weighted(behind, (*our_stream)[chunk]);
      for (size_t i = 0; i < ahead.size(); ++i) ahead[i] -= behind[i];
    }
    if (chunk + 1 < ours.chunks) {
      hessian.add_originals(inputs, originals, ahead);
      continue;
    }
    for (size_t i = 0; i < inputs.size(); ++i) originals[i] -= inputs[i];
    held = {inputs, originals, ahead};
  }
  return held;
}

// The best share of the change for the rows held back, none to all.
std::vector<float> CalibratedQuantizer::Layer::HeldBack::targets(quant::Hessian& hessian, const Rows& rows) const {
  std::vector<float> result = hessian.targets(rows.weights, rows.rows);
  const int64_t cols = rows.cols, tokens = std::ssize(inputs) / cols;
  for (int64_t i = 0; i < std::ssize(result); ++i) result[i] -= rows.weights[i];
  std::vector<float> wanted = ahead, got(static_cast<size_t>(tokens * rows.rows));
  wanted.resize(got.size());
  tuning::add_product(tokens, rows.rows, cols, {change.data(), cols, 1}, {rows.weights, 1, cols}, wanted.data());
  tuning::add_product(tokens, rows.rows, cols, {inputs.data(), cols, 1}, {result.data(), 1, cols}, got.data());
  double along = 0, square = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    along += static_cast<double>(got[i]) * wanted[i];
    square += static_cast<double>(got[i]) * got[i];
  }
  const auto share = static_cast<float>(square > 0 ? std::clamp(along / square, 0.0, 1.0) : 0.0);
  for (int64_t i = 0; i < std::ssize(result); ++i) result[i] = rows.weights[i] + share * result[i];
  return result;
}

// Whether the tensor holds one matrix after the other, as three dimensions or as rows.
bool CalibratedQuantizer::Layer::has_matrices(core::WeightId experts) const {
  const core::Weight& weight = program.weights[experts];
  const WeightSource& source = *source_of(experts);
  return source.matrices() == weight.count ||
         (source.matrices() == 1 && source.rows() == weight.count * weight.rows && !slices.at(experts).copied);
}

// All experts of a group have the same inputs.
void CalibratedQuantizer::Layer::make_expert_hessians(const Group& group, std::optional<ExpertHessians>& made) const {
  const auto first =
      std::ranges::find_if(group.ops, [&](size_t i) { return program.ops[i].kind == OpKind::expert_linear; });
  const core::Op& op = program.ops[*first];
  const core::Weight& weight = program.weights[op.weights[0]];
  const int64_t slots = program.values[op.outputs[0]].width / weight.rows;
  made.emplace(op.weights[0], weight.count, weight.cols, owner.text_.tokens() * slots, owner.make_hessian_,
               [this, at = *first](core::InputObserver& observer, const std::function<void()>& after_chunk) {
                 run_to(at + 1, program.ops[at].outputs[0], false,
                        &observer)(owner.hidden_, [&](int64_t, std::span<const float>) { after_chunk(); });
               });
}

} // namespace ridge::convert
