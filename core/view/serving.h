// The window's server as the window sees it: plain data, a part of snapshot.h.
#pragma once

#include "core/view/sequences.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

struct Serving {
  enum class State : uint8_t { off, starting, on, stopping };
  State state = State::off;
  std::string problem; // why it could not start; empty: it could, or was not asked to
  // While it is on:
  std::string address; // "http://127.0.0.1:8080"
  std::string model;   // what clients call it
  std::string engine;  // "CPU, 8 threads, AVX3_DL"
  bool embeds = false; // the model embeds texts
  struct Slot {
    bool busy = false;
    int64_t tokens = 0; // of a busy one: evaluated so far
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;
  int64_t context = 0; // tokens of each slot
  double weight_bytes = 0, cache_bytes = 0, scratch_bytes = 0;
  int64_t requests = 0, waiting = 0;                               // that have ended; that wait for a slot
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0; // of those that have ended
  struct Request {
    uint64_t number = 0;
    std::string route;
    int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
    double seconds = 0; // until now, or the end
    bool ended = false;
    std::string problem; // why it ended early
    bool operator==(const Request&) const = default;
  };
  std::vector<Request> latest; // the latest first
  Sequences sequences;
  bool operator==(const Serving&) const = default;
};

} // namespace ridge::core
