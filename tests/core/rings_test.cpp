// Ring caches: which layers, how many rows, where streams can resume.
#include "core/rings.h"

#include "core/error.h"

#include <doctest/doctest.h>

using namespace ridge;
using namespace ridge::core;

namespace {

Program program_of(const std::vector<AttentionParams>& layers) {
  Program program;
  program.vocab = 10;
  for (AttentionParams params : layers) {
    params.layer = static_cast<int32_t>(program.kv_layers.size());
    program.kv_layers.push_back({2, 16, 16});
    program.ops.push_back({OpKind::kv_store, 0, "store", {}, {}, {}, KvParams{params.layer}});
    program.ops.push_back({OpKind::attention, 0, "attention", {}, {}, {}, params});
  }
  return program;
}

AttentionParams window(int64_t size, bool chunked = false) { return {.window = size, .chunked = chunked}; }

ExecutorConfig config_of(int64_t context, int64_t max_batch, int64_t rewind_tokens) {
  ExecutorConfig config;
  config.context = context;
  config.max_batch = max_batch;
  config.rewind_tokens = rewind_tokens;
  return config;
}

void advance(StreamPositions& positions, int32_t first, int32_t count, int32_t stream = 0) {
  std::vector<int32_t> tokens(count, 1), at(count), streams(count, stream);
  for (int32_t i = 0; i < count; ++i) at[i] = first + i;
  positions.advance({tokens, at, streams, {}});
}

} // namespace

TEST_CASE("a cache is a ring where all that reads it looks at one window and the context is longer") {
  Program program = program_of({window(0), window(100), window(60, true), window(5000)});
  // A second reader of layer 1, and one of layer 2 that sees more.
  program.ops.push_back(program.ops[3]);
  const ExecutorConfig config = config_of(4096, 512, 256);
  std::vector<CacheRows> rows = cache_rows(program, config);
  CHECK(rows[0].rows == 4096);
  CHECK_FALSE(rows[0].is_ring());
  CHECK(rows[0].row_of(4000) == 4000);
  CHECK(rows[1].rows == 896);
  CHECK(rows[1].is_ring());
  CHECK(rows[1].row_of(2 * 896 + 7) == 7);
  CHECK(rows[2].rows == 832);
  CHECK(rows[2].first_seen(125) == 120);
  CHECK_FALSE(rows[3].is_ring());
  CHECK(left_out_of_blocks(program, config) == " without 1,2");
  CHECK(left_out_of_blocks(program, config_of(4096, 512, 4096)).empty());
  CHECK(kv_cache_bytes(program, config, 4096) == (2 * 4096 + 896 + 832) * 2.0 * 32 * 2);
  CHECK(kv_cache_bytes(program, config, 850) == (3 * 850 + 832) * 2.0 * 32 * 2);

  AttentionParams all = window(0);
  all.layer = 2;
  program.ops.push_back({OpKind::attention, 0, "attention", {}, {}, {}, all});
  CHECK_FALSE(cache_rows(program, config)[2].is_ring());
  CHECK_FALSE(cache_rows(program, config_of(4096, 512, 4096))[1].is_ring());
  AttentionParams ahead = window(10);
  ahead.causal = false;
  CHECK_FALSE(cache_rows(program_of({ahead}), config)[0].is_ring());
}

TEST_CASE("a stream goes on where its windows have all that is seen, and anew at the start") {
  const Program program = program_of({window(20)});
  StreamPositions positions(program, config_of(1000, 32, 10));
  advance(positions, 0, 32);
  advance(positions, 32, 32);
  CHECK(positions.can_resume_at(0, 5));
  advance(positions, 64, 32); // 96: the first 32 are overwritten
  CHECK(positions.can_resume_at(0, 96));
  CHECK(positions.can_resume_at(0, 51));
  CHECK_FALSE(positions.can_resume_at(0, 50));
  CHECK_THROWS_AS(advance(positions, 50, 1), Error);
  advance(positions, 60, 5); // rewinding does not restore overwritten rows
  CHECK_FALSE(positions.can_resume_at(0, 50));
  CHECK(positions.can_resume_at(0, 51));
  positions.set(0, 40);
  CHECK(positions.can_resume_at(0, 40));
  CHECK_FALSE(positions.can_resume_at(0, 39));
  advance(positions, 40, 32);
  CHECK(positions.can_resume_at(0, 41));
  positions.advance(0, 200);
  CHECK_FALSE(positions.can_resume_at(0, 72));
  CHECK(positions.can_resume_at(0, 0));
  advance(positions, 0, 1);
  CHECK(positions.can_resume_at(0, 1));
}

TEST_CASE("a stream that takes over another one's cache goes on where that one does, and recurrent state at its "
          "position only") {
  Program program = program_of({window(20)});
  ExecutorConfig config = config_of(1000, 32, 10);
  config.streams = 2;
  StreamPositions positions(program, config);
  for (int32_t at = 0; at < 128; at += 32) advance(positions, at, 32, 1);
  positions.copy(1, 0);
  CHECK(positions.can_resume_at(0, 100));
  CHECK_FALSE(positions.can_resume_at(0, 50));

  program = program_of({});
  program.states.push_back({"state", 4});
  StreamPositions recurrent(program, config);
  advance(recurrent, 0, 8, 1);
  CHECK(recurrent.can_resume_at(1, 8));
  CHECK_FALSE(recurrent.can_resume_at(1, 7));
  CHECK_THROWS_AS(advance(recurrent, 7, 1, 1), Error);
  recurrent.return_to(1, 5);
  CHECK(recurrent.can_resume_at(1, 5));
  recurrent.copy(1, 0);
  CHECK_FALSE(recurrent.can_resume_at(0, 5));
  CHECK(recurrent.can_resume_at(0, 0));
  recurrent.set_unchecked(1, 3);
  CHECK(recurrent.can_resume_at(1, 3));
  CHECK_THROWS_AS(recurrent.set(2, 0), Error);
}
