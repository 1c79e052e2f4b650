// What rank 0 sends to ranks in other processes, and their answers.
#pragma once

#include "core/error.h"
#include "core/executor.h"
#include "core/parallel/processes/connection.h"

#include <cstdint>
#include <vector>

namespace ridge::core {

enum class Command : uint8_t {
  submit,
  wait,
  copy_cache,
  mark_state,
  restore_mark,
  save_state,
  load_state,
  save_blocks,
  load_blocks,
  set_adapters,
  time_decode,
  profile,
  result_rows
};

// Whether a rank that got a batch also waits for the oldest one, so that a step is one command.
inline bool waits_at_once(const Batch& batch, Chain chain) {
  return chain == Chain::none || (chain == Chain::resume && batch.tokens[0] == kChosenToken);
}

template <typename T>
std::vector<T> receive_list(Connection& from) {
  constexpr uint64_t kMax = uint64_t{1} << 40; // bytes
  const auto count = from.receive_value<uint64_t>();
  if (count > kMax / sizeof(T)) throw_error("rank 0 sent a list of {} elements", count);
  std::vector<T> list(count);
  from.receive_values(std::span(list));
  return list;
}

// The parameters that executors sample by, and what a sampler remembers.
struct SamplerFacts {
  float temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  int32_t top_k, repeat_last_n, min_keep;
  uint64_t seed, draws, oldest, vocab;
};
struct TokenCount {
  int32_t token, count;
};

// What a rank answers first.
struct RankFigures {
  int64_t saved_floats, block_bytes;
  double memory_bytes;
  bool can_choose;
};

} // namespace ridge::core
