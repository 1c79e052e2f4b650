// Sums and joins over GPUs (core/parallel/shard.h) by kernels that write one another's memory. Needs no CUDA headers.
#pragma once

#include "core/executor.h"
#include "core/parallel/communicator.h"
#include "kernels/cuda/exchange/packets.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

// Communicators for values of up to `most_floats` (max_exchanged_floats), through host memory where GPUs lack peer
// access. Throws Error for unusable or too many devices. Devices must differ: one rank's waiting kernels could leave no
// room for those they wait for.
std::vector<std::unique_ptr<core::Communicator>> make_exchange(std::span<const int> devices, int64_t most_floats);

bool have_peer_access(std::span<const int> devices);

// Names a GPU among those of its host, such as "0000:1b:00.0".
std::string bus_of(int device);

// A rank's mailbox for ranks in other processes of its host, and what they need to write to it.
class PacketLink {
 public:
  virtual ~PacketLink() = default;
  virtual std::vector<std::byte> handle() const = 0;
  // The handles of all ranks. Throws Error if a mailbox is out of reach.
  virtual void open(std::span<const std::vector<std::byte>> handles) = 0;
  // Small values and failures go through `host`. Call once all ranks have opened all.
  virtual std::unique_ptr<core::Communicator> connect(std::unique_ptr<core::Communicator> host) = 0;
};
std::unique_ptr<PacketLink> make_packet_link(int device, int rank, int ranks, int64_t most_floats);

// Why a communicator should fail: a rank whose values have not come for kPatienceSeconds. Empty: nothing known. Only
// for those made by PacketLink.
inline constexpr double kPatienceSeconds = 7;
std::string late_rank(const core::Communicator& communicator);

// Seconds of one of `sums` sums of `floats` values, one after another, over ranks that exchange packets or by NCCL. All
// ranks call it at once.
double time_sums(const core::Communicator& ranks, int device, int64_t floats, int sums);

// Joins of up to kPacketFloats and sums of up to kPacketSumFloats go as packets; larger joins in kJoinedPieces, sums in
// pieces of kPieceFloats. One sum of 32,768 floats on two and four H200: 4.1 and 6.2 us by packets, 4.2 and 5.5 by
// pieces.
inline constexpr int64_t kPacketFloats = 128 << 10, kPacketSumFloats = 32 << 10, kPieceFloats = 2 << 10;
inline constexpr int kJoinedPieces = 256;

// Floats of the largest exchanged value; 0: a single rank.
int64_t max_exchanged_floats(const core::Program& program, const core::ExecutorConfig& config);

// A GPU's memory for the others: three arrays, each for two exchanges and every sender.
struct MailboxLayout {
  int64_t most_pieces, most_flags;
  size_t packets, pieces, flags;
  size_t bytes() const { return packets + pieces + flags; }
};
constexpr MailboxLayout mailbox_layout(int ranks, int64_t most_floats) {
  const auto places = static_cast<size_t>(2 * ranks);
  const int64_t most = most_floats / kPieceFloats + 1, flags = most > kJoinedPieces ? most : kJoinedPieces;
  return {most, flags, places * kPacketFloats * 8, places * static_cast<size_t>(most * kPieceFloats) * 4,
          places * static_cast<size_t>(flags) * 4};
}

} // namespace ridge::kernels::cuda
