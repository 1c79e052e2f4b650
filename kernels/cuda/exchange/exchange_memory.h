#pragma once

#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// Memory that other ranks write, in two alternating halves. A rank that begins exchange n + 2 has all packets of n + 1,
// sent after their ranks finished n: the half is free.
struct Mailbox {
  Packet* packets; // [half][from][kPacketFloats]
  float* pieces;   // [half][from][most_pieces][kPieceFloats]
  uint32_t* flags; // [half][from][most_flags]: number of the finished exchange
};

constexpr int kUnknownRank = kMaxRanks;

// In host memory.
struct Trouble {
  int failed; // nonzero: a rank failed, nothing waits any more
  int late;   // 1 + a rank whose values did not come within patience_ns; 0: none
};

struct ExchangeArgs {
  const float* x; // join: [rows][part], columns first …; sum: [rows][width]
  float* out;     // [rows][width]
  int64_t rows, part, width, first;
  bool is_all_gather;                   // else sums
  bool packed;                          // sums of rounded values (packed.cuh)
  bool dataflow_input, dataflow_output; // x arrives, out is read during the kernel
  bool sent;                            // packets: the product that makes x sends them
  uint32_t place;                       // of the exchange in its step
  int rank, ranks;
  Mailbox mailboxes[kMaxRanks];
  int64_t most_pieces, most_flags;
  const ExchangeNumbers* numbers;
  Trouble* trouble;
  uint64_t patience_ns; // 0: unlimited
};

// For a sum by packets.
PacketTargets packet_targets(const ExchangeArgs& args);

void launch_exchange(const Launch& launch, const ExchangeArgs& args);
// exchange_sums.cu
void launch_sum_of_pieces(const Launch& launch, const ExchangeArgs& args);

// sum_by_tokens.cu: a sum whose terms have been sent, by a product (sum_mail()) or launch_send_terms.
SumMail sum_mail(const ExchangeArgs& args);
void launch_send_terms(const Launch& launch, const ExchangeArgs& args);
void launch_sum_by_tokens(const Launch& launch, const ExchangeArgs& args);
// Before a step's exchanges.
void launch_number_exchanges(const Launch& launch, ExchangeNumbers* numbers, uint32_t count);

class ExchangeRank final : public core::Communicator {
 public:
  struct Shared;
  ExchangeRank(std::shared_ptr<Shared> shared, std::unique_ptr<core::Communicator> host, int device)
      : shared_(std::move(shared)), host_(std::move(host)), device_(device) {}

  int rank() const override { return host_->rank(); }
  int ranks() const override { return host_->ranks(); }
  int device() const { return device_; }
  void all_reduce(std::span<float> values) override { host_->all_reduce(values); }
  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    host_->all_gather(part, rows, first, whole);
  }
  void fail(const std::string& why) override;
  void check() const override { host_->check(); }

  ExchangeArgs args() const;
  ExchangeNumbers* numbers() const;
  // The rank that this one has waited for too long, or -1.
  int late_rank() const;

 private:
  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<core::Communicator> host_;
  const int device_;
};

} // namespace ridge::kernels::cuda
