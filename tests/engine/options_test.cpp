// Recommended sampling, template variables, step sizes.
#include "engine/loading/fit.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"

#include "core/error.h"
#include "support/metadata_file.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace ridge;
using api::SamplingOptions;
using Strings = std::vector<std::string>;

namespace {

struct Taken {
  SamplingOptions options;
  Strings changed, notices;
};

Taken take(std::initializer_list<std::pair<const char*, gguf::OwnedValue>> keys, SamplingOptions options = {}) {
  gguf::Metadata metadata;
  metadata.set("general.architecture", "llama");
  for (const auto& [key, value] : keys) metadata.set(fmt::format("general.sampling.{}", key), value);
  Taken taken{std::move(options), {}, {}};
  taken.changed = engine::take_model_defaults(taken.options, tests::file_of(metadata),
                                              [&](const std::string& line) { taken.notices.push_back(line); });
  return taken;
}

// An unusable key changes nothing and gives one notice.
void expect_ignored(const char* key, const gguf::OwnedValue& value, const char* why) {
  CAPTURE(key);
  CAPTURE(why);
  const Taken taken = take({{key, value}, {"top_p", 0.5f}});
  CHECK(taken.changed == Strings{"top-p 0.5"});
  REQUIRE(taken.notices.size() == 1);
  CHECK(taken.notices[0].starts_with(fmt::format("memory.gguf: general.sampling.{} is ignored: ", key)));
  CHECK(taken.notices[0].find(why) != std::string::npos);
  CHECK(taken.notices[0].find('\n') == std::string::npos);
}

} // namespace

TEST_CASE("a model file's sampling stands in for what was not chosen") {
  const Taken taken = take({{"temp", 0.6f},
                            {"top_k", int32_t{20}},
                            {"top_p", 0.95f},
                            {"min_p", 0.0f},
                            {"penalty_repeat", 1.05f},
                            {"penalty_last_n", int32_t{-1}}});
  CHECK(taken.options.params.temp == 0.6f);
  CHECK(taken.options.params.top_k == 20);
  CHECK(taken.options.params.top_p == 0.95f);
  CHECK(taken.options.params.min_p == 0);
  CHECK(taken.options.params.repeat_penalty == 1.05f);
  CHECK(taken.options.params.repeat_last_n == -1);
  CHECK(taken.changed == Strings{"temp 0.6", "top-k 20", "min-p 0", "repeat-penalty 1.05", "repeat-last-n -1"});
  CHECK(taken.notices.empty());
}

TEST_CASE("what the user chose stays") {
  SamplingOptions options;
  options.params.temp = 0;
  options.chosen = {"temp", "min-p"};
  const Taken taken = take({{"temp", 0.6f}, {"top_k", int32_t{20}}, {"sequence", "top_k"}}, options);
  CHECK(taken.options.params.temp == 0);
  CHECK(taken.options.params.min_p == core::SamplerParams{}.min_p);
  CHECK(taken.changed == Strings{"top-k 20", "top-p 1"});
}

TEST_CASE("a file without the keys changes nothing, and numbers of every type are read") {
  CHECK(take({}).changed.empty());
  const Taken taken = take({{"temp", uint8_t{1}}, {"top_k", 64.0}, {"top_p", 0.9}});
  CHECK(taken.changed == Strings{"temp 1", "top-k 64", "top-p 0.9"});
  CHECK(take({{"top_k", int64_t{-1}}}).changed == Strings{"top-k 0"});
}

TEST_CASE("a value of a hostile file is ignored with one line") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  expect_ignored("temp", kNan, "--temp must be");
  expect_ignored("temp", kInf, "--temp must be");
  expect_ignored("temp", 1e300, "--temp must be");
  expect_ignored("temp", -1.0f, "--temp must be");
  expect_ignored("temp", "hot\n", "expected a number, found string");
  expect_ignored("temp", std::vector<float>{1}, "expected a number, found array");
  expect_ignored("top_k", uint64_t{1} << 40, "32-bit integer");
  expect_ignored("top_k", 2.5f, "32-bit integer");
  expect_ignored("top_k", kNan, "32-bit integer");
  expect_ignored("min_p", 1.5f, "--min-p must be");
  expect_ignored("penalty_repeat", 0.0f, "--repeat-penalty must be");
  expect_ignored("penalty_last_n", int32_t{-7}, "--repeat-last-n must be");
  expect_ignored("mirostat", int32_t{3}, "--mirostat must be");
  expect_ignored("xtc_probability", kNan, "--xtc-probability must be");
  expect_ignored("sequence", int32_t{1}, "expected a string");
  expect_ignored("sequence", "top_k;\033[2J", "\"\\x1b[2J\"");
  expect_ignored("sequence", ";;", "lists no sampler");
  CHECK(take({{"mirostat", int32_t{0}}, {"xtc_probability", 0.0f}, {"xtc_threshold", 0.1f}}).notices.empty());
}

TEST_CASE("a file's sequence switches off the samplers that it does not name") {
  SamplingOptions options;
  options.params.presence_penalty = 1;
  Taken taken = take({{"min_p", 0.1f}, {"sequence", "Top-K;topp;temperature"}}, options);
  CHECK(taken.changed == Strings{"min-p 0", "presence-penalty 0"});
  CHECK(taken.notices.empty());
  taken = take({{"sequence", "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"}}, options);
  CHECK(taken.changed.empty());
  CHECK(taken.notices.empty());
  taken = take({{"mirostat", int32_t{2}}, {"xtc_probability", 0.5f}});
  CHECK(taken.changed == Strings{"xtc-probability 0.5", "mirostat 2"});
  taken = take({{"sequence", "temperature;top_p"}});
  CHECK(taken.notices.empty());
  CHECK(taken.changed == Strings{"top-k 0", "min-p 0",
                                 "samplers temperature;top_p;penalties;dry;top_n_sigma;top_k;"
                                 "typ_p;min_p;xtc;adaptive_p"});
}

TEST_CASE("a template gets its switch for reasoning, and further variables") {
  const auto chat = [](const char* source) { return text::ChatTemplate::parse(source, "t"); };
  Strings notices;
  const engine::Notice notice = [&](const std::string& line) { notices.push_back(line); };
  const auto qwen = chat("{{ 'no' if enable_thinking is defined and not enable_thinking else 'yes' }}");
  const auto granite = chat("{{ 'yes' if thinking else 'no' }} {{ n }}");
  CHECK(engine::template_variables({}, qwen, notice).empty());
  for (const auto& [thinking, expected] : {std::pair{"on", "yes"}, {"off", "no"}}) {
    text::ChatOptions options;
    options.extra = engine::template_variables({.thinking = thinking, .variables = R"({"n": 3})"}, qwen, notice);
    CHECK(qwen.render(nlohmann::ordered_json::array(), options) == expected);
    CHECK(granite.render(nlohmann::ordered_json::array(), options) == fmt::format("{} 3", expected));
  }
  CHECK(notices.empty());
  engine::template_variables({.thinking = "off"}, chat("{{ messages[0].content }}"), notice);
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].starts_with("--thinking off: the chat template has no such option (some"));
  engine::template_variables({.thinking = "off"}, chat("{{ reasoning_effort }}"), notice);
  REQUIRE(notices.size() == 2);
  CHECK(notices[1].ends_with("no such option; use --chat-template-kwargs '{\"reasoning_effort\": \"low\"}'"));
  for (const char* wrong : {"{", "[1]", "true"})
    CHECK_THROWS_WITH_AS(engine::template_variables({.variables = wrong}, qwen, notice),
                         doctest::Contains("--chat-template-kwargs: expected a JSON object"), Error);
}

TEST_CASE("a step of many sequences takes as many tokens as the options allow, also where contexts are shorter") {
  const auto step = [](int64_t context, int64_t ubatch, int64_t streams) {
    api::ModelOptions options;
    options.context = context;
    options.ubatch = ubatch;
    core::ExecutorConfig config = engine::executor_config(options, 4096);
    engine::set_streams(config, options, streams);
    CHECK(config.streams == streams);
    return config.max_batch;
  };
  CHECK(step(4096, 512, 1) == 512);
  CHECK(step(256, 512, 1) == 256);
  CHECK(step(256, 512, 32) == 512);
  CHECK(step(100, 512, 3) == 300);
  CHECK(step(256, 16, 32) == 32);
  CHECK(step(4096, 0, 1) == 512);
  CHECK(engine::placement_of({.ubatch = 256}).long_batch == 0);
  CHECK(engine::placement_of({.batch = 1024}).long_batch == 1024);
}

TEST_CASE("an executor is batch-invariant where the options say so, a draft head's never") {
  CHECK_FALSE(engine::executor_config({}, 4096).batch_invariant);
  const core::ExecutorConfig config = engine::executor_config({.batch_invariant = true}, 4096);
  CHECK(config.batch_invariant);
  CHECK_FALSE(engine::head_config(config).batch_invariant);
}

TEST_CASE("the CPU computes experts where the options say so") {
  CHECK_FALSE(engine::placement_of({}).cpu_experts);
  CHECK(engine::placement_of({.cpu_experts = true}).cpu_experts);
}

TEST_CASE("several GPUs are not named where a single one is used") {
  api::ModelOptions options;
  options.ranks.gpus = "0,1";
  CHECK(engine::placement_of(options).gpus == std::vector<int>{0, 1});
  options.gpu_layers = 99;
  CHECK_THROWS_WITH_AS(engine::placement_of(options), doctest::Contains("-ngl"), Error);
  options.gpu_layers = -1;
  options.experts_on_host = true;
  CHECK_THROWS_WITH_AS(engine::placement_of(options), doctest::Contains("--cpu-moe"), Error);
  options.ranks.gpus = "1";
  CHECK(engine::placement_of(options).first_gpu() == 1);
}
