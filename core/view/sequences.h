// What a scheduler's sequences, streams and prefix cache are at, as the window sees it: plain data, a part of
// snapshot.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

struct Sequences {
  enum class State : uint8_t { waiting, reading, writing, preempted }; // preempted: waits to go on
  struct Row {
    uint64_t number = 0;
    State state = State::waiting;
    int32_t stream = -1; // -1: none
    int64_t priority = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0; // cached: tokens of the prompt that were not evaluated
    int64_t evaluated_tokens = 0, answer_tokens = 0;
    double tokens_per_s = 0;    // of the answer so far
    double seconds_waiting = 0; // of one that waits: this time
    bool operator==(const Row&) const = default;
  };
  struct Stream {
    bool busy = false;
    int64_t tokens = 0; // that it holds, also those of a sequence that has ended
    bool operator==(const Stream&) const = default;
  };
  // A node of the prefix tree: what some texts have in common behind the node above it.
  struct Prefix {
    int64_t branches = 0;          // above it, at which texts part
    int64_t first = 0, tokens = 0; // from token number `first` on
    int64_t texts = 0;             // that begin with it
    int64_t bytes = 0;             // of its own
    int64_t used = 0;              // the last time, seconds since 1970
    bool held = false;             // a preempted sequence is to go on with it
    std::vector<int32_t> first_tokens;
    std::string text; // of the first tokens, made printable
    bool operator==(const Prefix&) const = default;
  };
  std::vector<Row> rows; // those that run by stream, those that wait as they will go on
  std::vector<Stream> streams;
  int64_t context = 0;          // tokens of a stream
  std::vector<Prefix> prefixes; // each before those below it, of those the last used first; not all of many
  int64_t prefix_nodes = 0;     // all
  int64_t prefix_bytes = 0, prefix_budget = 0; // budget 0: no prefixes are kept
  bool operator==(const Sequences&) const = default;
};

} // namespace ridge::core
