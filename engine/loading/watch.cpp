#include "engine/loading/watch.h"

#include "core/error.h"
#include "core/parallel/processes/processes.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/runtime/device_info.h"

#include <utility>

namespace ridge::engine {

ProcessWatch::ProcessWatch(core::ProcessLinks links, const core::ProcessRank& me)
    : pulse(std::move(links.pulses), me.rank) {
  for (const auto* of_kind : {&links.commands, &links.values})
    for (const auto& link : *of_kind)
      if (link) link->expect_reason(core::Pulse::kSilenceSeconds + 1); // the pulse has judged by then
  for (auto& link : links.commands) commands.push_back(std::move(link));
  host = core::make_process_communicator(std::move(links.values), me.rank, me.ranks,
                                         [this](const std::string& why) { pulse.fail(why); });
  pulse.watch(*host);
  pulse.start([this](const std::string& why) {
    for (const auto& link : commands)
      if (link) link->close(why);
    const std::scoped_lock lock(mutex_);
    why_ = why;
    if (lost_) std::exchange(lost_, nullptr)(why);
  });
}

void ProcessWatch::call_when_lost(std::function<void(const std::string&)> lost) {
  const std::scoped_lock lock(mutex_);
  lost_ = std::move(lost);
  if (lost_ && !why_.empty()) std::exchange(lost_, nullptr)(why_);
}

void ProcessWatch::take(std::unique_ptr<core::Communicator> linked) {
  pulse.watch(*host); // the former one ends
  own = std::move(linked);
  pulse.watch(*own, [&ranks = *own] { return kernels::cuda::late_rank(ranks); });
}

int device_of_rank(const core::ProcessRank& me) {
  const int here = kernels::cuda::device_count(); // launchers may show each process only its own
  if (here > 1 && me.local_rank >= here)
    throw_error("rank {} is process {} of its host, which shows {} GPUs: start as many processes as GPUs", me.rank,
                me.local_rank, here);
  return here == 1 ? 0 : me.local_rank;
}

} // namespace ridge::engine
