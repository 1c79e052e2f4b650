#include "core/error.h"
#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/exchange/nccl_rank.h"
#include "kernels/cuda/runtime/context.h"

namespace ridge::kernels::cuda {
namespace {

void sum(const core::Communicator& ranks, const ExchangeArgs& args, const Launch& launch) {
  if (dynamic_cast<const ExchangeRank*>(&ranks)) return launch_exchange(launch, args);
  const auto* nccl = dynamic_cast<const NcclRank*>(&ranks);
  if (!nccl) throw_error("CUDA: sums of these ranks are not the GPU's");
  nccl->exchange(args, launch.stream);
}

} // namespace

double time_sums(const core::Communicator& ranks, int device, int64_t floats, int sums) {
  const CurrentDevice current(device);
  const DeviceContext context(device);
  const DeviceMemory values(2 * floats * sizeof(float), "values to sum");
  RIDGE_CUDA(cudaMemsetAsync(values.as(), 0, values.bytes(), context.stream()));
  const auto* exchange = dynamic_cast<const ExchangeRank*>(&ranks);
  const Launch launch = context.launch();
  const auto run = [&] {
    ExchangeArgs args = exchange ? exchange->args() : ExchangeArgs{};
    if (exchange) launch_number_exchanges(launch, exchange->numbers(), static_cast<uint32_t>(sums));
    args.x = values.as<float>();
    args.out = values.as<float>() + floats;
    args.rows = 1;
    args.part = args.width = floats;
    for (int i = 0; i < sums; ++i) {
      args.place = static_cast<uint32_t>(i);
      sum(ranks, args, launch);
    }
  };
  Graph graph;
  graph.capture(context.stream(), run);
  const TimedEvent begin, end;
  for (int i = 0; i < 2; ++i) { // the first warms up
    begin.record(context.stream());
    RIDGE_CUDA(cudaGraphLaunch(graph.handle, context.stream()));
    end.record(context.stream());
  }
  context.synchronize();
  ranks.check();
  return end.seconds_since(begin) / sums;
}

} // namespace ridge::kernels::cuda
