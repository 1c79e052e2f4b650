// Plans as text for people and profiles.
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

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

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

std::string formats_of(const core::Program& program, const KernelCall& call) {
  std::vector<std::string> formats;
  for (const MatrixStep* m : matrices_of(call)) formats.push_back(format_of(program, m->parts[0].weight));
  if (const auto* plain = call.get<PlainOp>(); plain && plain->op->kind == core::OpKind::embed)
    formats.push_back(format_of(program, plain->op->weights[0]));
  return join(formats);
}

std::string size_of(const core::Program& program, const KernelCall& call) {
  const std::vector<const MatrixStep*> matrices = matrices_of(call);
  if (matrices.empty()) return "";
  int64_t rows = 0;
  for (const MatrixStep* m : matrices)
    for (const MatrixStep::Part& part : m->parts) rows += program.weights[part.weight].rows;
  return fmt::format("{} x {}", rows, program.weights[matrices[0]->parts[0].weight].cols);
}

std::string rows_of(const KernelCall& call) {
  return std::visit(
      [](const auto& work) {
        if constexpr (requires { work.rows; }) return fmt::to_string(work.rows);
        if constexpr (requires { work.attention; }) return fmt::to_string(work.attention.rows);
        return std::string();
      },
      call.work);
}

// A product's blocks, warps and ranges of columns.
template <typename Cut>
std::string text_of(const Cut& cut) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, int64_t n) { parts.push_back(fmt::format("{}={}", name, n)); };
  if constexpr (requires { cut.first_blocks; }) add("first-blocks", cut.first_blocks);
  if constexpr (requires { cut.blocks; }) add("blocks", cut.blocks);
  if constexpr (requires { cut.warps; }) add("warps", cut.warps);
  if constexpr (requires { cut.shares; }) {
    add("ranges", cut.ranges);
    if (cut.warp_groups > 0) add("shares", cut.shares); // batch.cuh
  }
  if constexpr (requires { cut.team; }) add("warps-per-tile", cut.team);
  return join(parts);
}
template <typename... Cuts>
std::string text_of(const std::variant<Cuts...>& cut) {
  return std::visit([](const auto& of) { return text_of(of); }, cut);
}

std::string flags_of(const KernelCall& call) {
  std::vector<std::string> flags;
  const auto flag = [&](bool set, std::string name) {
    if (set) flags.push_back(std::move(name));
  };
  const std::vector<const MatrixStep*> matrices = matrices_of(call);
  const auto any = [&](auto&& has) { return std::ranges::any_of(matrices, has); };
  const auto of_work = [&](const auto& work) {
    if constexpr (requires { work.tile_tokens; }) flag(true, fmt::format("tile={}", work.tile_tokens));
    if constexpr (requires { work.cut; }) flag(true, text_of(work.cut));
    flag(any([](const MatrixStep* m) { return m->norm != kNone; }), "norm");
    flag(any([](const MatrixStep* m) { return m->glu.has_value(); }), "gated");
    flag(any([](const MatrixStep* m) { return m->residual != kNone; }), "add");
    flag(any([](const MatrixStep* m) { return m->has_changes(); }), "adapted");
    if constexpr (requires { work.layout; }) flag(work.layout == HalfLayout::tiles, "tiled");
    if constexpr (requires { work.half; }) flag(work.half == HalfLayout::tiles, "tiled");
    if constexpr (requires { work.wide; }) flag(work.wide, "wide");
    flag(call.writes_gathered, "gathers");
    if constexpr (requires { work.free_multiprocessors; })
      flag(work.free_multiprocessors > 0, fmt::format("left-free={}", work.free_multiprocessors));
    if constexpr (requires { work.half; }) flag(work.half.has_value(), "writes-half");
    if constexpr (requires { work.attention; }) flag(work.attention.half.has_value(), "writes-half");
    if constexpr (requires { work.writes_half; }) {
      flag(work.writes_half, "writes-half");
      flag(work.reads_half, "reads-half");
    }
    if constexpr (requires { work.sibling_follows; }) {
      flag(work.leaves_sums, "leaves-sums");
      flag(work.sibling_follows, "sibling-follows");
      flag(work.follows_sibling, "follows-sibling");
    }
    if constexpr (requires { work.sums; }) flag(work.sums.has_value(), "adds-sums");
    if constexpr (requires { work.sum->index_in_step; }) flag(work.sum.has_value(), "sums-over-ranks");
  };
  std::visit(of_work, call.work);
  flag(call.overlap, "overlap");
  flag(has_dataflow_input(call), "dataflow");
  return join(flags);
}

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

std::vector<const MatrixStep*> matrices_of(const KernelCall& call) {
  std::vector<const MatrixStep*> matrices;
  const auto add = [&](const auto& work) {
    if constexpr (requires { work.product; }) matrices.push_back(&work.product.matrix);
    if constexpr (requires { work.matrix; }) matrices.push_back(&work.matrix);
    if constexpr (requires { work.router; }) matrices.push_back(&work.router);
    if constexpr (requires { work.second; }) matrices.insert(matrices.end(), {&work.first.matrix, &work.second.matrix});
    if constexpr (requires { work.products; })
      for (const Product& product : work.products) matrices.push_back(&product.matrix);
    if constexpr (requires { work.sums; })
      if (work.sums) matrices.push_back(&work.sums->product.matrix);
  };
  std::visit(add, call.work);
  return matrices;
}

bool has_dataflow_input(const KernelCall& call) {
  return std::visit(
      [](const auto& work) {
        if constexpr (requires { work.dataflow_input; }) return work.dataflow_input;
        if constexpr (requires { work.product; }) return work.product.dataflow_input;
        if constexpr (requires { work.second; }) return work.first.dataflow_input || work.second.dataflow_input;
        if constexpr (requires { work.rope; }) return work.rope.dataflow_input;
        return false;
      },
      call.work);
}

std::vector<std::vector<int32_t>> ops_of_steps(const core::Program& program, const Plan& plan) {
  std::vector<int32_t> step_of_op(program.ops.size(), -1), step_of_value(program.values.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const core::ValueId id : plan.steps[i].outputs) step_of_value[id] = static_cast<int32_t>(i);
    step_of_op[plan.steps[i].op - program.ops.data()] = static_cast<int32_t>(i);
  }
  // In reverse: readers are known before ops.
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
    for (const MatrixStep::Part& part : plan.steps[step].matrix()->parts) {
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
    const bool whole_batch = call.get<ClearDataflow>() || call.get<NumberExchanges>() || call.get<Sample>();
    text += fmt::format("{:>4}  {:<16} {:<34} {:<12} {:>6} {:>15}  {}\n", i, call.name(),
                        whole_batch ? "" : shortened(ops_of(call, step_names), 34), formats_of(program, call),
                        rows_of(call), size_of(program, call), flags_of(call));
  }
  return text + ways_of(program, plan, batch);
}

} // namespace ridge::kernels::cuda
