// The window's engine: stored conversations, choices, the machine's facts.
#include "app/support.h"
#include "core/error.h"
#include "support/reference.h"
#include "support/watched_engine.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>

using namespace ridge;
using namespace ridge::tests;
using json = nlohmann::ordered_json;
namespace intent = api::intent;

namespace {

app::WindowSetup guide_setup(const std::string& conversations = "") {
  app::WindowSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.request.sampling.params.seed = 1;
  setup.request.sampling.max_tokens = 24;
  setup.conversation_folder = conversations;
  return setup;
}

struct Watched : WatchedEngine {
  using WatchedEngine::WatchedEngine;
  void ask(const std::string& text) {
    const size_t before = now()->messages.size();
    engine.send(intent::Send{text});
    until([&](const api::Snapshot& s) { return s.messages.size() == before + 2 && s.state == api::EngineState::idle; });
  }
};

std::vector<std::string> titles(const api::Snapshot& s) {
  std::vector<std::string> result;
  for (const auto& row : *s.conversations) result.push_back(row.title);
  return result;
}

} // namespace

TEST_CASE("conversations are kept in files, listed with the newest first, opened again, renamed and deleted") {
  const TemporaryFolder folder;
  const std::string files = folder / "conversations";
  std::string first_answer;
  {
    Watched w(guide_setup(files));
    CHECK(w.now()->conversations->empty());
    w.ask("What is Q4_K?");
    first_answer = w.now()->messages[1].text;
    CHECK(!first_answer.empty());
    w.engine.send(intent::SetSystemPrompt{"Be brief."});
    w.engine.send(intent::NewConversation{});
    w.until([](const api::Snapshot& s) { return s.messages.empty(); });
    w.ask("What is a super-block made of, and why would anyone care about that?");
    CHECK(titles(*w.now()) == std::vector<std::string>{"What is a super-block made of, and why w…", "What is Q4_K?"});
  }
  Watched w(guide_setup(files));
  REQUIRE(w.now()->conversations->size() == 2);
  const std::string id = w.now()->conversations->at(1).id;
  w.engine.send(intent::OpenConversation{id});
  w.until([&](const api::Snapshot& s) { return s.conversation == id; });
  REQUIRE(w.now()->messages.size() == 2);
  CHECK(w.now()->messages[0].text == "What is Q4_K?");
  CHECK(w.now()->messages[1].text == first_answer);
  w.ask("And Q6_K?");
  CHECK(w.now()->messages.size() == 4);
  CHECK(titles(*w.now())[0] == "What is Q4_K?");

  w.engine.send(intent::RenameConversation{id, "K-quants"});
  w.until([](const api::Snapshot& s) { return titles(s)[0] == "K-quants"; });
  w.engine.send(intent::DeleteConversation{w.now()->conversations->at(1).id});
  w.until([](const api::Snapshot& s) { return s.conversations->size() == 1; });
  CHECK(w.now()->messages.size() == 4);
  w.engine.send(intent::DeleteConversation{id});
  w.until([](const api::Snapshot& s) { return s.conversations->empty() && s.messages.empty(); });
  CHECK(std::filesystem::is_empty(files));
  CHECK(w.now()->error == "");
}

TEST_CASE("each model brings the sampling it recommends, and what the user chose stays") {
  const TemporaryFolder folder;
  TinyModel model;
  model.further.set("general.sampling.temp", 0.5f);
  model.further.set("general.sampling.top_k", int32_t{7});
  model.write(folder / "recommends.gguf");
  app::WindowSetup setup = guide_setup();
  setup.model.model = folder / "recommends.gguf";
  setup.remember_files = false;
  Watched w(std::move(setup));
  CHECK(w.now()->sampling.temp == 0.5f);
  CHECK(w.now()->sampling.top_k == 7);
  CHECK(w.now()->sampling.seed == 1);
  core::SamplerParams params = w.now()->sampling;
  params.top_k = 9;
  w.engine.send(intent::SetSampling{params, 24});
  w.until([](const api::Snapshot& s) { return s.sampling.top_k == 9; });
  w.engine.send(intent::OpenModel{""});
  w.until([](const api::Snapshot& s) { return s.model && s.model->built_in && s.state == api::EngineState::idle; });
  CHECK(w.now()->sampling.temp == core::SamplerParams{}.temp);
  CHECK(w.now()->sampling.top_k == 9);
  w.engine.send(intent::OpenModel{folder / "recommends.gguf"});
  w.until([](const api::Snapshot& s) { return s.model && !s.model->built_in && s.state == api::EngineState::idle; });
  CHECK(w.now()->sampling.temp == 0.5f);
  CHECK(w.now()->sampling.top_k == 9);
}

TEST_CASE("a diffusion model's answer is seen while it forms") {
  const TemporaryFolder folder;
  TinyModel model;
  model.architecture = "llada";
  model.controls = {"<|mask|>"};
  constexpr uint32_t kMask = 5 + 256 + 1 + 94 + 7;
  model.further.set("tokenizer.ggml.mask_token_id", kMask);
  model.write(folder / "llada.gguf");
  app::WindowSetup setup = guide_setup();
  setup.model.model = folder / "llada.gguf";
  setup.remember_files = false;
  std::mutex mutex;
  std::vector<api::Snapshot> forming;
  std::atomic<app::WindowEngine*> made = nullptr;
  app::WindowEngine engine(std::move(setup), [&] {
    const app::WindowEngine* now = made;
    if (!now || now->snapshot()->messages.empty() || now->snapshot()->messages.back().forming.empty()) return;
    const std::lock_guard lock(mutex);
    forming.push_back(*now->snapshot());
  });
  made = &engine;
  const auto idle = [&](size_t messages) {
    return eventually([&] {
      const auto s = engine.snapshot();
      return s->model && s->state == api::EngineState::idle && s->messages.size() == messages;
    });
  };
  REQUIRE(idle(0));
  engine.send(intent::Send{"Hello"});
  REQUIRE(idle(2));
  const api::ChatMessage answer = engine.snapshot()->messages.back();
  CHECK(answer.forming.empty());
  REQUIRE(answer.facts);
  CHECK(answer.facts->tokens <= 24);
  CHECK(answer.facts->bytes_per_s > 0);
  const std::lock_guard lock(mutex);
  REQUIRE_FALSE(forming.empty());
  CHECK(forming.front().messages.back().forming.find("\u2591") != std::string::npos);
  CHECK(forming.front().state == api::EngineState::writing);
  CHECK(forming.front().speed.answer_tokens > 0); // places that are decided
}

TEST_CASE("a damaged conversation is reported and left as it is, and the others are there") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  write("1.json", R"({"title": "good", "messages": [{"role": "user", "content": "hello"}]})");
  for (const char* bad : {"", "{", "[]", "{}", R"({"messages": 3})", R"({"messages": [{"role": "user"}]})",
                          R"({"messages": [{"role": "user", "content": 3}]})", "\xff\xfe"}) {
    write("2.json", bad);
    const app::ConversationStore store(folder / "");
    INFO(bad);
    CHECK(store.list().size() == 1);
    CHECK(store.problem().find("2.json") != std::string::npos);
    CHECK(read_file(folder / "2.json") == bad);
  }
  write("2.json", "{");
  Watched w(guide_setup(folder / ""));
  CHECK(w.now()->error.find("2.json") != std::string::npos);
  CHECK(titles(*w.now()) == std::vector<std::string>{"good"});
}

TEST_CASE("two windows in one conversation: neither loses what the other one wrote") {
  const TemporaryFolder folder;
  const auto said = [](const api::Snapshot& s) {
    std::vector<std::string> questions;
    for (const auto& m : s.messages)
      if (m.user) questions.push_back(m.text);
    return questions;
  };
  const auto open = [](Watched& w, const std::string& id) {
    w.engine.send(intent::NewConversation{});
    w.engine.send(intent::OpenConversation{id});
    w.until([&](const api::Snapshot& s) { return s.conversation == id && !s.messages.empty(); });
  };
  using Texts = std::vector<std::string>;
  Watched first(guide_setup(folder / ""));
  first.ask("What is Q4_K?");
  const std::string id = first.now()->conversation;
  Watched second(guide_setup(folder / ""));
  open(second, id);
  second.ask("And Q6_K?");
  CHECK(second.now()->error == "");
  first.ask("And Q8_0?");
  first.until([](const api::Snapshot& s) { return s.error.find("another window") != s.error.npos; });
  const std::string copy = first.now()->conversation;
  CHECK(copy != id);
  CHECK(first.now()->conversations->size() == 2);
  first.ask("And F16?");
  CHECK(first.now()->conversation == copy);
  CHECK(said(*first.now()) == Texts{"What is Q4_K?", "And Q8_0?", "And F16?"});
  open(first, id); // as the second window saved it
  CHECK(said(*first.now()) == Texts{"What is Q4_K?", "And Q6_K?"});
  second.ask("And Q5_K?");
  first.engine.send(intent::NewConversation{});
  first.engine.send(intent::RenameConversation{id, "K-quants"}); // with the second window's additions
  first.until([](const api::Snapshot& s) { return titles(s)[0] == "K-quants"; });
  open(first, id);
  CHECK(said(*first.now()) == Texts{"What is Q4_K?", "And Q6_K?", "And Q5_K?"});
}

TEST_CASE("a conversation that is removed by its own name takes no other one with it") {
  const TemporaryFolder folder;
  app::ConversationStore store(folder / "");
  const std::string kept = store.create().id;
  store.save(kept);
  app::StoredConversation& gone = store.create(); // listed, never saved
  store.remove(gone.id);
  REQUIRE(store.list().size() == 1);
  CHECK(store.list()[0].id == kept);
  CHECK(std::filesystem::exists(folder / (kept + ".json")));
}

TEST_CASE("a system prompt that another program keeps among the messages stays") {
  const TemporaryFolder folder;
  folder.write("1.json", R"({"messages": [{"role": "system", "content": "Be brief."},
                                          {"role": "user", "content": "hello"}]})");
  app::ConversationStore store(folder / "");
  REQUIRE(store.list().size() == 1);
  CHECK(store.list()[0].system == "Be brief.");
  CHECK(store.list()[0].messages.size() == 1);
  store.save("1");
  CHECK(app::ConversationStore(folder / "").list()[0].system == "Be brief.");
}

TEST_CASE("a conversation whose file cannot be removed stays in the list") {
  const TemporaryFolder folder;
  app::ConversationStore store(folder / "");
  const std::string id = store.create().id;
  std::filesystem::create_directories(folder / (id + ".json/in the way"));
  CHECK_THROWS_AS(store.remove(id), Error);
  CHECK(store.list().size() == 1);
}

TEST_CASE("a folder that cannot be written to costs a message, not the conversation") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  Watched w(guide_setup(folder / "file/conversations"));
  w.ask("What is Q4_K?");
  w.until([](const api::Snapshot& s) { return !s.error.empty(); });
  CHECK(w.now()->messages.size() == 2);
  w.ask("And Q6_K?");
  CHECK(w.now()->messages.size() == 4);
}

TEST_CASE("a title is the first line of the question, cut between characters") {
  const auto title_of = [](const std::string& text) { return app::title_of({true, text, "", "", nullptr, {}}); };
  CHECK(title_of("  hello\nworld") == "hello");
  CHECK(title_of("") == "");
  std::string longest;
  for (int i = 0; i < 50; ++i) longest += "ж";
  CHECK(title_of(longest) == longest.substr(0, 80) + "…");
}

TEST_CASE("each token of an answer comes with the likeliest ones, whose probabilities are the model's") {
  Watched w(guide_setup());
  w.ask("What is Q4_K?");
  const auto s = w.now();
  const api::ChatMessage& answer = s->messages[1];
  REQUIRE(answer.choices);
  REQUIRE(!answer.choices->empty());
  uint32_t end = 0;
  for (const core::TokenChoice& choice : *answer.choices) {
    CHECK(choice.end >= end);
    end = choice.end;
    CHECK(choice.probability() > 0);
    CHECK(choice.probability() <= choice.top[0].probability());
    double sum = 0;
    for (size_t i = 0; i < choice.top.size(); ++i) {
      sum += choice.top[i].probability();
      if (i > 0) CHECK(choice.top[i].probability() <= choice.top[i - 1].probability());
      CHECK(choice.top[i].token >= 0);
      CHECK(static_cast<size_t>(choice.top[i].token) < s->vocabulary->size());
    }
    CHECK(sum <= 1.0001);
  }
  CHECK(end == answer.text.size());
  w.engine.send(intent::KeepChoices{false});
  w.engine.send(intent::Regenerate{});
  w.until([](const api::Snapshot& now) { return now.state == api::EngineState::idle && !now.messages[1].choices; });
}

TEST_CASE("a measured step moves the bytes that a predicted one moves, and the roofs bound both") {
  Watched w(guide_setup());
  w.engine.send(intent::MeasureRoofs{});
  w.engine.send(intent::MeasureStep{100});
  w.until([](const api::Snapshot& s) { return s.roofs && s.measured && s.measured->past == 100; });
  w.until([](const api::Snapshot& s) { return s.state == api::EngineState::idle; });
  const auto predict = [&](int64_t past, int64_t streams, const std::string& format) {
    w.engine.send(intent::PredictStep{past, streams, format});
    w.until([&](const api::Snapshot& s) {
      return s.predicted && s.predicted->past == past && s.predicted->streams == streams &&
             s.predicted->format == format;
    });
    return w.now()->predicted;
  };
  const auto sum = [](const api::StepRoofline& places, double api::StepRoofline::Op::*what) {
    double total = 0;
    for (const auto& op : places.ops) total += op.*what;
    return total;
  };
  using Op = api::StepRoofline::Op;
  const auto same = predict(100, 1, "");
  const auto measured = w.now()->measured;
  CHECK(sum(*measured, &Op::bytes) == doctest::Approx(sum(*same, &Op::bytes)));
  CHECK(sum(*measured, &Op::flops) == doctest::Approx(sum(*same, &Op::flops)));
  CHECK(measured->seconds > 0);
  for (const Op& op : measured->ops) {
    CHECK(op.seconds > 0);
    CHECK(op.floor_seconds > 0);
    CHECK(!op.bound_by.empty());
  }
  CHECK(sum(*predict(900, 1, ""), &Op::bytes) > sum(*same, &Op::bytes));
  CHECK(sum(*predict(100, 8, ""), &Op::flops) == doctest::Approx(8 * sum(*same, &Op::flops)));
  CHECK(sum(*predict(100, 8, ""), &Op::bytes) < 4 * sum(*same, &Op::bytes)); // the weights are read once
  CHECK(sum(*predict(100, 1, "F32"), &Op::bytes) > 3 * sum(*same, &Op::bytes));
  CHECK(w.now()->error == "");
  // The measurement left the KV cache intact.
  w.ask("What is Q4_K?");
  const std::string answer = w.now()->messages[1].text;
  w.engine.send(intent::MeasureStep{5});
  w.until([](const api::Snapshot& s) { return s.measured->past == 5; });
  w.engine.send(intent::Regenerate{});
  w.engine.send(intent::SetSystemPrompt{"after it"});
  w.until([](const api::Snapshot& s) { return s.system_prompt == "after it"; });
  CHECK(w.now()->messages[1].text == answer);
}
