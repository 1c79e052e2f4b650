// LoRA adapters in the window's engine.
#include "app/support.h"
#include "support/adapters.h"
#include "support/watched_engine.h"

#include <filesystem>

using namespace ridge;
using namespace ridge::tests;
namespace intent = api::intent;

namespace {

app::WindowSetup setup_in(const TemporaryFolder& folder) {
  app::WindowSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.model.model = tiny_model();
  setup.request.sampling.params.temp = 0;
  setup.request.sampling.max_tokens = 8;
  setup.conversation_folder = folder / "conversations";
  setup.remember_files = false;
  return setup;
}

std::string adapter_in(const TemporaryFolder& folder, const char* name) {
  const gguf::File model = gguf::File::open(tiny_model());
  std::mt19937_64 random(2);
  AdapterImage image("llama", 16);
  image.metadata.set("general.name", std::string(name));
  for (const gguf::Tensor& tensor : model.tensors())
    if (tensor.n_dims > 1 && tensor.name.starts_with("blk.")) image.add_pair(tensor, 4, random);
  image.write(folder / name);
  return folder / name;
}

struct WatchedAdapters : WatchedEngine {
  using WatchedEngine::WatchedEngine;
  void idle(const std::function<bool(const api::Snapshot&)>& condition) const {
    until([&](const api::Snapshot& s) { return s.state == api::EngineState::idle && condition(s); });
  }
  void ask(const std::string& text) {
    const size_t before = now()->messages.size();
    engine.send(intent::Send{text});
    idle([&](const api::Snapshot& s) { return s.messages.size() == before + 2; });
  }
};

} // namespace

TEST_CASE("a conversation remembers its adapters over the window's end") {
  const TemporaryFolder folder;
  const std::string one = adapter_in(folder, "one"), two = adapter_in(folder, "two");
  std::string id, adapted;
  {
    WatchedAdapters w(setup_in(folder));
    w.engine.send(intent::AddAdapter{one});
    w.idle([](const api::Snapshot& s) { return s.adapters.size() == 1; });
    w.engine.send(intent::OpenModel{two}); // as a dropped file
    w.idle([](const api::Snapshot& s) { return s.adapters.size() == 2; });
    w.engine.send(intent::ScaleAdapter{0, 0.5f, true});
    w.engine.send(intent::ScaleAdapter{1, 2, false});
    w.idle([](const api::Snapshot& s) { return !s.adapters[1].on; });
    w.ask("hello");
    id = w.now()->conversation;
    adapted = w.now()->messages[1].text;
    CHECK(w.now()->error == "");
  }
  app::WindowSetup setup = setup_in(folder);
  setup.model.adapters = {{one, 3}};
  WatchedAdapters w(setup);
  CHECK(w.now()->adapters.at(0).scale == 3);
  w.ask("hello");
  CHECK(w.now()->messages[1].text != adapted);
  w.engine.send(intent::OpenConversation{id});
  w.idle([&](const api::Snapshot& s) { return s.conversation == id && s.adapters[0].scale == 0.5f; });
  CHECK(w.now()->notices.empty()); // the other one was off
  w.engine.send(intent::Regenerate{});
  w.idle([](const api::Snapshot& s) { return s.messages.size() == 2 && s.messages[1].versions == 2; });
  CHECK(w.now()->messages[1].text == adapted);
  w.engine.send(intent::RemoveAdapter{0});
  w.idle([](const api::Snapshot& s) { return s.adapters.empty(); });
  w.engine.send(intent::NewConversation{});
  w.engine.send(intent::OpenConversation{id});
  w.until([](const api::Snapshot& s) { return !s.notices.empty(); });
  CHECK(w.now()->notices.back().find(one) != std::string::npos);
}

TEST_CASE("a file that is no adapter of the model changes nothing, and other models have adapters of their own") {
  const TemporaryFolder folder;
  const std::string one = adapter_in(folder, "one");
  app::WindowSetup setup = setup_in(folder);
  setup.model.adapters = {{one, 0}};
  WatchedAdapters w(setup);
  CHECK_FALSE(w.now()->adapters.at(0).on);
  CHECK(w.now()->adapters[0].scale == 1);
  const auto refused = [&](const std::string& path) {
    const uint64_t before = w.now()->error_number;
    w.engine.send(intent::AddAdapter{path});
    w.idle([&](const api::Snapshot& s) { return s.error_number > before; });
    CHECK(w.now()->adapters.size() == 1);
    return w.now()->error;
  };
  CHECK(refused(one).find("already") != std::string::npos);
  CHECK(refused(tiny_model()).find("tiny.gguf") != std::string::npos);
  CHECK(refused(folder / "absent").find("absent") != std::string::npos);
  w.engine.send(intent::ScaleAdapter{0, 1e9f, true});
  w.until([](const api::Snapshot& s) { return s.error.find("-1000 to 1000") != std::string::npos; });
  w.engine.send(intent::OpenModel{""});
  w.idle([](const api::Snapshot& s) { return s.model->built_in; });
  CHECK(w.now()->adapters.empty());
  w.engine.send(intent::OpenModel{tiny_model()});
  w.idle([](const api::Snapshot& s) { return s.adapters.size() == 1; });
}
