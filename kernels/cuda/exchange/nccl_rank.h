// A rank whose values go through NCCL.
#pragma once

#include "kernels/cuda/exchange/exchange_memory.h"

#include <atomic>
#include <memory>

namespace ridge::kernels::cuda {

class NcclRank final : public core::Communicator {
 public:
  struct Link; // NCCL's communicator
  NcclRank(std::shared_ptr<Link> link, std::unique_ptr<core::Communicator> host);
  ~NcclRank() override;

  int rank() const override { return host_->rank(); }
  int ranks() const override { return host_->ranks(); }
  void all_reduce(std::span<float> values) override { host_->all_reduce(values); }
  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    host_->all_gather(part, rows, first, whole);
  }
  void fail(const std::string& why) override;
  void check() const override { host_->check(); }

  // Enqueues the exchange; streams may be captured.
  void exchange(const ExchangeArgs& args, cudaStream_t stream) const;

 private:
  const std::shared_ptr<Link> link_;
  const std::unique_ptr<core::Communicator> host_;
  std::atomic<bool> aborted_ = false;
};

} // namespace ridge::kernels::cuda
