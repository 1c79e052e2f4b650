// Drafts the tokens that followed an earlier occurrence of the last few. Takes microseconds. Saxena 2023,
// https://github.com/apoorvumang/prompt-lookup-decoding
#pragma once

#include "engine/speculation/drafter.h"

#include <unordered_map>

namespace ridge::engine {

class NgramDrafter final : public Drafter {
 public:
  void begin(std::span<const int32_t> tokens) override;
  int prepare_draft(std::span<const int32_t> tokens) override;
  std::vector<int32_t> draft(int64_t most) override;

 private:
  void index(std::span<const int32_t> tokens);
  int64_t match_length(int64_t end) const;

  std::vector<int32_t> tokens_;
  // Maps the hash of kGram tokens to their last end. before_ chains earlier ends.
  std::unordered_map<uint64_t, int32_t> last_;
  std::vector<int32_t> before_;
  int64_t follows_ = -1; // index of the first draft token
};

} // namespace ridge::engine
