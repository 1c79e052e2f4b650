// Which sequences have streams where there are fewer streams than sequences. Lower priority numbers go first. Those of
// one number take turns, oldest waiting first. A sequence that has waited for long gets one turn whatever its number,
// one sequence at a time, so that none waits for ever.
#pragma once

#include "core/clock.h"

#include <cstdint>
#include <functional>
#include <tuple>

namespace ridge::engine {

struct Turns {
  // How long a sequence keeps its stream, at least, before one of the same number gets it.
  double seconds = 5;
  // How long a sequence waits until it gets a turn whatever its number; such turns begin at least so far apart.
  double patience = 30;
  // The share of the time that taking turns may cost: copies of large caches take long.
  double share = 0.02;
  std::function<double()> clock = core::seconds_now; // that steps are timed with, too
};

struct Turn { // of a sequence that has a stream
  double start = 0;
  bool late = false;      // it got the stream for having waited
  double kept_until = -1; // until then it keeps the stream: there was no room to keep what it evaluated
};

// One that waits, as far as turns are concerned.
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
  // Whether the sequence that has waited for longest gets a turn now, whichever sequences have streams.
  bool is_late(const Waiting& longest, double now) const {
    return now - longest.since >= turns_.patience && now - last_late_ >= turns_.patience;
  }
  // Whether one that waits takes the stream of one with this turn and priority.
  bool takes(const Waiting& waiting, bool late, const Turn& turn, int64_t priority, double now) const {
    const bool over = now - turn.start >= turns_.seconds;
    if (now < turn.kept_until || (turn.late && !over)) return false;
    if (waiting.priority < priority) return true;
    return over && (late || (waiting.priority == priority && now >= next_exchange_));
  }

  void started(bool late, double now) {
    if (late) last_late_ = now;
  }
  // Taking turns, from preempting a sequence to going on with another, took so long until now.
  void exchanged(double seconds, double now) { next_exchange_ = now + seconds * (1 / turns_.share - 1); }
  double turn_seconds() const { return turns_.seconds; }

 private:
  const Turns turns_;
  double last_late_ = -1e9, next_exchange_ = 0;
};

} // namespace ridge::engine
