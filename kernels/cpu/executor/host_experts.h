// Experts on the CPU for a GPU's step.
#pragma once

#include "core/host_experts.h"

namespace ridge::kernels::cpu {

struct HostExpertOptions {
  int threads = 0;             // 0: one per core of `processors`, less one for the thread that waits for the GPU
  std::vector<int> processors; // to run on; empty: any
  bool wide = true;            // 16-bit activations
};

// The Program and the mapped file must outlive it.
std::unique_ptr<core::HostExperts> make_host_experts(const core::Program& program,
                                                     std::vector<core::ExpertLayer> layers,
                                                     const HostExpertOptions& options);

} // namespace ridge::kernels::cpu
