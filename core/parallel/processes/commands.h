// What rank 0 sends to ranks in other processes, and their answers.
#pragma once

#include "core/error.h"
#include "core/parallel/processes/connection.h"

#include <cstdint>
#include <vector>

namespace ridge::core {

enum class Command : uint8_t {
  forward,
  copy_cache,
  mark_state,
  restore_mark,
  save_state,
  load_state,
  save_blocks,
  load_blocks,
  set_adapters,
  start_decoding,
  next_token,
  decode_guesses,
  chosen_tokens,
  time_decode,
  profile,
  choose,
  result_rows
};

template <typename T>
std::vector<T> receive_list(Connection& from) {
  constexpr uint64_t kMax = uint64_t{1} << 40; // bytes
  const auto count = from.receive_value<uint64_t>();
  if (count > kMax / sizeof(T)) throw_error("rank 0 sends a list of {} elements", count);
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
