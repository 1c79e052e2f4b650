// Jobs and files in a real window. Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "support/temporary_folder.h"
#include "ui/driver.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

using namespace ridge;
using tests::eventually;
using tests::run_with_user;
using tests::User;

namespace {

const tests::TemporaryFolder& workplace() {
  static const tests::TemporaryFolder folder;
  return folder;
}

// Q4_K for the whole model.
void make_mix(User& user, const app::WindowEngine& engine) {
  const auto now = [&] { return engine.snapshot(); };
  user.click(1236, 27);  // Caches
  user.click(1168, 27);  // Formats
  user.click(867, 495);  // Q4_K for all matrices
  user.click(1022, 719); // Requantize the model
  REQUIRE(eventually([&] { return !now()->jobs->empty(); }));
  REQUIRE(eventually([&] { return now()->jobs->front().over(); }));
  const api::Job job = now()->jobs->front();
  CHECK(job.error == "");
  CHECK(job.state == api::JobState::done);
  CHECK(std::filesystem::exists(workplace() / "guide-Q4_K.gguf"));
}

void cancel_a_job(User& user, app::WindowEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  user.press("ctrl+6");
  CHECK(eventually([&] { return window.panel() == "jobs"; }));
  api::BenchRequest bench;
  bench.generated = "1000";
  bench.prompts = "0";
  bench.repetitions = 1000;
  engine.send(api::intent::StartJob{bench});
  REQUIRE(eventually([&] {
    const auto at = now();
    return at->jobs->front().state == api::JobState::running && at->jobs->front().share > 0;
  }));
  const auto cancelled = [&] { return now()->jobs->front().state == api::JobState::cancelled; };
  user.click(560, 268); // Cancel
  CHECK(eventually(cancelled));
}

// Typed and dropped paths.
void open_files(User& user, app::WindowEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  const auto is_open = [&](const std::string& path) {
    return eventually([&] {
      const auto at = now();
      return at->model->path == path && at->state == api::EngineState::idle;
    });
  };
  user.press("ctrl+o");
  user.type(workplace() / "gui");
  user.press("Tab");
  user.press("Return");
  CHECK(is_open(workplace() / "guide-Q4_K.gguf"));
  CHECK(now()->recent.at(0) == workplace() / "guide-Q4_K.gguf");
#ifdef RIDGE_DROP_FILE
  std::filesystem::copy_file(workplace() / "guide-Q4_K.gguf", workplace() / "a copy.gguf");
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace() / "a copy.gguf").c_str()) == 0);
  CHECK(is_open(workplace() / "a copy.gguf"));
  std::filesystem::create_directory(workplace() / "checkpoint");
  user.press("ctrl+1");
  CHECK(eventually([&] { return window.panel() == "chat"; }));
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace() / "checkpoint").c_str()) == 0);
  CHECK(eventually([&] { return window.panel() == "jobs"; }));
  const uint64_t errors = now()->error_number;
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace().write("no.gguf", "no model")).c_str()) ==
        0);
  CHECK(eventually([&] { return now()->error_number > errors; })); // the open model stays
  CHECK(now()->model->path == workplace() / "a copy.gguf");
  engine.send(api::intent::OpenModel{""});
  CHECK(eventually([&] {
    const auto at = now();
    return at->model->path != workplace() / "a copy.gguf" && at->state == api::EngineState::idle;
  }));
#else
  MESSAGE("skipped: built without X11's headers, nothing is dropped on the window");
  (void)window;
#endif
}

// By part of its name; an address becomes a job.
void open_by_name(User& user, app::WindowEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  std::filesystem::create_directory(workplace() / "models");
  std::filesystem::copy_file(workplace() / "guide-Q4_K.gguf", workplace() / "models/Found-Q4_K.gguf");
  user.press("ctrl+o");
  CHECK(eventually([&] {
    const auto at = now();
    return at->models && at->models->size() == 1 && at->models->front().context > 0;
  }));
  CHECK(eventually([&] { return now()->models->front().tokens_per_s > 0; }));
  user.type("found");
  user.press("Return");
  CHECK(eventually([&] { return now()->model->path == workplace() / "models/Found-Q4_K.gguf"; }));
  user.press("ctrl+1");
  user.press("ctrl+o");
  user.type("hf:acme/none");
  user.press("Return");
  CHECK(eventually([&] { return window.panel() == "jobs"; }));
  CHECK(eventually([&] { return now()->jobs->front().state == api::JobState::failed; }));
  CHECK(now()->jobs->front().title == "Download hf:acme/none");
  CHECK(now()->jobs->front().error.find("127.0.0.1") != std::string::npos);
}

// Runs in a second thread; the window needs the main one.
void use_lab_and_files(User& user, app::WindowEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  REQUIRE(eventually([&] {
    return now()->tensor && static_cast<int>(now()->tensor->formats.size()) == now()->tensor->formats_to_try;
  }));
  make_mix(user, engine);
  cancel_a_job(user, engine, window);
  open_files(user, engine, window);
  open_by_name(user, engine, window);
}

} // namespace

TEST_CASE("a model is requantized in the lab, a job is cancelled, files are opened by name and by dropping them") {
  std::filesystem::current_path(workplace().path());
  for (const char* variable : {"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"})
    ::setenv(variable, workplace().path().c_str(), 1);
  for (const char* variable : {"HOME", "HF_HOME"}) ::setenv(variable, workplace().path().c_str(), 1);
  ::setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1); // no server there
  ui::WindowOptions options;
  options.panel = "quant";
  ui::Window window(options);
  app::WindowEngine engine(tests::guide_setup(), [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) { use_lab_and_files(user, engine, window); });
}

TEST_CASE("the quant lab opens with a tensor that its first format can divide, if there is one") {
  const tests::TemporaryFolder folder;
  app::WindowEngine engine(tests::guide_setup(), [] {});
  REQUIRE(eventually([&] { return engine.snapshot()->model != nullptr; }));
  for (const auto& [second, chosen] : {std::pair(1024, "second"), {320, "first"}}) {
    auto shown = std::make_shared<api::Snapshot>(*engine.snapshot());
    auto model = std::make_shared<api::ModelFacts>(*shown->model);
    model->tensors.resize(2);
    for (auto& tensor : model->tensors) tensor.layer = 0, tensor.rows = 16, tensor.decodable = true;
    model->tensors[0].name = "first", model->tensors[0].cols = 640;
    model->tensors[1].name = "second", model->tensors[1].cols = second;
    shown->model = model;
    std::string studied;
    const auto note = [&](const api::Intent& intent) {
      if (const auto* study = std::get_if<api::intent::StudyTensor>(&intent)) studied = study->tensor;
    };
    ui::WindowOptions options;
    options.panel = "quant";
    options.screenshot = folder / "quant.png";
    options.after_frames = 1;
    ui::Window(options).run({[&] { return shown; }, note});
    CHECK(studied == chosen);
  }
}
