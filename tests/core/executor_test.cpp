// check_batch and check_config.
#include "core/executor.h"

#include "core/error.h"

#include <doctest/doctest.h>

using namespace ridge::core;

namespace {

struct Tokens {
  std::vector<int32_t> tokens = {1, 2, 3}, positions = {0, 1, 2}, streams = {0, 0, 1}, outputs = {0, 2};
  std::vector<float> input;
  Batch batch() const { return {tokens, positions, streams, outputs, input}; }
};

Program program_of(int64_t vocab) {
  Program program;
  program.vocab = vocab;
  return program;
}

ExecutorConfig small_config() {
  ExecutorConfig config;
  config.context = 8;
  config.streams = 2;
  config.max_batch = 4;
  config.max_outputs = 2;
  return config;
}

template <typename Run>
std::string refusal(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("a batch that an executor cannot run is refused by what is wrong with it") {
  const Program program = program_of(10);
  Tokens t;
  std::string expected;
  SUBCASE("a good one is not") {}
  SUBCASE("nor one without streams") { t.streams = {}; }
  SUBCASE("nor one without outputs") { t.outputs = {}; }
  SUBCASE("no tokens") {
    t = {{}, {}, {}, {}};
    expected = "the batch has 0 tokens, expected 1 to 4";
  }
  SUBCASE("too many tokens") {
    t = {{1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}, {}, {}};
    expected = "the batch has 5 tokens, expected 1 to 4";
  }
  SUBCASE("too few positions") {
    t.positions.pop_back();
    expected = "the batch has 3 tokens, but 2 positions and 3 streams";
  }
  SUBCASE("too few streams") {
    t.streams.pop_back();
    expected = "the batch has 3 tokens, but 3 positions and 2 streams";
  }
  SUBCASE("too many outputs") {
    t.outputs = {0, 1, 2};
    expected = "the batch requests 3 outputs, expected at most 2";
  }
  SUBCASE("a token past the vocabulary") {
    t.tokens[1] = 10;
    expected = "token id 10 is outside this model's vocabulary of 10";
  }
  SUBCASE("a negative token") {
    t.tokens[1] = -1;
    expected = "token id -1 is outside this model's vocabulary of 10";
  }
  SUBCASE("a position past the context") {
    t.positions[2] = 8;
    expected = "position 8 is outside the context of 8 tokens; raise it with -c";
  }
  SUBCASE("a negative position") {
    t.positions[2] = -1;
    expected = "position -1 is outside the context of 8 tokens; raise it with -c";
  }
  SUBCASE("a stream too many") {
    t.streams[2] = 2;
    expected = "stream 2 of the batch is out of range, expected 0 to 1";
  }
  SUBCASE("a negative stream") {
    t.streams[2] = -1;
    expected = "stream -1 of the batch is out of range, expected 0 to 1";
  }
  SUBCASE("an output past the batch") {
    t.outputs[1] = 3;
    expected = "output 3 is outside the batch of 3 tokens";
  }
  SUBCASE("a negative output") {
    t.outputs[0] = -1;
    expected = "output -1 is outside the batch of 3 tokens";
  }
  SUBCASE("input for a whole Program") {
    t.input.resize(4);
    expected = "the batch has 4 input elements, expected 0";
  }
  CHECK(refusal([&] { check_batch(program, small_config(), t.batch()); }) == expected);
}

TEST_CASE("the second part of a Program takes a row of input per token, or per output where its input is gathered") {
  Program program = program_of(10);
  program.values = {{"x", 4}};
  program.input = 0;
  Tokens t;
  const auto refused = [&] { return refusal([&] { check_batch(program, small_config(), t.batch()); }); };
  CHECK(refused() == "the batch has 0 input elements, expected 12");
  t.input.resize(12);
  CHECK(refused() == "");
  program.values[0].gathered = true;
  CHECK(refused() == "the batch has 12 input elements, expected 8");
}

TEST_CASE("a configuration out of range is refused by what is wrong with it") {
  Program program = program_of(10);
  program.kv_layers = {{1, 48, 64}};
  ExecutorConfig config = small_config();
  std::string expected;
  SUBCASE("a good one is not") {}
  SUBCASE("nor one without outputs") { config.max_outputs = 0; }
  SUBCASE("context") {
    config.context = 0;
    expected = "the context size is 0, expected 1 to 2147483647";
  }
  SUBCASE("positions past 32 bits") {
    config.context = int64_t{1} << 31;
    expected = "the context size is 2147483648, expected 1 to 2147483647";
  }
  SUBCASE("streams") {
    config.streams = 0;
    expected = "the number of streams is 0, expected 1 to 2147483647";
  }
  SUBCASE("batch") {
    config.max_batch = -1;
    expected = "the maximum batch size is -1, expected 1 to 2147483647";
  }
  SUBCASE("outputs") {
    config.max_outputs = -1;
    expected = "the maximum number of outputs is -1, expected 0 to 2147483647";
  }
  SUBCASE("threads") {
    config.threads = -1;
    expected = "the number of threads is -1, expected 0 to 2147483647";
  }
  SUBCASE("cache types") {
    config.k_type = KvType::q8_0;
    expected =
        "q8_0 keys in the KV cache need a head size that is a multiple of 32 elements, this model has 48; use -ctk f16";
  }
  CHECK(refusal([&] { check_config(program, config); }) == expected);
}

TEST_CASE("rope turns by the number of a picture where a pair with a frequency does") {
  Program program;
  CHECK(!rope_uses_picture_axis(program));
  RopeTable table{{1, 0.5f, 0}, 1, RopeStyle::split};
  program.rope_tables = {table};
  CHECK(!rope_uses_picture_axis(program));
  program.rope_tables[0].axes = {0, 1, 3};
  CHECK(!rope_uses_picture_axis(program)); // a pair without a frequency does not turn
  program.rope_tables[0].axes = {0, 3, 1};
  CHECK(rope_uses_picture_axis(program));
}
