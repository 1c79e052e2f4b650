// Exchange between ranks (shard.h) through host memory. GPUs with peer access use kernels/cuda/exchange/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

// All ranks make the same calls in the same order; a call returns after all made it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Sums over ranks in rank order, so that all get equal bits.
  virtual void all_reduce(std::span<float> values) = 0;
  // Concatenates the rows of all ranks. `whole`: [rows, width], where `part` begins at column `first`.
  virtual void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) = 0;

  // Tells all ranks of a failure: later calls return at once without a result, and check() throws the first reason.
  virtual void fail(const std::string& why) = 0;
  virtual void check() const = 0; // throws Error if a rank has failed
};

// Copies a part to its place in `whole`. Throws Error if it does not fit.
void place_part(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole);

// All ranks' texts of up to `most` bytes, by rank. Throws Error if a rank has failed.
std::vector<std::string> gather_texts(Communicator& ranks, std::string_view own, size_t most);

// For ranks that are threads of this process.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks);

} // namespace ridge::core
