// The CPU's part in a step: experts that it computes sooner than they come over the bus (core/host_experts.h).
#pragma once

#include "kernels/cuda/experts/expert_store.h"
#include "kernels/cuda/plan/cpu_experts.h"

#include <memory>
#include <string>

namespace ridge::kernels::cuda {

class CpuExperts {
 public:
  // Measures both ways, with experts in `store`.
  CpuExperts(const core::Program& program, const std::vector<CpuExpertLayer>& layers, const CpuExpertOptions& options,
             const ExpertStore& store, const Launch& launch);

  // Whether the CPU is sooner for any number of missing experts.
  bool useful() const { return share_[core::kMostMailedExperts] > 0; }
  int threads() const { return host_->threads(); }
  std::string description() const;

  CpuExpertArgs args(int layer) const;

  // Before launches that send so many messages.
  void expect(int64_t messages);
  // For any number of messages, until the stream is idle.
  void expect_any() { host_->expect(~uint64_t{0}); }
  void expect_no_more();
  // Throws Error if the GPU waited in vain.
  void check() const;

 private:
  core::ExpertMail& mail() const { return *mail_.as<core::ExpertMail>(); }

  CpuExpertOptions options_;
  int64_t width_ = 0;
  PinnedMemory mail_, x_, results_;
  DeviceMemory tables_;
  uint64_t messages_ = 0;
  ExpertTimes times_;
  CpuShare share_ = {};
  std::unique_ptr<core::HostExperts> host_; // last: its threads use the rest
};

} // namespace ridge::kernels::cuda
