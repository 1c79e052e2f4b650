// Where a step's time goes: its graph as always, whose kernels now write when their blocks start, wait and end.
#include "kernels/cuda/executor/profile.h"

#include "kernels/cuda/executor/executor_impl.h"

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
                    distinct_streams(batch.streams, std::ssize(batch.tokens))};
  if (shape.outputs == 0) throw std::logic_error("CUDA: a profile needs an output");
  struct Logging { // of all launches, as long as it lives
    Launch& launch;
    LaunchLog log;
    explicit Logging(Launch& launch) : launch(launch) { launch.log = &log; }
    ~Logging() { launch.log = nullptr; }
    Logging(const Logging&) = delete;
  } logging(launch_);
  LaunchLog& log = logging.log;
  launch_all(shape); // once outside the graph, where Nsight sees its ranges: this counts the blocks
  std::vector<Stamp> stamps(log.blocks * kStampPlaces);
  const DeviceMemory written(stamps.size() * sizeof(Stamp), "a profile");
  log = {};
  log.stamps = written.as<Stamp>();
  Graph graph;
  capture(shape, graph);

  const std::vector<std::vector<int32_t>> ops = ops_of_steps(program_, plan_);
  std::vector<core::OpTime> times;
  for (int run = -1; run < repetitions; ++run) { // the first one warms up
    RIDGE_CUDA(cudaMemsetAsync(written.as(), 0, written.bytes(), stream_.handle));
    RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream_.handle));
    RIDGE_CUDA(cudaMemcpyAsync(stamps.data(), written.as(), written.bytes(), cudaMemcpyDeviceToHost, stream_.handle));
    RIDGE_CUDA(cudaStreamSynchronize(stream_.handle));
    if (run < 0) continue;
    size_t step = 0, part = 0;
    for (const StepsTime& of : times_of_steps(log, stamps, plan_.steps.size())) {
      if (run == 0) times.emplace_back();
      core::OpTime& time = times[part++];
      for (; run == 0 && step < of.end_step; ++step)
        time.ops.insert(time.ops.end(), ops[step].begin(), ops[step].end());
      time.seconds += of.seconds / repetitions;
      time.waiting += of.waiting / repetitions;
      time.starts += of.starts / repetitions;
      time.ends_apart += of.ends_apart / repetitions;
    }
  }
  return times;
}

} // namespace ridge::kernels::cuda
