#include "kernels/cuda/executor/profile.h"

namespace ridge::kernels::cuda {

std::vector<core::OpTime> profile_graph(const core::Program& program, const Plan& plan, const Graph& graph,
                                        const LaunchLog& log, const DeviceMemory& memory, cudaStream_t stream,
                                        int repetitions) {
  std::vector<Stamp> stamps(static_cast<size_t>(memory.bytes()) / sizeof(Stamp));
  const std::vector<std::vector<int32_t>> ops = ops_of_steps(program, plan);
  std::vector<core::OpTime> times;
  for (int run = -1; run < repetitions; ++run) { // warm-up
    RIDGE_CUDA(cudaMemsetAsync(memory.as(), 0, memory.bytes(), stream));
    RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream));
    RIDGE_CUDA(cudaMemcpyAsync(stamps.data(), memory.as(), memory.bytes(), cudaMemcpyDeviceToHost, stream));
    RIDGE_CUDA(cudaStreamSynchronize(stream));
    if (run < 0) continue;
    size_t step = 0, part = 0;
    for (const StepsTime& of : times_of_steps(log, stamps, plan.steps.size())) {
      if (run == 0) times.emplace_back();
      core::OpTime& time = times[part++];
      for (; run == 0 && step < of.end_step; ++step)
        time.ops.insert(time.ops.end(), ops[step].begin(), ops[step].end());
      time.seconds += of.seconds / repetitions;
      time.waiting += of.waiting / repetitions;
      time.start_delay += of.start_delay / repetitions;
      time.end_spread += of.end_spread / repetitions;
    }
  }
  return times;
}

std::vector<core::OpTime> profile_calls(const core::Program& program, const Plan& plan, const BatchPlan& batch,
                                        cudaStream_t stream, int repetitions,
                                        const std::function<void(const KernelCall&)>& launch) {
  const std::vector<std::vector<int32_t>> ops = ops_of_steps(program, plan);
  const size_t count = batch.calls.size();
  std::vector<core::OpTime> times(count);
  int32_t step = 0;
  for (size_t i = 0; i < count; ++i) {
    const KernelCall& call = batch.calls[i];
    const bool prepares = i + 1 < count && batch.calls[i + 1].first_step <= call.step;
    for (int32_t of = step; of <= call.step; ++of)
      times[i].ops.insert(times[i].ops.end(), ops[of].begin(), ops[of].end());
    if (prepares)
      times[i].prepares = call.name();
    else
      step = call.step + 1;
  }
  const std::vector<TimedEvent> events(count + 1);
  for (int run = -1; run < repetitions; ++run) { // warm-up
    events[0].record(stream);
    for (size_t i = 0; i < count; ++i) {
      launch(batch.calls[i]);
      events[i + 1].record(stream);
    }
    RIDGE_CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; run >= 0 && i < count; ++i)
      times[i].seconds += events[i + 1].seconds_since(events[i]) / repetitions;
  }
  std::erase_if(times, [](const core::OpTime& time) { return time.ops.empty(); });
  return times;
}

} // namespace ridge::kernels::cuda
