// How the GPUs of several ranks (core/parallel/shard.h) add up and join what they have: by kernels that write to one
// another's memory. Needs no CUDA headers.
#pragma once

#include "core/executor.h"
#include "core/parallel/communicator.h"
#include "kernels/cuda/products/half_layout.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

inline constexpr int kMostRanks = 8;

// The communicators of ranks on these devices, one each, for make_cuda_executor's configuration. `most_floats`: of a
// value that is exchanged, at most (most_exchanged). Where some of the GPUs do not see each other's memory, values pass
// through the host's. Throws Error for a device that cannot be used, and for too many. No two may be the same:
// one rank's kernels could leave no room for those that another one waits for.
std::vector<std::unique_ptr<core::Communicator>> make_exchange(std::span<const int> devices, int64_t most_floats);

// Whether each of the GPUs can read and write the memory of all the others.
bool see_each_other(std::span<const int> devices);

// Values of up to so many floats go as packets, larger ones in pieces with a flag each: joined ones in kJoinedPieces,
// sums in pieces of kPieceFloats.
inline constexpr int64_t kPacketFloats = 128 << 10, kPieceFloats = 8 << 10;
inline constexpr int kJoinedPieces = 256;

// Sums of long prompts are exchanged in parts of so many columns, up to kMostParts, each in pieces of its own. That is
// so for all ranks alike, though a rank's product may make more or fewer columns at a time, and not each may send them
// before the others are made.
inline constexpr int64_t kPartColumns = 2048, kMostParts = 32;
constexpr bool summed_in_parts(int64_t rows, int64_t width) {
  return rows > kMostWideRows && width % 8 == 0 && rows * width > kPacketFloats && width <= kMostParts * kPartColumns;
}

// Floats of the largest value that a batch exchanges; 0: the Program is none of several ranks'.
int64_t most_exchanged(const core::Program& program, const core::ExecutorConfig& config);

// What each GPU has for the others to write to: three arrays, each for two exchanges and every rank that sends.
struct MailboxLayout {
  int64_t most_pieces, most_flags;
  size_t packets, pieces, flags; // bytes
  size_t bytes() const { return packets + pieces + flags; }
};
constexpr MailboxLayout mailbox_layout(int ranks, int64_t most_floats) {
  const auto places = static_cast<size_t>(2 * ranks);
  const int64_t most = most_floats / kPieceFloats + kMostParts, flags = most > kJoinedPieces ? most : kJoinedPieces;
  return {most, flags, places * kPacketFloats * 8, places * static_cast<size_t>(most * kPieceFloats) * 4,
          places * static_cast<size_t>(flags) * 4};
}

} // namespace ridge::kernels::cuda
