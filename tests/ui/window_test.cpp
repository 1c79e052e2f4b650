// The window as a user has it: a real one on an X server, keys and mouse through the server (xdotool), the built-in
// guide behind it. Run by run_under_xvfb.sh; without Xvfb or xdotool it is skipped there, with a message.
#include "app/gui_engine.h"
#include "core/error.h"
#include "support/temporary_folder.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

using namespace ridge;
using namespace std::chrono_literals;

namespace {

void xdotool(const std::string& command) {
  INFO(command);
  CHECK(std::system(("xdotool " + command).c_str()) == 0);
}

bool wait_for(const std::function<bool()>& condition, std::chrono::seconds limit = 30s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition())
    if (std::chrono::steady_clock::now() > end)
      return false;
    else
      std::this_thread::sleep_for(20ms);
  return true;
}

double cpu_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Where the window's working folder, its memory and the test's files are.
const tests::TemporaryFolder& workplace() {
  static const tests::TemporaryFolder folder;
  return folder;
}

void click(int x, int y) { xdotool(fmt::format("mousemove {} {} click 1", x, y)); }

// In the lab, in its view of formats: Q4_K for the whole model, as a job.
void make_mix(const app::GuiEngine& engine) {
  const auto now = [&] { return engine.snapshot(); };
  click(1230, 27); // Formats
  std::this_thread::sleep_for(300ms);
  click(867, 495); // Q4_K for all matrices
  std::this_thread::sleep_for(300ms);
  click(1022, 719); // Requantize the model
  REQUIRE(wait_for([&] { return !now()->jobs->empty(); }, 10s));
  REQUIRE(wait_for([&] { return now()->jobs->front().over(); }, 120s));
  const core::Job& job = now()->jobs->front();
  CHECK(job.error == "");
  CHECK(job.state == core::JobState::done);
  CHECK(std::filesystem::exists(workplace() / "guide-Q4_K.gguf"));
}

// A bench that would take hours, and its Cancel button.
void cancel_a_job(app::GuiEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  xdotool("key ctrl+6");
  CHECK(wait_for([&] { return window.panel() == "jobs"; }, 5s));
  core::JobRequest bench;
  bench.kind = core::JobKind::bench;
  bench.generated = "1000";
  bench.prompts = "0";
  bench.repetitions = 1000;
  engine.send(core::intent::StartJob{bench});
  REQUIRE(wait_for(
      [&] { return now()->jobs->front().state == core::JobState::running && now()->jobs->front().share > 0; }));
  std::this_thread::sleep_for(300ms);
  click(560, 268); // Cancel
  CHECK(wait_for([&] { return now()->jobs->front().state == core::JobState::cancelled; }));
}

// By typing a path with completion, and by dropping files on the window.
void open_files(app::GuiEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  const auto is_open = [&](const std::string& path) {
    return wait_for([&] { return now()->model->path == path && now()->state == core::EngineState::idle; });
  };
  xdotool("key ctrl+o");
  std::this_thread::sleep_for(500ms);
  xdotool(fmt::format("type --delay 20 '{}/gui'", workplace().path()));
  xdotool("key Tab");
  std::this_thread::sleep_for(300ms);
  xdotool("key Return");
  CHECK(is_open(workplace() / "guide-Q4_K.gguf"));
  CHECK(now()->recent.at(0) == workplace() / "guide-Q4_K.gguf");
#ifdef RIDGE_DROP_FILE
  std::filesystem::copy_file(workplace() / "guide-Q4_K.gguf", workplace() / "a copy.gguf");
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace() / "a copy.gguf").c_str()) == 0);
  CHECK(is_open(workplace() / "a copy.gguf"));
  std::filesystem::create_directory(workplace() / "checkpoint");
  xdotool("key ctrl+1");
  CHECK(wait_for([&] { return window.panel() == "chat"; }, 5s));
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace() / "checkpoint").c_str()) == 0);
  CHECK(wait_for([&] { return window.panel() == "jobs"; }, 5s)); // ready to convert it
  const uint64_t errors = now()->error_number;
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, workplace().write("no.gguf", "no model")).c_str()) ==
        0);
  CHECK(wait_for([&] { return now()->error_number > errors; })); // a message, and the model that was open stays
  CHECK(now()->model->path == workplace() / "a copy.gguf");
  engine.send(core::intent::OpenModel{""});
  CHECK(wait_for(
      [&] { return now()->model->path != workplace() / "a copy.gguf" && now()->state == core::EngineState::idle; }));
#else
  MESSAGE("skipped: built without X11's headers, nothing is dropped on the window");
  (void)window;
#endif
}

// The user's side; runs beside the window, which must stay in the main thread.
void use(app::GuiEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  const auto idle = [&] { return now()->state == core::EngineState::idle; };
  REQUIRE(wait_for([&] { return now()->model && idle(); }));
  xdotool("search --sync --onlyvisible --name '^ridge$' windowfocus");
  xdotool("mousemove 500 720 click 1"); // into the composer

  xdotool("type --delay 40 'What is Q4_K?'");
  xdotool("key Return");
  size_t parts = 0, length = 0; // how often the answer was seen to grow
  REQUIRE(wait_for([&] {
    const auto s = now();
    if (s->messages.size() == 2 && s->messages[1].text.size() > length) {
      length = s->messages[1].text.size();
      ++parts;
    }
    return s->messages.size() == 2 && length > 0 && s->state == core::EngineState::idle;
  }));
  CHECK(now()->messages[0].text == "What is Q4_K?");
  CHECK(parts >= 1);
  CHECK(now()->speed.tokens_per_s > 0);
  CHECK(now()->speed.bytes_per_s > 0);
  CHECK(now()->kv.tokens > 0);

  const auto first = now()->speed.prompt_tokens;
  xdotool("key ctrl+r"); // answer again: the prompt is in the cache but for its last token
  CHECK(wait_for([&] { return now()->speed.prompt_tokens < first && idle() && now()->messages.size() == 2; }));

  for (const auto& [key, name] : {std::pair{"2", "gauges"}, {"3", "roofline"}, {"4", "model"}, {"5", "quant"}}) {
    xdotool(fmt::format("key ctrl+{}", key));
    CHECK(wait_for([&] { return window.panel() == name; }, 5s));
  }
  CHECK(wait_for([&] { return now()->tensor && now()->block; })); // the lab begins with a tensor
  const auto tensor = now()->tensor->tensor;
  xdotool("mousemove 240 160 click 1"); // another one in the list
  CHECK(wait_for([&] { return now()->tensor->tensor != tensor; }));
  CHECK(wait_for([&] { return static_cast<int>(now()->tensor->formats.size()) == now()->tensor->formats_to_try; }));

  make_mix(engine);
  cancel_a_job(engine, window);
  open_files(engine, window);

  xdotool("search --name '^ridge$' windowsize 1024 700");
  xdotool("key ctrl+l"); // the light theme
  xdotool("key ctrl+1");
  CHECK(wait_for([&] { return window.panel() == "chat"; }, 5s));
  xdotool("key ctrl+n");
  CHECK(wait_for([&] { return now()->messages.empty(); }, 5s));
  xdotool("key ctrl+q");
}

} // namespace

TEST_CASE("a question is typed, the answer streams, every panel opens, a model is requantized, a job cancelled, files "
          "are opened and dropped, the window is resized and closed") {
  std::filesystem::current_path(workplace().path());
  for (const char* variable : {"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"})
    ::setenv(variable, workplace().path().c_str(), 1);
  app::GuiSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.sampling.params.seed = 1;
  setup.sampling.max_tokens = 40;
  ui::Window window({});
  app::GuiEngine engine(setup, [&] { window.wake(); });
  std::thread user([&] {
    try {
      use(engine, window);
    } catch (...) { // a REQUIRE failed: doctest has noted it
      window.close();
    }
  });
  window.run({[&] { return engine.snapshot(); }, [&](core::Intent i) { engine.send(std::move(i)); }});
  user.join();
}

TEST_CASE("a model that cannot be opened leaves a window with a message, and another can be opened") {
  app::GuiSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.model.model = "no-such-file.gguf";
  app::GuiEngine engine(setup, [] {});
  CHECK(wait_for([&] { return engine.snapshot()->state == core::EngineState::failed; }));
  CHECK(engine.snapshot()->error.find("no-such-file.gguf") != std::string::npos);
  engine.send(core::intent::OpenModel{""});
  CHECK(wait_for([&] { return engine.snapshot()->state == core::EngineState::idle; }));
  CHECK(engine.snapshot()->model);
}

TEST_CASE("a window at rest costs next to nothing") {
  app::GuiSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  ui::WindowOptions options;
  options.panel = "gauges";
  ui::Window window(options);
  app::GuiEngine engine(setup, [&] { window.wake(); });
  double used = -1;
  std::thread user([&] {
    CHECK(wait_for([&] { return engine.snapshot()->state == core::EngineState::idle; }));
    std::this_thread::sleep_for(500ms);
    const double before = cpu_seconds();
    std::this_thread::sleep_for(2s);
    used = (cpu_seconds() - before) / 2;
    window.close();
  });
  window.run({[&] { return engine.snapshot(); }, [&](core::Intent i) { engine.send(std::move(i)); }});
  user.join();
  MESSAGE("share of a core at rest: " << used);
  CHECK(used >= 0);
  CHECK(used < 0.02);
}

TEST_CASE("an unknown panel is refused with the names of those there are") {
  ui::WindowOptions options;
  options.panel = "nonsense";
  CHECK_THROWS_WITH_AS(ui::Window{options}, "no panel 'nonsense'; there are chat, gauges, roofline, model, quant, jobs",
                       Error);
}
