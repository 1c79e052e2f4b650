// Experts that the CPU computes for a step of another device, which asks through memory that both see.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ridge::core {

// down (glu(gate y, up y)) with y = x, or x normed first. Biases and norm: < 0: none.
struct ExpertLayer {
  WeightId gate, up, down;
  WeightId gate_bias = -1, up_bias = -1, down_bias = -1;
  ActivationParams glu;
  WeightId norm = -1;
  float epsilon = 0;
};

inline constexpr int kMostMailedExperts = 64, kMostMailedRows = 8;
inline constexpr int kMailCountBits = 16;

// The device writes a message, then `sent`; it sends none with experts before the last is answered. The host writes a
// row per expert, then `answered`.
struct ExpertMail {
  alignas(64) uint64_t sent = 0; // messages << kMailCountBits | experts in the last
  int32_t layer = 0;
  int32_t expert[kMostMailedExperts] = {}, row[kMostMailedExperts] = {}; // row of x
  alignas(64) uint64_t answered = 0;                                     // messages
  alignas(64) uint32_t failed = 0;                                       // by the device: waited for too long
};

struct ExpertMailbox {
  ExpertMail* mail;
  const float* x; // [rows][width]
  float* results; // [experts][width]
};

class HostExperts {
 public:
  virtual ~HostExperts() = default; // stops answering
  virtual int threads() const = 0;
  // The seconds that a message with so many experts takes; only before serve().
  virtual double measure(int experts) = 0;
  // Answers from now on.
  virtual void serve(const ExpertMailbox& box) = 0;
  // Threads spin while any of these messages is missing, and shortly after.
  virtual void expect(uint64_t messages) = 0;
};

using MakeHostExperts = std::function<std::unique_ptr<HostExperts>(std::vector<ExpertLayer> layers)>;

} // namespace ridge::core
