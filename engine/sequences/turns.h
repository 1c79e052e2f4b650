// Assigns streams if there are fewer than sequences. Lower priority numbers go first; equal ones take turns, longest
// waiting first. Against starvation, a sequence that has waited long gets a turn regardless of priority, one at a time.
#pragma once

#include "core/clock.h"

#include <cstdint>
#include <functional>
#include <tuple>

namespace ridge::engine {

struct Turns {
  // Minimum time on a stream before one of equal priority takes it.
  double seconds = 5;
  // Waiting time until a turn regardless of priority, and the minimum distance between such turns.
  double patience = 30;
  // Limit of the share of time spent on exchanges, since copying large caches is slow.
  double share = 0.02;
  std::function<double()> clock = core::seconds_now; // also times steps
};

struct Turn {
  double start = 0;
  bool late = false;
  double kept_until = -1; // no preemption until then, as there was no room for its rows
};

struct Waiting {
  int64_t priority;
  double since;
  uint64_t number;
};

class TurnPolicy {
 public:
  explicit TurnPolicy(const Turns& turns) : turns_(turns) {}
  double now() const { return turns_.clock(); }

  static bool before(const Waiting& a, const Waiting& b) {
    return std::tie(a.priority, a.since, a.number) < std::tie(b.priority, b.since, b.number);
  }
  // Whether it gets a turn regardless of priority.
  bool is_late(const Waiting& longest, double now) const {
    return now - longest.since >= turns_.patience && now - last_late_ >= turns_.patience;
  }
  // Whether a waiting sequence takes the stream of one with this turn.
  bool takes(const Waiting& waiting, bool late, const Turn& turn, int64_t priority, double now) const {
    const bool over = now - turn.start >= turns_.seconds;
    if (now < turn.kept_until || (turn.late && !over)) return false;
    if (waiting.priority < priority) return true;
    return over && (late || (waiting.priority == priority && now >= next_exchange_));
  }

  void started(bool late, double now) {
    if (late) last_late_ = now;
  }
  void exchanged(double seconds, double now) { next_exchange_ = now + seconds * (1 / turns_.share - 1); }
  double turn_seconds() const { return turns_.seconds; }

 private:
  const Turns turns_;
  double last_late_ = -1e9, next_exchange_ = 0;
};

} // namespace ridge::engine
