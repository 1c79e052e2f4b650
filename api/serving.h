// State of the window's server.
#pragma once

#include "api/sequences.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::api {

struct Serving {
  enum class State : uint8_t { off, starting, on, stopping };
  State state = State::off;
  std::string problem; // why it could not start
  // Valid while the server is on:
  std::string address;
  std::string model;
  std::string engine;
  bool embeds = false;
  struct Slot {
    bool busy = false;
    int64_t tokens = 0; // evaluated so far, while busy
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;
  int64_t context = 0;
  double weight_bytes = 0, cache_bytes = 0, scratch_bytes = 0;
  int64_t requests = 0, waiting = 0;                               // ended; waiting for a slot
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0; // of ended requests
  struct Request {
    uint64_t number = 0;
    std::string route;
    int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
    double seconds = 0;
    bool ended = false;
    std::string problem; // why it ended early
    bool operator==(const Request&) const = default;
  };
  std::vector<Request> latest; // newest first
  Sequences sequences;
  bool operator==(const Serving&) const = default;
};

} // namespace ridge::api
