// LoRA adapters per sequence; cached prefixes must not mix them.
#include "engine/adapters/adapters.h"

#include "core/error.h"
#include "engine/options.h"
#include "engine/prefixes/prefix_store.h"
#include "engine/sequences/scheduler.h"
#include "support/adapters.h"
#include "support/http/requests.h"
#include "support/numerics.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

using namespace ridge;
using tests::AdapterImage;

namespace {

using Tokens = std::vector<int32_t>;
using Scales = std::vector<float>;

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();
const Tokens kInvocation = {200, 201};

// Two adapters of all layers, one activated by an invocation.
struct Adapted {
  tests::TemporaryFolder folder;
  engine::LoadedModel model;

  explicit Adapted(int64_t streams = 3) : model(open(folder)) {
    core::ExecutorConfig config = engine::executor_config({}, model.program.trained_context);
    config.streams = config.max_outputs = streams;
    config.exact = true; // independent of the batch
    engine::start_executor(model, config, "cpu");
  }
  static engine::LoadedModel open(const tests::TemporaryFolder& folder) {
    tests::TinyModel{}.write(folder / "model.gguf");
    const gguf::File file = gguf::File::open(folder / "model.gguf");
    std::mt19937_64 random(3);
    std::vector<api::AdapterOption> options;
    for (const char* name : {"one.gguf", "two.gguf", "activated.gguf"}) {
      AdapterImage image("llama", 16);
      for (const gguf::Tensor& tensor : file.tensors())
        if (tensor.n_dims > 1 && tensor.name.starts_with("blk.")) image.add_pair(tensor, 4, random);
      if (name[0] == 'a') image.metadata.set("adapter.alora.invocation_tokens", kInvocation);
      image.write(folder / name);
      options.push_back({folder / name, name[0] == 'o' ? 0.5 : 0});
    }
    return engine::with_adapters(engine::open_model(folder / "model.gguf"), options);
  }
};

struct Asked {
  Tokens answer;
  int64_t cached;
};

engine::SequenceRequest request_of(const Tokens& prompt, const Scales& scales) {
  engine::SequenceRequest request = tests::request_of(prompt, 12);
  request.adapter_scales = scales;
  return request;
}

Asked rest_of(engine::Sequence& sequence) {
  Asked asked;
  while (const auto token = sequence.next()) asked.answer.push_back(token->id);
  asked.cached = sequence.cached_tokens();
  return asked;
}

Asked ask(engine::Scheduler& scheduler, const Tokens& prompt, const Scales& scales) {
  return rest_of(*scheduler.submit(request_of(prompt, scales)));
}

Tokens some_tokens(uint64_t seed, int64_t count) {
  std::mt19937_64 random(seed);
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(5 + static_cast<int32_t>(random() % 190));
  return tokens;
}

} // namespace

TEST_CASE("adapters are named with scales") {
  const tests::TemporaryFolder folder;
  folder.write("a:1.gguf", "");
  const auto parsed = engine::parse_adapters("x.gguf,y.gguf:0.25,z.gguf:-2");
  REQUIRE(parsed.size() == 3);
  CHECK(parsed[0].file == "x.gguf");
  CHECK(parsed[0].scale == 1);
  CHECK(parsed[1].file == "y.gguf");
  CHECK(parsed[1].scale == 0.25);
  CHECK(parsed[2].scale == -2);
  CHECK(engine::parse_adapters(folder / "a:1.gguf")[0].file == folder / "a:1.gguf");
  for (const char* wrong : {"x.gguf:much", "x.gguf:", "x.gguf:1e9", "x.gguf:nan", "x.gguf,,y.gguf", ""})
    CHECK_THROWS_AS(engine::parse_adapters(wrong), Error);
}

TEST_CASE("an activated adapter counts from its last invocation on, and a text is marked where adapters begin") {
  const std::vector<core::Adapter> adapters = {{"plain", "", 11, 0.5f}, {"activated", "", 22, 1, kInvocation}};
  const Tokens text = {1, 200, 201, 7, 200, 201, 8}, none = {1, 200, 7};
  auto uses = engine::adapter_uses(adapters, {}, text);
  CHECK(uses[0].scale == 0.5f);
  CHECK(uses[0].from == 0);
  CHECK(uses[1].from == 4);
  CHECK(engine::adapter_uses(adapters, {}, none)[1].from == kNowhere);
  CHECK_THROWS_AS(engine::adapter_uses(adapters, Scales{1}, text), Error);
  CHECK_THROWS_AS(engine::adapter_uses(adapters, Scales{1, INFINITY}, text), Error);

  const auto marked = [&](const Scales& scales, const Tokens& of) {
    return engine::marked_text(of, adapters, engine::adapter_uses(adapters, scales, of));
  };
  CHECK(marked({0, 0}, text).empty());
  CHECK(marked({0, 1}, none).empty());
  const Tokens late = marked({0, 1}, text);
  CHECK(std::equal(late.begin(), late.begin() + 4, text.begin()));
  CHECK(engine::is_adapter_mark(late[4]));
  CHECK(late[5] == 201);
  CHECK(marked({0.5f, 0}, text)[0] != marked({0.25f, 0}, text)[0]);
  CHECK(marked({0.5f, 1}, text)[0] == marked({0.5f, 0}, text)[0]);
  CHECK(marked({0.5f, 1}, text)[4] != late[4]);
}

TEST_CASE("sequences with different scales run together, each as alone") {
  const std::vector<Scales> all = {{}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0.5f, -0.5f, 0}};
  const Tokens prompt = some_tokens(tests::printed_seed(), 40);
  std::vector<Tokens> alone;
  for (const Scales& scales : all) {
    Adapted one(1);
    engine::Scheduler scheduler(*one.model.executor, one.model.program);
    alone.push_back(ask(scheduler, prompt, scales).answer);
  }
  CHECK(alone[0] != alone[1]);
  CHECK(alone[2] != alone[3]);
  Adapted together;
  engine::Scheduler scheduler(*together.model.executor, together.model.program, nullptr, {.bytes = 1 << 24});
  std::vector<std::shared_ptr<engine::Sequence>> sequences;
  for (int round = 0; round < 2; ++round)
    for (const Scales& scales : all) sequences.push_back(scheduler.submit(request_of(prompt, scales)));
  for (size_t i = 0; i < sequences.size(); ++i) {
    CAPTURE(i);
    CHECK(rest_of(*sequences[i]).answer == alone[i % all.size()]);
  }
  CHECK_THROWS_AS(scheduler.submit(request_of(prompt, {1})), Error);
}

TEST_CASE("prefixes are kept apart by adapters and scales, on streams, in memory and in files") {
  const tests::TemporaryFolder kept;
  const Tokens prompt = some_tokens(7, 120), other = some_tokens(8, 120);
  Tokens plain, scaled;
  {
    Adapted adapted(1);
    engine::Scheduler scheduler(*adapted.model.executor, adapted.model.program, nullptr,
                                {1 << 24, kept / "prefixes", 1 << 24, "a model"});
    plain = ask(scheduler, prompt, {0, 0, 0}).answer;
    CHECK(ask(scheduler, prompt, {1, 0, 0}).cached == 0);
    const Asked again = ask(scheduler, prompt, {1, 0, 0});
    CHECK(again.cached == 119);
    scaled = again.answer;
    CHECK(scaled != plain);
    CHECK(ask(scheduler, prompt, {0.5f, 0, 0}).cached == 0);
    CHECK(ask(scheduler, prompt, {0, 1, 0}).cached == 0);
    ask(scheduler, other, {});
    const Asked back = ask(scheduler, prompt, {0, 0, 0});
    CHECK(back.cached == 119);
    CHECK(back.answer == plain);
    CHECK(ask(scheduler, prompt, {1, 0, 0}).answer == scaled);
    scheduler.drain();
  }
  Adapted adapted(1);
  engine::Scheduler scheduler(*adapted.model.executor, adapted.model.program, nullptr,
                              {1 << 24, kept / "prefixes", 1 << 24, "a model"});
  const Asked from_file = ask(scheduler, prompt, {1, 0, 0});
  CHECK(from_file.cached > 100);
  CHECK(from_file.answer == scaled);
  CHECK(ask(scheduler, prompt, {0.75f, 0, 0}).cached == 0);
}

TEST_CASE("what comes before an invocation is shared with texts without the adapter") {
  Adapted adapted(1);
  engine::Scheduler scheduler(*adapted.model.executor, adapted.model.program);
  const Tokens question = some_tokens(9, 60);
  Tokens invoked = question;
  invoked.insert(invoked.end(), kInvocation.begin(), kInvocation.end());
  invoked.push_back(9);
  const Tokens base = ask(scheduler, question, {0, 0, 0}).answer;
  const Asked without = ask(scheduler, invoked, {0, 0, 0});
  CHECK(without.cached == 60);
  const Asked with = ask(scheduler, invoked, {0, 0, 1});
  CHECK(with.cached == 60);
  CHECK(with.answer != without.answer);
  CHECK(ask(scheduler, question, {0, 0, 1}).answer == base);
  Adapted fresh(1);
  engine::Scheduler alone(*fresh.model.executor, fresh.model.program);
  CHECK(ask(alone, invoked, {0, 0, 1}).answer == with.answer);
}
