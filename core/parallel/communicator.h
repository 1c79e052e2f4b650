// What the ranks of a Program that is shared out (shard.h) say to one another, through the host's memory.
//
// GPUs that see each other's memory do not come here: their kernels exchange values themselves
// (kernels/cuda/exchange/). This is for CPU ranks, for ranks in several processes, and for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::core {

// One rank's end. All ranks make the same calls in the same order; a call returns when all have made it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // `values` of all ranks, added up in the order of ranks, so that all get the same bits.
  virtual void all_reduce(std::span<float> values) = 0;
  // Rows of the parts of all ranks behind one another. `part`: this rank's rows; `whole`: [rows, width], of which this
  // rank's part begins at column `first`.
  virtual void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) = 0;

  // Tells all ranks that this one cannot go on. From then on calls return at once, without a result, and check()
  // throws. The first call's reason counts.
  virtual void fail(const std::string& why) = 0;
  virtual void check() const = 0; // throws Error where a rank has failed
};

// Copies a part's rows to where they lie in the whole, as all_gather does. Throws Error for a part outside of it.
void place_part(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole);

// The communicators of ranks that are threads of this process, in the order of ranks.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks);

} // namespace ridge::core
