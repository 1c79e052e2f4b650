// State of a scheduler, for the window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::api {

struct Sequences {
  enum class State : uint8_t { waiting, reading, writing, preempted }; // preempted: waits to resume
  struct Row {
    uint64_t number = 0;
    State state = State::waiting;
    int32_t stream = -1;
    int64_t priority = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0; // cached: not evaluated
    int64_t evaluated_tokens = 0, answer_tokens = 0;
    double tokens_per_s = 0;
    double seconds_waiting = 0;
    bool operator==(const Row&) const = default;
  };
  struct Stream {
    bool busy = false;
    int64_t tokens = 0; // also after its sequence has ended
    bool operator==(const Stream&) const = default;
  };
  // A prefix tree node: tokens that several texts share after those of its parent.
  struct Prefix {
    int64_t branches = 0;          // branching nodes above this one
    int64_t first = 0, tokens = 0; // starts at token number `first`
    int64_t texts = 0;             // that begin with this prefix
    int64_t bytes = 0;             // of this node alone
    int64_t used = 0;              // last use, seconds since 1970
    bool held = false;             // a preempted sequence resumes from it
    std::vector<int32_t> first_tokens;
    std::string text;
    bool operator==(const Prefix&) const = default;
  };
  std::vector<Row> rows; // running ones by stream, then waiting ones in order
  std::vector<Stream> streams;
  int64_t context = 0;                         // tokens per stream
  std::vector<Prefix> prefixes;                // parents before children, latest use first; not all
  int64_t prefix_nodes = 0;                    // all of them
  int64_t prefix_bytes = 0, prefix_budget = 0; // budget 0: no prefix cache
  bool operator==(const Sequences&) const = default;
};

} // namespace ridge::api
