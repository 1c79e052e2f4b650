// LoRA adapters for random Programs.
#pragma once

#include "support/random_program.h"

#include <functional>
#include <utility>
#include <vector>

namespace ridge::tests {

// Adds adapters of these ranks, by turns with scales 0.7 and -0.4, to every product of `adapts`, joined in one A and B.
inline void add_adapters(
    RandomProgram& model, const std::vector<int64_t>& ranks, quant::Type type,
    const std::function<bool(const core::Op&)>& adapts = [](const core::Op&) { return true; }) {
  core::Program& program = model.program;
  std::vector<int32_t> adapter_of;
  for (size_t i = 0; i < ranks.size(); ++i) {
    program.adapters.push_back({"adapter", "adapter.gguf", i, i % 2 ? -0.4f : 0.7f});
    adapter_of.insert(adapter_of.end(), ranks[i], static_cast<int32_t>(i));
  }
  const int64_t rank = std::ssize(adapter_of);
  for (core::Op op : std::exchange(program.ops, {})) {
    if (op.kind != core::OpKind::linear || !adapts(op)) {
      program.ops.push_back(std::move(op));
      continue;
    }
    const core::ValueId x = op.inputs[0], out = op.outputs[0];
    const bool gathered = program.values[out].gathered;
    const int64_t rows = program.values[out].width;
    const core::ValueId plain = op.outputs[0] = model.value(rows, gathered);
    model.layer = op.layer;
    program.ops.push_back(std::move(op));
    const core::ValueId small = model.linear(x, type, rank);
    const core::ValueId scaled =
        model.op(core::OpKind::adapter_scale, {small}, {model.factors(rank, 0.5, 2), model.integers(adapter_of)}, rank);
    const core::ValueId change = model.linear(scaled, type, rows);
    program.ops.push_back({core::OpKind::add, model.layer, "lora", {plain, change}, {out}, {}, core::AddParams{}});
  }
  validate(program);
}

} // namespace ridge::tests
