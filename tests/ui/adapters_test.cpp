// LoRA adapters and compaction in a real window. Run by run_under_xvfb.sh.
#include "support/adapters.h"
#include "support/tiny_model.h"
#include "ui/driver.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

using namespace ridge;
using tests::eventually;
using tests::User;
using tests::with_chat;

namespace {

std::string answer_of(User& user, app::WindowEngine& engine, const std::string& question) {
  const size_t before = engine.snapshot()->messages.size();
  user.click("message box");
  user.type(question);
  user.press("Return");
  REQUIRE(eventually([&] {
    const auto at = engine.snapshot();
    return at->messages.size() == before + 2 && at->state == api::EngineState::idle;
  }));
  return engine.snapshot()->messages.back().text;
}

} // namespace

TEST_CASE("a LoRA adapter is added by its file, scaled and switched off, in each conversation for itself") {
  const tests::TemporaryFolder folder;
  tests::TinyModel{}.write(folder / "model.gguf");
  const gguf::File model = gguf::File::open(folder / "model.gguf");
  std::mt19937_64 random(2);
  tests::AdapterImage image("llama", 16);
  image.metadata.set("general.name", std::string("pirate"));
  for (const gguf::Tensor& tensor : model.tensors())
    if (tensor.n_dims > 1 && tensor.name.starts_with("blk.")) image.add_pair(tensor, 4, random);
  image.write(folder / "adapter.gguf");
  app::WindowSetup setup = tests::guide_setup();
  setup.model.model = folder / "model.gguf";
  setup.request.sampling.max_tokens = 12;
  setup.request.sampling.params.temp = 0;
  with_chat(folder, setup, [&](User& user, app::WindowEngine& engine) {
    const auto now = [&] { return engine.snapshot(); };
    const std::string usual = answer_of(user, engine, "one");
    const std::string first = now()->conversation;
    user.click("add…");
    user.press("ctrl+a");
    user.type(folder / "adapter.gguf");
    user.press("Return");
    REQUIRE(eventually([&] { return now()->adapters.size() == 1 && now()->state == api::EngineState::idle; }));
    CHECK(now()->adapters[0].scale == 1);
    CHECK(now()->messages.size() == 2);
    user.click("New conversation");
    REQUIRE(eventually([&] { return now()->messages.empty(); }));
    const std::string adapted = answer_of(user, engine, "one");
    const std::string second = now()->conversation;
    CHECK(adapted != usual);
    user.click("scale of pirate"); // its middle
    CHECK(eventually([&] { return std::abs(now()->adapters[0].scale - 1) < 0.1f; }));
    engine.send(api::intent::ScaleAdapter{0, 0.5f, true});
    REQUIRE(eventually([&] { return now()->adapters[0].scale == 0.5f; }));
    user.click("adapter pirate");
    REQUIRE(eventually([&] { return !now()->adapters[0].on; }));
    user.click("regenerate");
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->messages.size() == 2 && at->messages[1].versions == 2 && at->state == api::EngineState::idle;
    }));
    CHECK(now()->messages[1].text == usual);
    user.click("adapter pirate");
    REQUIRE(eventually([&] { return now()->adapters[0].on; }));
    engine.send(api::intent::OpenConversation{first}); // was without
    REQUIRE(eventually([&] { return now()->conversation == first && !now()->adapters[0].on; }));
    engine.send(api::intent::OpenConversation{second});
    REQUIRE(eventually([&] { return now()->conversation == second && now()->adapters[0].on; }));
    CHECK(now()->adapters[0].scale == 0.5f);
    user.click("×");
    REQUIRE(eventually([&] { return now()->adapters.empty() && now()->state == api::EngineState::idle; }));
    CHECK(now()->error == "");
  });
}

TEST_CASE("compaction is offered in a nearly full context, and the messages can be shown again") {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "conversations");
  std::string words, messages;
  for (int i = 0; i < 10; ++i) words += "Q4_K stores weights. ";
  for (int i = 0; i < 6; ++i)
    messages +=
        fmt::format(R"({}{{"role": "user", "content": "And Q{}_K?"}}, {{"role": "assistant", "content": "{}"}})",
                    i > 0 ? ", " : "", i + 1, words);
  folder.write("conversations/1.json",
               fmt::format(R"({{"title": "Long", "changed_ms": 1000, "messages": [{}]}})", messages));
  app::WindowSetup setup = tests::guide_setup();
  setup.model.context = 512;
  with_chat(folder, setup, [&](User& user, app::WindowEngine& engine) {
    const auto now = [&] { return engine.snapshot(); };
    user.click("Long");
    REQUIRE(eventually([&] { return now()->messages.size() == 12; }));
    user.click("compact the conversation");
    REQUIRE(eventually([&] { return now()->messages.size() == 1 && now()->state == api::EngineState::idle; }));
    CHECK(now()->messages[0].text.starts_with("This is a summary of our conversation so far:"));
    CHECK(now()->messages[0].versions == 2);
    CHECK(now()->conversations->at(0).title == "Long");
    CHECK(now()->kv.tokens < 400);
    CHECK(eventually([&] { return ui::places_of("compact the conversation").empty(); }));
    user.click("‹");
    REQUIRE(eventually([&] { return now()->messages.size() == 12; }));
    user.point(560, 300);
    user.act("click --repeat 60 --delay 5 4"); // scrolls to the first message
    user.click("›");
    REQUIRE(eventually([&] { return now()->messages.size() == 1; }));
    answer_of(user, engine, "Go on.");
    user.click("compact"); // on demand
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->messages.size() == 1 && at->messages[0].versions == 3 && at->state == api::EngineState::idle;
    }));
    CHECK(now()->error == "");
  });
}
