// Message versions, search, export in the window's engine.
#include "app/support.h"
#include "app/window_words.h"
#include "core/error.h"
#include "support/watched_engine.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

using namespace ridge;
using namespace ridge::tests;
namespace intent = api::intent;

namespace {

app::WindowSetup versions_setup(const std::string& conversations = "") {
  app::WindowSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.request.sampling.max_tokens = 12;
  setup.conversation_folder = conversations;
  setup.remember_files = false;
  return setup;
}

struct Versions : WatchedEngine {
  using WatchedEngine::WatchedEngine;
  void send(api::Intent what, size_t messages) {
    const auto before = texts();
    engine.send(std::move(what));
    until([&](const api::Snapshot& s) {
      return s.messages.size() == messages && s.state == api::EngineState::idle && texts() != before;
    });
  }
  std::vector<std::string> texts() const { return texts_of(*now()); }
  static std::vector<std::string> texts_of(const api::Snapshot& s) {
    std::vector<std::string> all;
    for (const api::ChatMessage& m : s.messages)
      all.push_back(fmt::format("{}/{} {}", m.version + 1, m.versions, m.user ? m.text : "-"));
    return all;
  }
};

using Texts = std::vector<std::string>;

std::string text_of_file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("messages that are written again leave the earlier ones, with what followed, also in the file") {
  const TemporaryFolder folder;
  std::string id;
  {
    Versions w(versions_setup(folder / "c"));
    w.send(intent::Send{"one"}, 2);
    w.send(intent::Send{"two"}, 4);
    w.send(intent::EditAndResend{2, "deux"}, 4);
    CHECK(w.texts() == Texts{"1/1 one", "1/1 -", "2/2 deux", "1/1 -"});
    w.send(intent::Regenerate{}, 4);
    CHECK(w.texts() == Texts{"1/1 one", "1/1 -", "2/2 deux", "2/2 -"});
    w.send(intent::Regenerate{1}, 2);
    CHECK(w.texts() == Texts{"1/1 one", "2/2 -"});
    w.send(intent::ShowVersion{1, 0}, 4);
    CHECK(w.texts() == Texts{"1/1 one", "1/2 -", "2/2 deux", "2/2 -"});
    w.send(intent::ShowVersion{2, 0}, 4);
    CHECK(w.texts() == Texts{"1/1 one", "1/2 -", "1/2 two", "1/1 -"});
    w.engine.send(intent::ShowVersion{2, 7}); // no such version
    w.engine.send(intent::ShowVersion{9, 0});
    id = w.now()->conversation;
  }
  const auto file = nlohmann::json::parse(text_of_file(folder / ("c/" + id + ".json")));
  CHECK(file["messages"].size() == 4); // the shown path
  CHECK(file["messages"][2]["content"] == "two");
  CHECK(file["versions"].size() == 4);
  Versions w(versions_setup(folder / "c"));
  w.send(intent::OpenConversation{id}, 4);
  CHECK(w.texts() == Texts{"1/1 one", "1/2 -", "1/2 two", "1/1 -"});
  w.send(intent::ShowVersion{2, 1}, 4);
  CHECK(w.texts() == Texts{"1/1 one", "1/2 -", "2/2 deux", "2/2 -"});
  w.send(intent::Send{"three"}, 6);
  CHECK(w.now()->error == "");
}

TEST_CASE("versions in a file that make no sense are refused, and the file stays") {
  const std::string begin = R"({"messages": [{"role": "user", "content": "a"}], )";
  for (const char* rest :
       {R"("orders": [0], "versions": [{"role": "user", "content": "b", "order": 0, "parent": -1}]})",
        R"("orders": [0], "versions": [{"role": "user", "content": "b", "order": 1, "parent": 1}]})",
        R"("orders": [0], "versions": [{"role": "user", "content": "b", "order": 7, "parent": 0}]})",
        R"("orders": [1], "versions": [{"role": "user", "content": "b", "order": 0, "parent": 5}]})",
        R"("orders": [0], "versions": [{"role": "user", "content": "b"}]})", R"("orders": [], "versions": []})",
        R"("orders": [-1], "versions": []})", R"("orders": ["x"], "versions": []})", R"("orders": [0], "versions": 3})",
        R"("orders": [1e300], "versions": []})"}) {
    CAPTURE(rest);
    const TemporaryFolder folder;
    folder.write("1.json", begin + rest);
    app::ConversationStore store(folder / "");
    CHECK(store.list().empty());
    CHECK(store.problem().find("left unchanged") != std::string::npos);
    CHECK(text_of_file(folder / "1.json") == begin + rest);
  }
}

TEST_CASE("an answer says how it was made, is edited in its place, and is made again by another model") {
  Versions w(versions_setup());
  w.send(intent::Send{"What is Q4_K?"}, 2);
  const api::AnswerFacts facts = w.now()->messages[1].facts.value();
  CHECK(facts.model == w.now()->model->label);
  CHECK(facts.tokens > 0);
  CHECK(facts.prompt_tokens > 0);
  CHECK(facts.tokens_per_s() > 0);
  CHECK(facts.bytes_per_s > 0);
  CHECK(!w.now()->messages[0].facts);
  w.engine.send(intent::EditAnswer{1, "It is a format."});
  w.until([](const api::Snapshot& s) { return s.messages[1].text == "It is a format."; });
  CHECK(w.now()->messages[1].versions == 1);
  w.send(intent::Regenerate{1, tiny_model()}, 2);
  CHECK(w.now()->model->path == tiny_model());
  CHECK(w.now()->messages[1].versions == 2);
  CHECK(w.now()->messages[1].facts->model == w.now()->model->label);
  CHECK(w.now()->messages[1].facts->model != facts.model);
}

TEST_CASE("conversations are searched by what is in them, and written out as Markdown") {
  const TemporaryFolder folder;
  folder.write("1.json", R"({"title": "Cats", "messages": [{"role": "user", "content": "Tell me about Größe and lions"},
                            {"role": "assistant", "content": "**Lions** are\nlarge.", "statistics": 3}]})");
  folder.write("2.json", R"({"title": "Dogs", "messages": [{"role": "user", "content": "And wolves?"}]})");
  Versions w(versions_setup(folder / ""));
  w.engine.send(intent::SearchConversations{"LION"});
  w.until([](const api::Snapshot& s) { return s.searched == "LION"; });
  REQUIRE(w.now()->conversations->size() == 1);
  CHECK(w.now()->conversations->at(0).title == "Cats");
  CHECK(w.now()->conversations->at(0).excerpt == "…Größe and lions");
  w.engine.send(intent::SearchConversations{"dog"});
  w.until([](const api::Snapshot& s) { return s.searched == "dog"; });
  REQUIRE(w.now()->conversations->size() == 1);
  CHECK(w.now()->conversations->at(0).excerpt.empty());
  w.engine.send(intent::SearchConversations{""});
  w.until([](const api::Snapshot& s) { return s.conversations->size() == 2; });

  w.engine.send(intent::SetSystemPrompt{"Be brief."});
  w.engine.send(intent::OpenConversation{"1"});
  w.until([](const api::Snapshot& s) { return s.messages.size() == 2; });
  w.engine.send(intent::ExportConversation{folder / "out.md"});
  w.until(
      [](const api::Snapshot& s) { return s.notice_number > 0 && s.notices.back().find("out.md") != s.error.npos; });
  CHECK(text_of_file(folder / "out.md") ==
        "# Cats\n\n## You\n\nTell me about Größe and lions\n\n## Answer\n\n**Lions** are\nlarge.\n");
  w.engine.send(intent::ExportConversation{folder / "none/out.md"});
  w.until([](const api::Snapshot& s) { return s.error.find("none/out.md") != s.error.npos; });
}

TEST_CASE("a model opens without a measurement, which comes when the machine is idle and is kept") {
  const TemporaryFolder folder;
  ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
  {
    Versions w(versions_setup());
    CHECK(w.now()->speed.roof_bytes_per_s == 0);
    w.until([](const api::Snapshot& s) { return s.speed.roof_bytes_per_s > 0; });
  }
  Versions w(versions_setup());
  CHECK(w.now()->speed.roof_bytes_per_s > 0);
}

TEST_CASE("a model is opened with settings that say beforehand how it fits, and keeps them") {
  Versions w(versions_setup());
  api::ModelOptions options = w.now()->options;
  const auto fit = [&] {
    w.engine.send(intent::FitModel{tiny_model(), options});
    w.until([&](const api::Snapshot& s) {
      return s.fit && s.fit->path == tiny_model() &&
             (options.context < 0 || s.fit->context == options.context || !s.fit->problem.empty());
    });
    return *w.now()->fit;
  };
  options.context = 64;
  const api::FitFacts small = fit();
  CHECK(small.problem.empty());
  CHECK(small.layers > 0);
  CHECK(small.cpu->weights > 0);
  CHECK(small.cpu->total() < small.cpu->free);
  options.context = 128;
  CHECK(fit().cpu->cache > small.cpu->cache);
  options.k_type = options.v_type = "f32";
  w.engine.send(intent::OpenModel{tiny_model(), options});
  w.until([](const api::Snapshot& s) { return s.model->path == tiny_model() && s.options.context == 128; });
  CHECK(w.now()->kv.context == 128);
  w.engine.send(intent::OpenModel{""});
  w.until([](const api::Snapshot& s) { return s.model->built_in && s.kv.context == 128; });
  options.context = 64;
  const uint64_t errors = w.now()->error_number;
  w.engine.send(intent::OpenModel{"no-such.gguf", options});
  w.until([&](const api::Snapshot& s) { return s.error_number > errors; });
  CHECK(w.now()->options.context == 128);
  options.context = -1;
  w.engine.send(intent::FitModel{"no-such.gguf", options});
  w.until([](const api::Snapshot& s) { return s.fit->path == "no-such.gguf"; });
  CHECK(w.now()->fit->problem.find("no-such.gguf") != std::string::npos);
}

TEST_CASE("presets keep a system prompt and sampling by name, in the user's folder") {
  const TemporaryFolder folder;
  app::WindowSetup setup = versions_setup();
  setup.preset_file = folder / "config/presets.json";
  {
    Versions w(setup);
    core::SamplerParams params = w.now()->sampling;
    params.temp = 0.25f;
    params.top_k = 7;
    w.engine.send(intent::SetSystemPrompt{"Be brief."});
    w.engine.send(intent::SetSampling{params, 99});
    w.engine.send(intent::SavePreset{"brief"});
    w.engine.send(intent::SavePreset{"other"});
    w.engine.send(intent::DeletePreset{"other"});
    w.engine.send(intent::SetSystemPrompt{"all is done"});
    w.until([](const api::Snapshot& s) { return s.system_prompt == "all is done"; });
    CHECK(w.now()->presets.size() == 1);
  }
  Versions w(setup);
  REQUIRE(w.now()->presets.size() == 1);
  CHECK(w.now()->system_prompt.empty());
  w.engine.send(intent::UsePreset{"none"});
  w.engine.send(intent::UsePreset{"brief"});
  w.until([](const api::Snapshot& s) { return s.system_prompt == "Be brief." && s.max_tokens == 99; });
  CHECK(w.now()->sampling.temp == 0.25f);
  CHECK(w.now()->sampling.top_k == 7);
  for (const char* bad : {"no json", "{}", R"({"presets": [{"name": "a", "sampling": {"temp": "-3"}}]})",
                          R"({"presets": [{"system": "no name"}]})"}) {
    std::ofstream(folder / "config/presets.json") << bad;
    Versions other(setup);
    CHECK(other.now()->error.find("presets.json") != std::string::npos);
    other.engine.send(intent::SavePreset{"new"});
    other.until([](const api::Snapshot& s) { return s.presets.size() == 1; });
    CHECK(text_of_file(folder / "config/presets.json") == bad);
  }
}

TEST_CASE("messages in the window name what it has, not flags") {
  CHECK(app::in_window_words("use the F16 file, or give --allow-requantize") ==
        "use the F16 file, or tick “requantize packed types”");
  CHECK(app::in_window_words("-c 4096 fits") == "a context of 4096 fits");
  CHECK(app::in_window_words("quantize: --method awq needs --calibration TEXT") ==
        "the method awq needs a calibration text");
  CHECK(app::in_window_words("x: no such file") == "x: no such file");
}
