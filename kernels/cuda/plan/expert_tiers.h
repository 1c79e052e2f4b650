// Where the experts of one layer lie if the host's memory has no room for all of them: in a slot on the GPU, in a place
// in the host's memory, or in the model's file alone. This decides what is moved for a step; experts/filed_experts.h
// moves it. Host code without CUDA.
//
// The experts that are used most stay: on the GPU first, then in the host's memory. An expert's heat is the sum of its
// uses, where one of kUsesHalfLife steps ago counts half. What the GPU gives up goes to the host's memory, and an
// expert that the GPU has need not be there as well; so together they hold as many experts as there are slots and
// places.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::kernels::cuda {

enum class Tier : uint8_t { file, host, gpu, spill };

struct ExpertPlace {
  Tier tier = Tier::file;
  int number = -1; // of the slot or place
  bool operator==(const ExpertPlace&) const = default;
};

// Moves are made one after another: what `to` held goes to `saved_to`, then the expert comes.
struct ExpertMove {
  int expert;
  int from_host;     // the place in the host's memory that has it; -1: it is read from the file
  ExpertPlace to;    // in the host's memory only if it is read
  int saved_to = -1; // place in the host's memory for the expert that had the slot `to`, after the move; -1: none
};

class ExpertTiers {
 public:
  // Slots, places and spill places are together at least as many as there are experts. Spill places are lent for a
  // step: all layers share them.
  ExpertTiers(int experts, int slots, int host_places, int spill_places);

  // The moves after which each of these experts has a place that the GPU can read, until the next call. Valid until
  // then.
  std::span<const ExpertMove> want(std::span<const int32_t> experts);

  ExpertPlace place_of(int expert) const;

  // What the last call found: wanted experts that had slots, and those that were read from the file.
  int64_t found() const { return found_; }
  int64_t wanted() const { return wanted_count_; }
  int64_t read() const { return read_; }

 private:
  struct Expert {
    int slot = -1, host = -1, spill = -1;
    double heat = -1e30; // log2 of its uses, those of now counting 2 ^ (now / kUsesHalfLife)
    bool wanted = false;
  };

  void warm(Expert& expert) const;
  int slot_to_take() const;
  int host_place_to_take(double heat) const;
  int spare_host_place() const;
  void bring_to_gpu(int expert, int slot);
  void bring_anywhere(int expert);

  std::vector<Expert> experts_;
  std::vector<int> in_slot_, in_host_; // experts; -1: none
  int spill_places_, spilled_ = 0;
  int64_t step_ = 0, found_ = 0, wanted_count_ = 0, read_ = 0;
  std::vector<ExpertMove> moves_;
};

} // namespace ridge::kernels::cuda
