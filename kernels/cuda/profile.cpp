// Where a step's time goes: the steps' kernels in one graph as always, with an event between each and the next.
#include "kernels/cuda/profile.h"

#include "kernels/cuda/executor_impl.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::kernels::cuda {

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
      const std::string prefix = fmt::format("blk.{}.", op.layer);
      name += name.empty() ? fmt::format("{}:", op.layer) : " ";
      name += op.name.starts_with(prefix) ? op.name.substr(prefix.size()) : op.name;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<core::OpTime> Executor::profile(const core::Batch& batch, int repetitions) {
  forward(batch);
  const Shape shape{std::ssize(batch.tokens), std::ssize(batch.outputs), 1, false,
                    apart(batch.streams, std::ssize(batch.tokens))};
  if (shape.outputs == 0) throw std::logic_error("CUDA: a profile needs an output");
  launch_all(shape); // once outside the graph, where Nsight sees its ranges

  std::vector<cudaEvent_t> events(plan_.steps.size() + 1);
  for (cudaEvent_t& event : events) RIDGE_CUDA(cudaEventCreate(&event));
  Graph graph;
  cudaGraph_t captured = nullptr;
  RIDGE_CUDA(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
  const auto mark = [&](size_t i) {
    RIDGE_CUDA(cudaEventRecordWithFlags(events[i], stream_.handle, cudaEventRecordExternal));
  };
  const bool overlap = std::exchange(launch_.overlap, false); // an event between two kernels holds them apart anyway
  mark(0);
  after_step_ = [&](size_t i) { mark(i + 1); };
  launch_all(shape);
  after_step_ = nullptr;
  launch_.overlap = overlap;
  RIDGE_CUDA(cudaStreamEndCapture(stream_.handle, &captured));
  const cudaError_t status = cudaGraphInstantiate(&graph.handle, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiate");

  std::vector<core::OpTime> times;
  for (std::vector<int32_t>& ops : ops_of_steps(program_, plan_)) times.push_back({std::move(ops), 0});
  for (int run = -1; run < repetitions; ++run) { // the first one warms up
    RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream_.handle));
    RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
    for (size_t i = 0; i < times.size() && run >= 0; ++i) {
      float milliseconds = 0;
      RIDGE_CUDA(cudaEventElapsedTime(&milliseconds, events[i], events[i + 1]));
      times[i].seconds += milliseconds * 1e-3 / repetitions;
    }
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  return times;
}

} // namespace ridge::kernels::cuda
