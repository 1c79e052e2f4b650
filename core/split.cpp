#include "core/split.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

namespace ridge::core {
namespace {

Program part_of(const Program& whole, std::vector<Op> ops) {
  Program part;
  part.architecture = whole.architecture;
  part.label = whole.label;
  part.vocab = whole.vocab;
  part.trained_context = whole.trained_context;
  part.values = whole.values;
  part.rope_tables = whole.rope_tables;
  part.adapters = whole.adapters;
  part.has_token_coordinates = whole.has_token_coordinates;
  part.row_width = whole.row_width;
  part.ops = std::move(ops);
  std::vector<WeightId> weight_of(whole.weights.size(), -1);
  std::vector<int32_t> cache_of(whole.kv_layers.size(), -1), state_of(whole.states.size(), -1);
  const auto kept = [](auto& id, auto& map, const auto& from, auto& to) {
    if (map[id] < 0) {
      map[id] = static_cast<int32_t>(to.size());
      to.push_back(from[id]);
    }
    id = map[id];
  };
  for (Op& op : part.ops) {
    for (WeightId& id : op.weights) kept(id, weight_of, whole.weights, part.weights);
    for (int32_t* layer : {cache_layer(op.params), second_cache_layer(op.params)})
      if (layer) kept(*layer, cache_of, whole.kv_layers, part.kv_layers);
    if (int32_t* state = state_layer(op.params)) kept(*state, state_of, whole.states, part.states);
  }
  return part;
}

// Finds ops before the layers whose results `ops` need.
std::vector<Op> needed_before_layers(const Program& program, std::span<const Op> ops) {
  std::set<ValueId> wanted;
  for (const Op& op : ops) wanted.insert(op.inputs.begin(), op.inputs.end());
  std::vector<Op> needed;
  const auto layered = std::ranges::find_if(program.ops, [](const Op& op) { return op.layer >= 0; });
  for (auto op = layered; op != program.ops.begin();) {
    --op;
    if (std::ranges::none_of(op->outputs, [&](ValueId id) { return wanted.contains(id); })) continue;
    wanted.insert(op->inputs.begin(), op->inputs.end());
    needed.insert(needed.begin(), *op);
  }
  return needed;
}

} // namespace

int32_t layer_count(const Program& program) {
  int32_t count = 0;
  for (const Op& op : program.ops) count = std::max(count, op.layer + 1);
  return count;
}

int32_t next_cut(const Program& program, int32_t layer) {
  struct Span {
    int32_t first = std::numeric_limits<int32_t>::max(), last = 0; // layers
    void add(int32_t at) { first = std::min(first, at), last = std::max(last, at); }
  };
  std::vector<Span> together(program.kv_layers.size() + program.values.size());
  std::vector<int32_t> made(program.values.size(), -1);
  for (int32_t reached = -1; const Op& op : program.ops) {
    OpParams params = op.params;
    for (const int32_t* cache : {cache_layer(params), second_cache_layer(params)})
      if (cache) together[*cache].add(op.layer);
    reached = std::max(reached, op.layer);
    const int32_t at = op.layer < 0 && reached >= 0 ? reached + 1 : op.layer;
    for (const ValueId id : op.outputs) made[id] = at;
    for (const auto* ids : {&op.inputs, &op.outputs})
      for (const ValueId id : *ids) {
        Span& span = together[program.kv_layers.size() + id];
        if (program.values[id].kind == ValueKind::i32)
          span.add(op.layer);
        else if (made[id] >= 0 && at > made[id] + 1) // crosses a layer beside the residual stream
          span.add(made[id] + 1), span.add(at);
      }
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (const Span& span : together)
      if (span.first < layer && layer <= span.last) layer = span.last + 1, moved = true;
  }
  return layer;
}

SplitProgram split_program(const Program& program, int32_t layer) {
  const int32_t layers = layer_count(program);
  if (layer < 1 || layer > layers || next_cut(program, layer) != layer)
    throw std::logic_error("Program: no such place to split");
  // Back begins with the first op of `layer`; the output begins after the last layer.
  const auto is_back = [&](const Op& op) { return op.layer == layer; };
  auto cut = std::ranges::find_if(program.ops, is_back);
  if (layer == layers)
    cut = std::ranges::find_if(program.ops.rbegin(), program.ops.rend(), [&](const Op& op) {
            return op.layer == layers - 1;
          }).base();
  std::vector<Op> back = needed_before_layers(program, {cut, program.ops.end()});
  back.insert(back.end(), cut, program.ops.end());
  SplitProgram parts = {part_of(program, {program.ops.begin(), cut}), part_of(program, std::move(back))};

  std::set<ValueId> crossing, computed;
  for (const Op& op : parts.back.ops) {
    crossing.insert(op.inputs.begin(), op.inputs.end());
    computed.insert(op.outputs.begin(), op.outputs.end());
  }
  for (const ValueId id : computed) crossing.erase(id);
  if (crossing.size() != 1 || program.values[*crossing.begin()].kind != ValueKind::f32)
    throw std::logic_error(
        fmt::format("Program: {} values cross into layer {}, expected the residual stream", crossing.size(), layer));
  parts.front.output = parts.back.input = *crossing.begin();
  parts.front.input = program.input;
  parts.back.logits = program.logits;
  (computed.contains(program.hidden) ? parts.back : parts.front).hidden = program.hidden;
  parts.back.output = program.output;
  parts.back.embeds = program.embeds;
  validate(parts.front);
  validate(parts.back);
  return parts;
}

namespace {

// Gives the first stage an equal share and leaves layers for the others.
int32_t first_stage_end(const Program& program, int stages) {
  const int32_t last = layer_count(program) + 2 - stages;
  if (last < 1) throw Error(fmt::format("{} stages, and no more layers for them", stages), Error::kUsage);
  const double share = program_cost(program, {}).weight_bytes / stages;
  double bytes = 0;
  int32_t layer = 0;
  for (const Op& op : program.ops) {
    if (op.layer > layer && bytes >= share) break;
    layer = std::max(layer, op.layer);
    bytes += op_cost(program, op, {}).weight_bytes;
  }
  const int32_t cut = next_cut(program, std::clamp(layer + 1, 1, last));
  if (cut > layer_count(program))
    throw Error("a model whose draft head takes rows of several layers cannot be cut into stages: --spec off",
                Error::kUsage);
  return cut;
}

} // namespace

ExecutorConfig config_of_part(const Program& part, ExecutorConfig config) {
  if (part.output >= 0 && !part.values[part.output].gathered)
    config.max_outputs = std::max(config.max_outputs, config.max_batch);
  return config;
}

std::vector<Program> pipeline_parts(const Program& program, int stages) {
  std::vector<Program> parts;
  Program rest = program;
  for (; stages > 1; --stages) {
    SplitProgram split = split_program(rest, first_stage_end(rest, stages));
    parts.push_back(std::move(split.front));
    rest = std::move(split.back);
  }
  parts.push_back(std::move(rest));
  return parts;
}

} // namespace ridge::core
