// What ranks exchange values through, and the kernels that do.
#pragma once

#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/runtime/device.h"

#include <atomic>
#include <mutex>

namespace ridge::kernels::cuda {

// A value and, in its upper half, the number of the exchange that it belongs to. Written at once, it tells of itself
// that it is there.
using Packet = uint64_t;

// The first of a step's exchanges has the number `first`. Numbers go on from one step to the next, on all ranks alike.
struct ExchangeNumbers {
  uint32_t first, next;
};

// Memory of a rank that the others write to. Exchanges alternate between two halves: a rank that begins exchange n + 2
// has the packets of n + 1 from all ranks, which sent them after they were done with n.
struct Mailbox {
  Packet* packets; // [half][from][kPacketFloats]
  float* pieces;   // [half][from][most_pieces][kPieceFloats]
  uint32_t* flags; // [half][from][most_flags]: the number of the exchange whose piece is there
};

struct ExchangeArgs {
  const float* x; // joined: [rows][part]; summed: [rows][width], of which columns `first` to first + part are meant
  float* out;     // [rows][width]
  int64_t rows, part, width, first;
  bool gathers;                         // else sums
  bool packed;                          // large sums: of values that were rounded (packed.cuh)
  bool dataflow_input, dataflow_output; // x arrives while the kernel runs; out is read while it does
  uint32_t place;                       // among the exchanges of a step
  int64_t first_piece;                  // of the part of a sum
  int rank, ranks;
  Mailbox mailboxes[kMostRanks];
  int64_t most_pieces, most_flags; // of the mailboxes
  const ExchangeNumbers* numbers;
  const int* failed; // not 0: a rank has failed, and no rank waits any more
};

void launch_exchange(const Launch& launch, const ExchangeArgs& args);
// Adds up the part that args say, of any size. Every rank has the same parts in the same order.
void launch_exchange_part(const Launch& launch, const ExchangeArgs& args);
// How many pieces such a part has.
constexpr int64_t pieces_of_part(int64_t rows, int64_t part) { return (rows * part + kPieceFloats - 1) / kPieceFloats; }
// Before the exchanges of a step, of which there are `count`.
void launch_number_exchanges(const Launch& launch, ExchangeNumbers* numbers, uint32_t count);

// One rank's end.
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

  // The arguments that do not depend on the values.
  ExchangeArgs args() const;
  ExchangeNumbers* numbers() const;

 private:
  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<core::Communicator> host_;
  const int device_;
};

} // namespace ridge::kernels::cuda
