#include "app/window/step_roofline.h"

#include "core/error.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

using api::StepRoofline;
using core::OpKind;

// "256 → 768, Q6_K", "8 heads of 32 over 100 tokens", "256 wide"
std::string shape_of(const core::Program& program, const core::Op& op, int64_t past) {
  if (op.kind == OpKind::attention) {
    const auto& params = std::get<core::AttentionParams>(op.params);
    const core::KvLayer& kv = program.kv_layers[params.layer];
    return fmt::format("{} heads ({} of keys) of {} over {} tokens", params.heads, kv.heads, kv.k_dim, past + 1);
  }
  if (op.kind == OpKind::linear || op.kind == OpKind::expert_linear || op.kind == OpKind::embed) {
    const core::Weight& w = program.weights[op.weights[0]];
    const quant::FormatInfo* format = quant::find_format(w.type);
    return fmt::format("{} → {}{}, {}", w.cols, w.rows, w.count > 1 ? fmt::format(", {} experts", w.count) : "",
                       format ? format->name : "?");
  }
  return fmt::format("{} wide", program.values[op.outputs.empty() ? op.inputs[0] : op.outputs[0]].width);
}

void add_roof(StepRoofline::Op& op, const measure::RooflineReport& roofs) {
  const char* const group = op.op_class == core::OpClass::matrix      ? "matvec"
                            : op.op_class == core::OpClass::attention ? "attention"
                                                                      : "vector";
  measure::RooflinePoint point{group, "", op.count, 0, op.bytes, op.flops};
  op.floor_seconds = roofs.floor_seconds(point);
  point.seconds = op.seconds > 0 ? op.seconds : op.floor_seconds;
  op.bound_by = roofs.bound_by(point);
}

// Merges ops of the same name and shape across layers.
StepRoofline::Op& line_of(StepRoofline& step, const std::string& name, const std::string& shape, const core::Op& op) {
  for (StepRoofline::Op& line : step.ops)
    if (line.name == name && line.shape == shape) return line;
  return step.ops.emplace_back(
      StepRoofline::Op{name, std::string(core::name_of(op.kind)), core::class_of(op.kind), shape});
}

// Changes only what op_cost reads.
core::Program repacked(core::Program program, const quant::FormatInfo& format) {
  for (core::Weight& weight : program.weights) {
    if (weight.rows == 1 || weight.type == core::kOrderType || weight.cols % format.block_weights != 0) continue;
    weight.type = static_cast<uint32_t>(format.type);
    weight.row_bytes = format.row_bytes(weight.cols);
  }
  return program;
}

} // namespace

api::Roofs describe_roofs(const measure::RooflineReport& report) {
  api::Roofs roofs{report.device,
                   report.ceilings,
                   report.read(),
                   report.peak(),
                   report.peak() / report.read(),
                   report.peak_name(),
                   {}};
  for (const quant::FormatInfo& format : quant::formats()) roofs.formats.emplace_back(format.name);
  return roofs;
}

StepRoofline predicted_step(const engine::LoadedModel& model, const measure::RooflineReport& roofs, int64_t past,
                            int64_t streams, const std::string& format) {
  const quant::FormatInfo* packed = format.empty() ? nullptr : quant::find_format(std::string_view(format));
  if (!format.empty() && !packed) throw_error("unknown format '{}'", format);
  const core::Program program = packed ? repacked(model.program, *packed) : model.program;
  const core::ExecutorConfig& config = model.executor->config();
  const core::Step tokens{
      streams, past, streams, streams, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};
  StepRoofline step{past, streams, format, {}, 0};
  for (const core::Op& op : program.ops) {
    const core::Cost cost = core::op_cost(program, op, tokens);
    StepRoofline::Op& line = line_of(step, measure::name_without_layer(op), shape_of(program, op, past), op);
    ++line.count;
    line.bytes += cost.bytes();
    line.flops += cost.flops;
  }
  for (StepRoofline::Op& op : step.ops) add_roof(op, roofs);
  return step;
}

StepRoofline measured_step(const engine::LoadedModel& model, const measure::StepProfile& profile,
                           const measure::RooflineReport* roofs) {
  StepRoofline step{profile.position, 1, "", {}, profile.step_seconds};
  for (const measure::OpProfile& op : profile.ops) {
    const core::Op& first = model.program.ops[op.ops.at(0)];
    StepRoofline::Op& line = line_of(step, op.name, shape_of(model.program, first, profile.position), first);
    ++line.count;
    line.bytes += op.bytes;
    line.flops += op.flops;
    line.seconds += op.seconds;
  }
  if (roofs)
    for (StepRoofline::Op& op : step.ops) add_roof(op, *roofs);
  return step;
}

} // namespace ridge::app
