// What a plan is for people and for profiles: the ops of its steps, and its calls as a table.
#include "kernels/cuda/plan/batch_plan.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

std::string shortened(const std::string& text, size_t columns) {
  return text.size() > columns ? text.substr(0, columns - 3) + "..." : text;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string without_layer(const core::Op& op) {
  const std::string prefix = fmt::format("blk.{}.", op.layer);
  return op.name.starts_with(prefix) ? op.name.substr(prefix.size()) : op.name;
}

std::string ops_of(const KernelCall& call, const std::vector<std::string>& step_names) {
  std::vector<std::string> names;
  for (int32_t step = call.first_step; step <= call.step; ++step) names.push_back(step_names[step]);
  return join(names);
}

std::string format_of(const core::Program& program, core::WeightId id) {
  const quant::FormatInfo* format = quant::find_format(program.weights[id].type);
  return format ? std::string(format->name) : "-";
}

// Formats of the matrices, or of the table that an embedding reads.
std::string formats_of(const core::Program& program, const KernelCall& call) {
  std::vector<std::string> formats;
  for (const KernelCall::Product& product : call.products)
    formats.push_back(format_of(program, product.matrix.parts[0].weight));
  if (call.kernel == Kernel::op && call.op->kind == core::OpKind::embed)
    formats.push_back(format_of(program, call.op->weights[0]));
  return join(formats);
}

// Rows of all matrices x their columns.
std::string size_of(const core::Program& program, const KernelCall& call) {
  if (call.products.empty()) return "";
  int64_t rows = 0;
  for (const KernelCall::Product& product : call.products)
    for (const MatrixStep::Part& part : product.matrix.parts) rows += program.weights[part.weight].rows;
  return fmt::format("{} x {}", rows, program.weights[call.products[0].matrix.parts[0].weight].cols);
}

std::string flags_of(const KernelCall& call) {
  std::vector<std::string> flags;
  const auto flag = [&](bool set, std::string name) {
    if (set) flags.push_back(std::move(name));
  };
  const auto any = [&](auto&& has) { return std::ranges::any_of(call.products, has); };
  flag(call.tile_tokens > 0, fmt::format("tile={}", call.tile_tokens));
  flag(any([](const auto& p) { return p.matrix.norm != kNone; }), "norm");
  flag(any([](const auto& p) { return p.matrix.glu.has_value(); }), "gated");
  flag(any([](const auto& p) { return p.matrix.residual != kNone; }), "add");
  flag(call.layout == HalfLayout::tiles, "tiled");
  flag(call.wide, "wide");
  flag(call.gathers, "gathers");
  flag(call.left_free > 0, fmt::format("left-free={}", call.left_free));
  flag(call.writes_half, "writes-half");
  flag(call.reads_half, "reads-half");
  flag(call.leaves_sums, "leaves-sums");
  flag(call.kernel == Kernel::to_half && call.products.size() > 1, "adds-sums");
  flag(call.kernel == Kernel::prompt_product && call.op, "sums-over-ranks");
  flag(call.sibling_follows, "sibling-follows");
  flag(call.follows_sibling, "follows-sibling");
  flag(call.overlap, "overlap");
  flag(call.dataflow_input || any([](const auto& p) { return p.dataflow_input; }), "dataflow");
  return join(flags);
}

// Each kind of product once: the way that was chosen, and what each way was expected to take.
std::string ways_of(const core::Program& program, const Plan& plan, const BatchPlan& batch) {
  std::string text = fmt::format("\n{:<34} {:<9} {}\n", "products", "way", "expected, µs");
  std::vector<std::string> lines;
  for (const PlannedProducts& products : batch.products) {
    std::vector<std::string> ways;
    for (const Estimate& estimate : products.choice.estimates)
      ways.push_back(fmt::format("{} {:.1f}", name_of(estimate.way), estimate.microseconds));
    std::string line = fmt::format("{:<34} {:<9} {}\n", shortened(name_of_products(program, plan, products.steps), 34),
                                   name_of(products.choice.way), fmt::join(ways, ", "));
    if (std::ranges::count(lines, line) == 0) lines.push_back(std::move(line));
  }
  for (const std::string& line : lines) text += line;
  return text;
}

} // namespace

std::string_view name_of(Kernel kernel) {
  switch (kernel) {
  case Kernel::clear_dataflow: return "clear_dataflow";
  case Kernel::observe: return "observe";
  case Kernel::to_half: return "to_half";
  case Kernel::matvec: return "matvec";
  case Kernel::matvec_pair: return "matvec_pair";
  case Kernel::matvec_router: return "matvec_router";
  case Kernel::small_batch: return "small_batch";
  case Kernel::expert_batch: return "expert_batch";
  case Kernel::expert_dots: return "expert_dots";
  case Kernel::prompt_product: return "prompt_product";
  case Kernel::integer_product: return "integer_product";
  case Kernel::gemm: return "gemm";
  case Kernel::gate_up_glu: return "gate_up_glu";
  case Kernel::rope_store: return "rope_store";
  case Kernel::latent_store: return "latent_store";
  case Kernel::prompt_rope: return "prompt_rope";
  case Kernel::rope_attention: return "rope_attention";
  case Kernel::attention: return "attention";
  case Kernel::plain_attention: return "plain_attention";
  case Kernel::prompt_attention: return "prompt_attention";
  case Kernel::latent_attention: return "latent_attention";
  case Kernel::plain_latent_attention: return "plain_latent_attention";
  case Kernel::index_choice: return "index_choice";
  case Kernel::sort_experts: return "sort_experts";
  case Kernel::fetch_experts: return "fetch_experts";
  case Kernel::sum: return "sum";
  case Kernel::norm: return "norm";
  case Kernel::op: return "op";
  case Kernel::number_exchanges: return "number_exchanges";
  case Kernel::exchange: return "exchange";
  case Kernel::sample: return "sample";
  }
  return "";
}

std::vector<std::vector<int32_t>> ops_of_steps(const core::Program& program, const Plan& plan) {
  std::vector<int32_t> step_of_op(program.ops.size(), -1), step_of_value(program.values.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const core::ValueId id : plan.steps[i].outputs) step_of_value[id] = static_cast<int32_t>(i);
    step_of_op[plan.steps[i].op - program.ops.data()] = static_cast<int32_t>(i);
  }
  // From the end, so that the reader of an op's result is known before the op.
  for (size_t i = program.ops.size(); i-- > 0;) {
    const core::Op& op = program.ops[i];
    for (const core::ValueId id : op.outputs)
      if (step_of_op[i] < 0) step_of_op[i] = step_of_value[id];
    for (const core::ValueId id : op.inputs)
      if (step_of_value[id] < 0) step_of_value[id] = step_of_op[i];
  }
  std::vector<std::vector<int32_t>> ops(plan.steps.size());
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (step_of_op[i] >= 0) ops[step_of_op[i]].push_back(static_cast<int32_t>(i));
  return ops;
}

std::vector<std::string> names_of_steps(const core::Program& program, const Plan& plan) {
  std::vector<std::string> names;
  for (const std::vector<int32_t>& ops : ops_of_steps(program, plan)) {
    std::string name;
    for (const int32_t i : ops) {
      const core::Op& op = program.ops[i];
      name += name.empty() ? fmt::format("{}:", op.layer) : " ";
      name += without_layer(op);
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string name_of_products(const core::Program& program, const Plan& plan, std::span<const int32_t> steps) {
  std::vector<std::string> names;
  for (const int32_t step : steps)
    for (const MatrixStep::Part& part : plan.steps[step].matrix.parts) {
      const auto multiplies = [&](const core::Op& op) {
        return (op.kind == core::OpKind::linear || op.kind == core::OpKind::expert_linear) &&
               op.weights[0] == part.weight;
      };
      const auto op = std::ranges::find_if(program.ops, multiplies);
      if (op != program.ops.end()) names.push_back(without_layer(*op));
    }
  return join(names);
}

std::string describe(const core::Program& program, const Plan& plan, const BatchPlan& batch) {
  const std::vector<std::string> step_names = names_of_steps(program, plan);
  std::string text =
      fmt::format("plan of {} calls for {} token{}, {} wanted\n{:>4}  {:<16} {:<34} {:<12} {:>6} {:>15}  {}\n",
                  batch.calls.size(), batch.shape.tokens, batch.shape.tokens == 1 ? "" : "s", batch.shape.outputs,
                  "call", "kernel", "ops", "format", "tokens", "rows x cols", "flags");
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    const KernelCall& call = batch.calls[i];
    const bool whole_batch = call.kernel == Kernel::clear_dataflow || call.kernel == Kernel::sample;
    text +=
        fmt::format("{:>4}  {:<16} {:<34} {:<12} {:>6} {:>15}  {}\n", i, name_of(call.kernel),
                    whole_batch ? "" : shortened(ops_of(call, step_names), 34), formats_of(program, call),
                    whole_batch ? std::string() : fmt::to_string(call.rows), size_of(program, call), flags_of(call));
  }
  return text + ways_of(program, plan, batch);
}

} // namespace ridge::kernels::cuda
