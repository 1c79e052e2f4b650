// Exchanges by kernels, NCCL or the caller's communicator.
#include "kernels/cuda/executor/launches.h"

namespace ridge::kernels::cuda {

void KernelLauncher::run(const BatchPlan&, const NumberExchanges& call, const Launch& launch) {
  if (const auto* rank = dynamic_cast<const ExchangeRank*>(config_.communicator))
    launch_number_exchanges(launch, rank->numbers(), static_cast<uint32_t>(call.exchanges));
}

ExchangeArgs KernelLauncher::exchange_args(const BatchPlan& plan, const Exchange& call) const {
  const auto* rank = dynamic_cast<const ExchangeRank*>(config_.communicator);
  ExchangeArgs args = rank ? rank->args() : ExchangeArgs{};
  args.x = value(plan, call.x);
  args.out = value(plan, call.out);
  args.rows = call.rows;
  args.part = width(call.op->inputs[0]);
  args.width = width(call.op->outputs[0]);
  args.first = std::get<core::RankParams>(call.op->params).first;
  args.is_all_gather = call.op->kind == core::OpKind::all_gather;
  args.packed = !config_.exact;
  args.dataflow_input = call.dataflow_input;
  args.dataflow_output = plan.is_dataflow(call.out);
  args.sent = call.sent;
  args.place = static_cast<uint32_t>(call.index_in_step);
  return args;
}

void KernelLauncher::run(const BatchPlan& plan, const Exchange& call, const Launch& launch) {
  const ExchangeArgs args = exchange_args(plan, call);
  args.ranks == 0 ? exchange_otherwise(args, launch) : launch_exchange(launch, args);
}

void KernelLauncher::sum_beside(const ExchangeArgs& args, const Launch& launch) {
  if (!sum_stream_) sum_stream_ = std::make_unique<SumStream>();
  const auto& [stream, sent, summed] = *sum_stream_;
  Launch beside = launch;
  beside.stream = stream.handle;
  beside.overlap = false;
  RIDGE_CUDA(cudaEventRecord(sent.handle, launch.stream));
  RIDGE_CUDA(cudaStreamWaitEvent(beside.stream, sent.handle));
  launch_sum_by_tokens(beside, args);
  RIDGE_CUDA(cudaEventRecord(summed.handle, beside.stream));
  RIDGE_CUDA(cudaStreamWaitEvent(launch.stream, summed.handle));
}

void KernelLauncher::exchange_otherwise(const ExchangeArgs& args, const Launch& launch) {
  const auto part = static_cast<size_t>(args.rows * args.part), whole = static_cast<size_t>(args.rows * args.width);
  if (!config_.communicator) {
    RIDGE_CUDA(cudaMemcpyAsync(args.out, args.x, part * sizeof(float), cudaMemcpyDeviceToDevice, launch.stream));
    return;
  }
  if (const auto* rank = dynamic_cast<const NcclRank*>(config_.communicator))
    return rank->exchange(args, launch.stream);
  const size_t bytes = (part + whole) * sizeof(float);
  if (exchanged_.bytes() < bytes) exchanged_ = PinnedMemory(bytes);
  auto* own = exchanged_.as<float>();
  float* all = args.is_all_gather ? own + part : own;
  RIDGE_CUDA(cudaMemcpyAsync(own, args.x, part * sizeof(float), cudaMemcpyDeviceToHost, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  if (args.is_all_gather)
    config_.communicator->all_gather({own, part}, args.rows, args.first, {all, whole});
  else
    config_.communicator->all_reduce({own, part});
  RIDGE_CUDA(cudaMemcpyAsync(args.out, all, whole * sizeof(float), cudaMemcpyHostToDevice, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream)); // the memory is reused
}

} // namespace ridge::kernels::cuda
