// Pinned blocks, allocated ahead; they outlive the pool.
#include "kernels/cuda/cache/pinned_blocks.h"

#include "device.h"
#include "support/watchdog.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace ridge;
using kernels::cuda::PinnedBlocks;

namespace {

void wait_for(const PinnedBlocks& blocks, int64_t ready) {
  REQUIRE(tests::eventually("blocks to be made", [&] { return blocks.ready() >= ready; }));
}

} // namespace

TEST_CASE("CUDA: blocks of locked memory do not overlap, and outlive their pool") {
  REQUIRE_DEVICE();
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{1} << 20, (size_t{40} << 20) + 8}) {
    CAPTURE(bytes);
    const int count = bytes > (1 << 20) ? 3 : 40;
    std::vector<PinnedBlocks::Block> taken;
    {
      PinnedBlocks blocks(0, bytes);
      for (int i = 0; i < count; ++i) {
        taken.push_back(blocks.take());
        REQUIRE(taken.back());
        std::memset(taken.back().get(), i, bytes);
      }
    }
    for (int i = 0; i < count; ++i)
      CHECK(std::all_of(taken[i].get(), taken[i].get() + bytes,
                        [&](std::byte b) { return std::to_integer<int>(b) == i; }));
  }
}

TEST_CASE("CUDA: blocks of locked memory are made before they are wanted") {
  REQUIRE_DEVICE();
  PinnedBlocks blocks(0, 1 << 20);
  CHECK(blocks.ready() == 0);
  blocks.expect(5);
  wait_for(blocks, 5);
  std::vector<PinnedBlocks::Block> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(blocks.take()); // faster than they are allocated
  wait_for(blocks, 5);
  std::ranges::sort(taken);
  CHECK(std::ranges::adjacent_find(taken) == taken.end());
  blocks.expect(0);
  CHECK(blocks.take());
}

TEST_CASE(
    "CUDA: a block of locked memory that is not needed is given out again, unless one more than expected is ready") {
  REQUIRE_DEVICE();
  PinnedBlocks blocks(0, 40 << 20);
  const auto used = [](const PinnedBlocks::Block& block) { return block.get()[99] == std::byte{7}; };
  const auto take = [&] {
    PinnedBlocks::Block block = blocks.take();
    REQUIRE(block);
    return block;
  };
  PinnedBlocks::Block block = take();
  block.get()[99] = std::byte{7};
  blocks.expect(2);
  block.reset();
  wait_for(blocks, 2);
  CHECK(blocks.ready() == 2);
  PinnedBlocks::Block first = take(), second = take();
  CHECK(used(first) != used(second));
  wait_for(blocks, 2);
  first.reset();
  CHECK(blocks.ready() == 3);
  second.reset();
  CHECK(blocks.ready() == 3);
}
