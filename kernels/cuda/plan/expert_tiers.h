// Decides where a layer's experts lie: a GPU slot, a host place, or only the file; experts/filed_experts.h moves them.
//
// The most used stay, first on the GPU, then in host memory. Heat sums uses, halved every kUsesHalfLife steps. Evicted
// experts go from the GPU to host memory; those on the GPU need no host copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::kernels::cuda {

enum class Tier : uint8_t { file, host, gpu, spill };

struct ExpertPlace {
  Tier tier = Tier::file;
  int number = -1;
  bool operator==(const ExpertPlace&) const = default;
};

// In order: the content of `to` goes to `saved_to`, then the expert arrives.
struct ExpertMove {
  int expert;
  int from_host;     // host place; -1: read from the file
  ExpertPlace to;    // a host place only if read
  int saved_to = -1; // host place for the evicted expert; -1: none
};

class ExpertTiers {
 public:
  // Throws std::logic_error if there are fewer places than experts. Spill places last one step and are shared by
  // layers.
  ExpertTiers(int experts, int slots, int host_places, int spill_places);

  // After these moves the GPU can read every wanted expert. Valid until the next call.
  std::span<const ExpertMove> place_experts(std::span<const int32_t> experts);

  ExpertPlace place_of(int expert) const;

  // Counts of the last call.
  int64_t found() const { return found_; }
  int64_t wanted() const { return wanted_count_; }
  int64_t read() const { return read_; }

 private:
  struct Expert {
    int slot = -1, host = -1, spill = -1;
    double heat = -1e30; // log2 of decayed uses; one now weighs 2 ^ (now / kUsesHalfLife)
    bool wanted = false;
  };

  void warm(Expert& expert) const;
  int cheapest(const std::vector<int>& places, const auto& cost_of) const;
  int slot_to_take() const;
  int host_place_to_take(double heat) const;
  int spare_host_place() const;
  void bring_to_gpu(int expert, int slot);
  void bring_anywhere(int expert);

  std::vector<Expert> experts_;
  std::vector<int> in_slot_, in_host_; // -1: empty
  int spill_places_, spilled_ = 0;
  int64_t step_ = 0, found_ = 0, wanted_count_ = 0, read_ = 0;
  std::vector<ExpertMove> moves_;
};

} // namespace ridge::kernels::cuda
