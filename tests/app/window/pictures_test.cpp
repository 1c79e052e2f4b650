// Pictures in the window's engine.
#include "app/support.h"
#include "core/files/sha256.h"
#include "support/fake_pulse.h"
#include "support/recipes/vision_files.h"
#include "support/watched_engine.h"

#include <filesystem>
#include <fstream>
#include <optional>

using namespace ridge;
using namespace ridge::tests;
namespace intent = api::intent;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Files : VisionFiles {
  std::string cat = image, dog = own.write("dog.ppm", ppm_of(formula_picture(900, 500, 4)));

  explicit Files(const std::string& name = "gemma3") : VisionFiles(VisionCase(name)) {}
  app::WindowSetup setup() const {
    app::WindowSetup s;
    s.model.model = model;
    s.model.threads = 1;
    s.model.context = 600;
    s.request.sampling.params.seed = 1;
    s.request.sampling.max_tokens = 3;
    s.conversation_folder = own / "conversations";
    s.remember_files = false;
    return s;
  }
};

struct WatchedPictures : WatchedEngine {
  using WatchedEngine::WatchedEngine;
  void add(const std::string& path) {
    const size_t before = now()->pictures.size();
    engine.send(intent::AddPicture{path});
    until([&](const api::Snapshot& s) {
      return s.pictures.size() == before + 1 && facts(s, s.pictures.back()).seconds > 0 &&
             s.state == api::EngineState::idle;
    });
  }
  void send(api::Intent wanted) {
    engine.send(std::move(wanted));
    const std::string mark = std::to_string(++done_); // intents run in order
    engine.send(intent::SetSystemPrompt{mark});
    until([&](const api::Snapshot& s) { return s.system_prompt == mark && s.state == api::EngineState::idle; });
    engine.send(intent::SetSystemPrompt{""});
    until([&](const api::Snapshot& s) { return s.system_prompt.empty() && s.state == api::EngineState::idle; });
  }
  std::string error_of(api::Intent wanted, std::optional<api::Intent> then = {}) {
    const uint64_t before = now()->error_number;
    engine.send(std::move(wanted));
    if (then) engine.send(std::move(*then));
    until([&](const api::Snapshot& s) { return s.error_number > before && s.state == api::EngineState::idle; });
    return now()->error;
  }
  static api::PictureFacts facts(const api::Snapshot& s, const std::shared_ptr<const api::MessagePicture>& picture) {
    const auto known = s.picture_facts->find(picture->key);
    return known == s.picture_facts->end() ? api::PictureFacts() : known->second;
  }

 private:
  int done_ = 0;
};

} // namespace

TEST_CASE("an encoder beside the model is named, opened with the first picture, and says what pictures cost") {
  REQUIRE_REFERENCE();
  const Files files;
  WatchedPictures w(files.setup());
  CHECK(w.now()->encoder == files.mmproj);
  CHECK(!w.now()->encoder_open);
  w.add(files.cat);
  w.add(files.dog);
  REQUIRE(w.now()->pictures.size() == 2);
  CHECK(w.now()->encoder_open);
  CHECK(w.now()->pictures[0]->name == "cat.ppm");
  const api::PictureFacts dog = WatchedPictures::facts(*w.now(), w.now()->pictures[1]);
  CHECK(dog.tokens == 16);
  CHECK(dog.width == 900);
  REQUIRE(dog.small);
  CHECK(dog.small->width == 480);
  CHECK(dog.small->height == 267);
  CHECK(dog.small->rgb.size() == size_t{480} * 267 * 3);

  w.engine.send(intent::AddPicture{files.cat});
  w.engine.send(intent::RemovePicture{w.now()->pictures[1]->key});
  w.until([](const api::Snapshot& s) { return s.pictures.size() == 1; });
  w.send(intent::Send{"a cat"});
  CHECK(w.now()->pictures.empty());
  REQUIRE(w.now()->messages[0].pictures.size() == 1);
  CHECK(w.now()->messages[0].text == "a cat");
  CHECK(w.now()->speed.pictures.pictures == 1);
  CHECK(w.now()->speed.pictures.tokens == 16);
  CHECK(w.now()->speed.pictures.seconds > 0);
  CHECK(w.now()->speed.prompt_tokens > 16);
  w.send(intent::NewConversation{});
  w.send(intent::Send{"something else"});
  REQUIRE(w.now()->sequences->prefixes.size() >= 1); // the prefix with the picture
  CHECK(
      std::ranges::any_of(w.now()->sequences->prefixes, [](const auto& part) { return has(part.text, "[picture]"); }));
  CHECK(w.now()->error == "");
}

TEST_CASE(
    "pictures stay with their messages: answered again, edited, kept, opened again, removed with the conversation") {
  REQUIRE_REFERENCE();
  const Files files;
  std::string id, answer;
  {
    WatchedPictures w(files.setup());
    w.add(files.cat);
    w.send(intent::Send{"a cat"});
    w.add(files.dog);
    w.send(intent::Send{""});
    CHECK(w.now()->messages.size() == 4);
    w.send(intent::Regenerate{});
    REQUIRE(w.now()->messages.size() == 4);
    id = w.now()->conversation;
    answer = w.now()->messages[1].text;
    CHECK(std::distance(std::filesystem::directory_iterator(files.own / ("conversations/" + id + ".pictures")), {}) ==
          2);
  }
  WatchedPictures w(files.setup());
  w.engine.send(intent::OpenConversation{id});
  w.until([](const api::Snapshot& s) {
    return s.messages.size() == 4 && WatchedPictures::facts(s, s.messages[2].pictures[0]).small;
  });
  CHECK(w.now()->messages[0].pictures[0]->name == "cat.ppm");
  CHECK(*w.now()->messages[0].pictures[0]->file == read_file(files.cat));
  CHECK(w.now()->messages[0].text == "a cat");
  CHECK(w.now()->messages[2].text == "");

  // Edits the message: adds a picture and removes it.
  CHECK(!w.now()->encoder_open);
  w.engine.send(intent::EditPictures{0});
  w.until([](const api::Snapshot& s) {
    return s.pictures.size() == 1 && WatchedPictures::facts(s, s.pictures[0]).tokens == 16;
  });
  const std::string other = files.own.write("other.ppm", ppm_of(formula_picture(40, 40, 9)));
  w.engine.send(intent::AddPicture{other});
  w.send(intent::EditAndResend{0, "a cat"});
  REQUIRE(w.now()->messages.size() == 2);
  CHECK(w.now()->messages[0].pictures.size() == 2);
  w.engine.send(intent::EditPictures{0});
  w.engine.send(intent::RemovePicture{w.now()->messages[0].pictures[1]->key});
  w.send(intent::EditAndResend{0, "a cat"});
  REQUIRE(w.now()->messages.size() == 2);
  CHECK(w.now()->messages[0].pictures.size() == 1);
  CHECK(w.now()->messages[1].text == answer);
  CHECK(w.now()->picture_facts->size() == 1);
  const std::string folder = files.own / ("conversations/" + id + ".pictures");
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 3); // earlier versions keep theirs
  w.engine.send(intent::ShowVersion{0, 0});
  w.until([](const api::Snapshot& s) {
    return s.messages.size() == 4 && WatchedPictures::facts(s, s.messages[2].pictures[0]).small;
  });
  w.engine.send(intent::DeleteConversation{id});
  w.until([](const api::Snapshot& s) { return s.conversations->empty(); });
  CHECK(!std::filesystem::exists(folder));
  CHECK(w.now()->error == "");
}

TEST_CASE("a picture is enlarged, as large as it is or as a screen") {
  REQUIRE_REFERENCE();
  const Files files;
  WatchedPictures w(files.setup());
  w.add(files.own.write("wide.ppm", ppm_of(formula_picture(3000, 600, 2))));
  const std::string key = w.now()->pictures[0]->key;
  w.engine.send(intent::EnlargePicture{key});
  w.until([](const api::Snapshot& s) { return s.enlarged != nullptr; });
  CHECK(w.now()->enlarged->key == key);
  CHECK(w.now()->enlarged->pixels->width == 2048);
  CHECK(w.now()->enlarged->pixels->height == 410);
  w.engine.send(intent::EnlargePicture{""});
  w.until([](const api::Snapshot& s) { return s.enlarged == nullptr; });
}

TEST_CASE("what is no picture, and a model without an encoder, are one line") {
  REQUIRE_REFERENCE();
  const Files files;
  WatchedPictures w(files.setup());
  CHECK(has(w.error_of(intent::AddPicture{files.own.write("text.png", "this is text")}),
            "text.png: not a supported image"));
  CHECK(has(w.error_of(intent::AddPicture{files.own / "none.png"}), "none.png: not a file"));
  CHECK(has(w.error_of(intent::AddPicture{"/dev/zero"}), "/dev/zero: not a file"));
  CHECK(has(w.error_of(intent::AddPicture{"https://example.org/cat.png"}), "is an address"));
  CHECK(
      has(w.error_of(intent::AddPicture{files.own.write("huge.ppm", "P6 1000000 1000000 255\n")}), "make it smaller"));
  CHECK(w.now()->pictures.empty());
  w.engine.send(intent::OpenModel{""});
  w.until([](const api::Snapshot& s) { return s.model->built_in && s.state == api::EngineState::idle; });
  CHECK(w.now()->encoder == "");
  CHECK(has(w.error_of(intent::AddPicture{files.cat}), "the built-in guide takes no images"));
  CHECK(w.now()->pictures.empty());
}

TEST_CASE("an encoder elsewhere is dropped on the window, and one of another model is refused") {
  REQUIRE_REFERENCE();
  const Files files, wider("qwen3vl-deep");
  const std::string elsewhere = files.own / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::rename(files.mmproj, elsewhere + "/vision.gguf");
  WatchedPictures w(files.setup());
  CHECK(has(w.error_of(intent::AddPicture{files.cat}), "no mmproj*.gguf next to it"));
  CHECK(has(w.error_of(intent::OpenModel{wider.mmproj}), "do not belong together"));
  CHECK(!w.now()->encoder_open);
  w.engine.send(intent::OpenModel{elsewhere + "/vision.gguf"});
  w.until([](const api::Snapshot& s) { return s.encoder_open && s.state == api::EngineState::idle; });
  CHECK(w.now()->model->path == files.model);
  w.add(files.cat);
  w.send(intent::Send{"a cat"});
  // Another model's encoder encodes the pictures again.
  w.engine.send(intent::OpenModel{wider.model});
  w.until([&](const api::Snapshot& s) { return s.encoder == wider.mmproj && s.state == api::EngineState::idle; });
  CHECK(!w.now()->encoder_open);
  w.send(intent::Regenerate{});
  CHECK(w.now()->encoder_open);
  CHECK(w.now()->speed.pictures.pictures == 1);
  // Without an encoder the question fails and is restored.
  std::filesystem::remove(wider.mmproj);
  w.engine.send(intent::OpenModel{wider.model});
  w.until([](const api::Snapshot& s) { return s.encoder.empty() && s.state == api::EngineState::idle; });
  CHECK(has(w.error_of(intent::Send{"and now?"}), "takes no images"));
  CHECK(w.now()->messages.size() == 2);
}

TEST_CASE("kept pictures that are gone or changed are said to be, and the rest of the conversation is there") {
  REQUIRE_REFERENCE();
  const Files files;
  std::string id;
  {
    WatchedPictures w(files.setup());
    w.add(files.cat);
    w.add(files.dog);
    w.send(intent::Send{"two"});
    id = w.now()->conversation;
  }
  const std::string folder = files.own / ("conversations/" + id + ".pictures/");
  const std::string cat = core::Sha256().add(read_file(files.cat)).hex(),
                    dog = core::Sha256().add(read_file(files.dog)).hex();
  std::filesystem::remove(folder + cat);
  std::ofstream(folder + dog, std::ios::binary | std::ios::in) << "P5";
  WatchedPictures w(files.setup());
  w.engine.send(intent::OpenConversation{id});
  w.until([&](const api::Snapshot& s) {
    return s.messages.size() == 2 && !WatchedPictures::facts(s, s.messages[0].pictures[0]).problem.empty() &&
           !WatchedPictures::facts(s, s.messages[0].pictures[1]).problem.empty();
  });
  CHECK(has(w.now()->error, "dog.ppm: the file no longer exists or has changed"));
  CHECK(has(w.error_of(intent::Send{"more"}), "cat.ppm"));
  w.until([](const api::Snapshot& s) { return s.messages.size() == 2; });
  // A conversation that names another file.
  const std::string path = files.own / ("conversations/" + id + ".json");
  std::string text = read_file(path);
  text.replace(text.find(id + ".pictures/" + cat), id.size() + 10 + cat.size(), "../../../etc/passwd");
  std::ofstream(path, std::ios::binary) << text;
  const app::ConversationStore store(files.own / "conversations");
  CHECK(store.list().empty());
  CHECK(has(store.problem(), "expected an image or audio file of this folder's conversations"));
  CHECK(read_file(path) == text);
}

TEST_CASE("a question with pictures that fails comes back with them") {
  REQUIRE_REFERENCE();
  const Files files;
  app::WindowSetup small = files.setup();
  small.model.context = 24;
  WatchedPictures w(std::move(small));
  w.add(files.cat);
  w.add(files.dog);
  CHECK(has(w.error_of(intent::Send{"too much"}), "context"));
  w.until([](const api::Snapshot& s) { return s.messages.empty() && s.conversations->empty(); });
  REQUIRE(w.now()->pictures.size() == 2);
  CHECK(w.now()->pictures[0]->name == "cat.ppm");
}

TEST_CASE("a copy of a conversation that another window has changed has its pictures") {
  const TemporaryFolder folder;
  const auto picture = [](const std::string& bytes) {
    return std::make_shared<api::MessagePicture>(core::Sha256().add(bytes).hex(), "a picture",
                                                 std::make_shared<const std::string>(bytes));
  };
  app::ConversationStore ours(folder / "");
  const std::string id = ours.create().id;
  ours.find(id)->messages.push_back({{"role", "user"}, {"content", "look"}});
  ours.find(id)->pictures[0] = {picture("one"), picture("two"), picture("one")};
  ours.save(id);
  app::ConversationStore theirs(folder / "");
  REQUIRE(theirs.find(id));
  CHECK(theirs.find(id)->messages[0]["content"] == "look");
  CHECK(*theirs.pictures(*theirs.find(id))[0][1]->file == "two");
  std::filesystem::last_write_time(folder / (id + ".json"),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  const std::string copy = ours.fork_if_changed(id);
  REQUIRE(copy != id);
  ours.save(copy);
  theirs.remove(id);
  CHECK(!std::filesystem::exists(folder / (id + ".pictures")));
  const app::PicturesByMessage kept = ours.pictures(*ours.find(copy));
  REQUIRE(kept.at(0).size() == 3);
  CHECK(*kept.at(0)[0]->file == "one");
  CHECK(*kept.at(0)[1]->file == "two");
}

TEST_CASE("contents of kept messages are texts, or lists of texts and pictures of the folder") {
  const std::string key(64, 'a');
  const auto part = [](const std::string& url) {
    return app::Json{{"type", "image_url"}, {"image_url", {{"url", url}}}, {"name", "a\nb"}};
  };
  const auto problem_of = [](const app::Json& content) -> std::string {
    try {
      app::read_kept_content(content, "here");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const app::KeptContent read =
      app::read_kept_content({part("x/" + key), {{"type", "text"}, {"text", "hello"}}}, "here");
  CHECK(read.text == "hello");
  REQUIRE(read.pictures.size() == 1);
  CHECK(read.pictures[0]->key == key);
  CHECK(read.pictures[0]->name == "a\\x0ab");
  CHECK(app::kept_content("", read.pictures, "x")[0]["image_url"]["url"] == "x/" + key);
  CHECK(app::kept_content("only text", {}, "x") == "only text");
  for (const app::Json& bad : {app::Json(3), app::Json::array({3}), app::Json::array({part("../secret")}),
                               app::Json::array({part("")}), app::Json::array({{{"type", "video"}}})})
    CHECK(has(problem_of(bad), "here: expected a"));
  CHECK(has(problem_of(app::Json(17, part(key))), "at most 16 images"));
}

TEST_CASE("a sound is shown as its waveform, with its length and its tokens") {
  REQUIRE_REFERENCE();
  const Files files("qwen3a");
  WatchedPictures w(files.setup());
  w.add(files.image); // a sound here
  REQUIRE(w.now()->pictures.size() == 1);
  const api::PictureFacts sound = WatchedPictures::facts(*w.now(), w.now()->pictures[0]);
  CHECK(sound.sound_seconds == 2);
  CHECK(sound.tokens == 39);
  REQUIRE(sound.small);
  CHECK(sound.small->width == 480);
  CHECK(sound.small->height == 120);
  w.send(intent::Send{"what?"});
  CHECK(w.now()->messages[0].pictures.size() == 1);
  CHECK(w.now()->speed.pictures.tokens == 39);
  CHECK(w.now()->error == "");
}

TEST_CASE("what the microphone hears while it is held becomes a sound of the message") {
  REQUIRE_REFERENCE();
  const FakePulse pulse(FakePulse::fails);
  const Files files("lfm2a");
  WatchedPictures w(files.setup());
  CHECK(w.now()->no_microphone.empty());
  CHECK(has(w.error_of(intent::Listen{true}, intent::Listen{false}), "no microphone: Connection refused"));
  pulse.way(FakePulse::works);
  w.engine.send(intent::Listen{false}); // of no use
  const int64_t before = pulse.samples();
  w.engine.send(intent::Listen{true});
  CHECK(w.now()->listening);
  pulse.wait_for(5000, before);
  w.engine.send(intent::Listen{false});
  CHECK(!w.now()->listening);
  w.until([&](const api::Snapshot& s) {
    return s.pictures.size() == 1 && WatchedPictures::facts(s, s.pictures[0]).sound_seconds >= 0.3;
  });
  CHECK(w.now()->pictures[0]->name.starts_with("recording of "));
}
