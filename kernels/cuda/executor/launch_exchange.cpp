// Exchanges with other ranks: by kernels, or where GPUs do not reach one another's memory (ranks in other processes, on
// other machines, or on the same GPU in tests), by the communicator that the caller gave.
#include "kernels/cuda/executor/launches.h"

namespace ridge::kernels::cuda {

void KernelLauncher::number_exchanges(const KernelCall& call, const Launch& launch) const {
  if (const auto* rank = dynamic_cast<const ExchangeRank*>(config_.communicator))
    launch_number_exchanges(launch, rank->numbers(), static_cast<uint32_t>(call.place));
}

void KernelLauncher::launch_exchange(const BatchPlan& plan, const KernelCall& call, const Launch& launch) {
  const auto& params = std::get<core::RankParams>(call.op->params);
  const auto* rank = dynamic_cast<const ExchangeRank*>(config_.communicator);
  ExchangeArgs args = rank ? rank->args() : ExchangeArgs{};
  args.x = value(plan, call.inputs[0]);
  args.out = value(plan, call.outputs[0]);
  args.rows = call.rows;
  args.part = width(call.op->inputs[0]);
  args.width = width(call.op->outputs[0]);
  args.first = params.first;
  args.gathers = call.op->kind == core::OpKind::all_gather;
  args.dataflow_input = call.dataflow_input;
  args.dataflow_output = plan.is_dataflow(call.outputs[0]);
  args.place = static_cast<uint32_t>(call.place);
  rank ? cuda::launch_exchange(launch, args) : exchange_on_host(args, launch);
}

void KernelLauncher::exchange_on_host(const ExchangeArgs& args, const Launch& launch) {
  const auto part = static_cast<size_t>(args.rows * args.part), whole = static_cast<size_t>(args.rows * args.width);
  if (!config_.communicator) { // one rank
    RIDGE_CUDA(cudaMemcpyAsync(args.out, args.x, part * sizeof(float), cudaMemcpyDeviceToDevice, launch.stream));
    return;
  }
  const size_t bytes = (part + whole) * sizeof(float);
  if (exchanged_.bytes() < bytes) exchanged_ = PinnedMemory(bytes);
  auto* own = exchanged_.as<float>();
  float* all = args.gathers ? own + part : own;
  RIDGE_CUDA(cudaMemcpyAsync(own, args.x, part * sizeof(float), cudaMemcpyDeviceToHost, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  if (args.gathers)
    config_.communicator->all_gather({own, part}, args.rows, args.first, {all, whole});
  else
    config_.communicator->all_reduce({own, part});
  RIDGE_CUDA(cudaMemcpyAsync(args.out, all, whole * sizeof(float), cudaMemcpyHostToDevice, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream)); // the memory is used again
}

} // namespace ridge::kernels::cuda
