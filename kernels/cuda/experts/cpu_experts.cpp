#include "kernels/cuda/experts/cpu_experts.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace ridge::kernels::cuda {
namespace {

// In device memory.
struct Tables {
  uint64_t messages;
  uint32_t failed;
  int32_t asked[1 + core::kMostMailedExperts];
  CpuShare share;
};

constexpr double kMailMicroseconds = 6; // to the CPU and back

} // namespace

CpuExperts::CpuExperts(const core::Program& program, const std::vector<CpuExpertLayer>& layers,
                       const CpuExpertOptions& options, const ExpertStore& store, const Launch& launch)
    : options_(options), mail_(sizeof(core::ExpertMail)), tables_(sizeof(Tables), "experts' tables") {
  std::vector<core::ExpertLayer> of_cpu;
  for (const CpuExpertLayer& layer : layers) {
    of_cpu.push_back(layer.layer);
    width_ = std::max(width_, program.weights[layer.layer.down].rows);
  }
  x_ = PinnedMemory(core::kMostMailedRows * width_ * sizeof(float));
  results_ = PinnedMemory(core::kMostMailedExperts * width_ * sizeof(float));
  host_ = options.make(std::move(of_cpu));
  constexpr int kSeveral = 4;
  const double one = host_->measure(1) * 1e6, several = host_->measure(kSeveral) * 1e6;
  times_.each = std::max(0.0, several - one) / (kSeveral - 1);
  times_.first = one + kMailMicroseconds;
  times_.copy = store.measure_copy(launch) * 1e6;
  share_ = options.share ? *options.share : share_of_cpu(times_);
  new (mail_.as()) core::ExpertMail;
  Tables tables = {};
  tables.share = share_;
  RIDGE_CUDA(cudaMemcpyAsync(tables_.as(), &tables, sizeof tables, cudaMemcpyHostToDevice, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  if (useful()) host_->serve({&mail(), x_.as<float>(), results_.as<float>()});
}

std::string CpuExperts::description() const {
  std::string text = fmt::format("an expert takes {:.0f} µs on {} CPU threads, each further one {:.0f}, a copy {:.0f}; "
                                 "of 1, 2, … missing ones the CPU computes",
                                 times_.first, threads(), times_.each, times_.copy);
  for (int missing = 1; missing <= 8; ++missing) text += fmt::format(" {}", share_[missing]);
  return text + "\n";
}

CpuExpertArgs CpuExperts::args(int layer) const {
  auto* tables = tables_.as<Tables>();
  return {.mail = &mail(),
          .x = x_.as<float>(),
          .results = results_.as<float>(),
          .width = static_cast<int>(width_),
          .layer = layer,
          .patience_ns = static_cast<uint64_t>(options_.patience_seconds * 1e9),
          .share = tables->share.data(),
          .asked = tables->asked,
          .messages = &tables->messages,
          .failed = &tables->failed};
}

void CpuExperts::expect(int64_t messages) {
  if (messages > 0) host_->expect(messages_ += messages);
}

void CpuExperts::expect_no_more() {
  messages_ = std::atomic_ref(mail().sent).load(std::memory_order_acquire) >> core::kMailCountBits;
  host_->expect(messages_);
}

void CpuExperts::check() const {
  if (std::atomic_ref(mail().failed).load(std::memory_order_acquire) != 0)
    throw_error("the CPU did not compute its share of the experts within {} s: free some of its cores, or leave "
                "out --cpu-experts",
                options_.patience_seconds);
}

} // namespace ridge::kernels::cuda
