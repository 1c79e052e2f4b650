#include "kernels/cuda/executor/profile.h"

namespace ridge::kernels::cuda {

std::vector<core::OpTime> profile_graph(const core::Program& program, const Plan& plan, const Graph& graph,
                                        const LaunchLog& log, const StampMemory& memory, cudaStream_t stream,
                                        int repetitions) {
  std::vector<Stamp> stamps(memory.count());
  const std::vector<std::vector<int32_t>> ops = ops_of_steps(program, plan);
  std::vector<core::OpTime> times;
  for (int run = -1; run < repetitions; ++run) { // the first one warms up
    RIDGE_CUDA(cudaMemsetAsync(memory.device(), 0, memory.bytes(), stream));
    RIDGE_CUDA(cudaGraphLaunch(graph.handle, stream));
    RIDGE_CUDA(cudaMemcpyAsync(stamps.data(), memory.device(), memory.bytes(), cudaMemcpyDeviceToHost, stream));
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
      time.starts += of.starts / repetitions;
      time.ends_apart += of.ends_apart / repetitions;
    }
  }
  return times;
}

} // namespace ridge::kernels::cuda
