// Panels in a real window; vertices per frame.
#include "app/window/window_engine.h"
#include "support/temporary_folder.h"
#include "ui/driver.h"
#include "ui/panels/layout.h"
#include "ui/window.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

using namespace ridge;
using tests::eventually;
using tests::guide_setup;
using tests::run_with_user;
using tests::User;

namespace {

void with_window(const ui::WindowOptions& options, const app::WindowSetup& setup,
                 const std::function<void(User&, app::WindowEngine&, ui::Window&)>& use) {
  ui::WindowOptions with_places = options;
  with_places.enable_widget_positions = true;
  ui::Window window(with_places);
  app::WindowEngine engine(setup, [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) { use(user, engine, window); });
}

// More requests than streams.
api::Sequences invented_sequences() {
  using State = api::Sequences::State;
  api::Sequences all{.context = 8192, .prefix_nodes = 7, .prefix_bytes = 1'530'000'000, .prefix_budget = 8'589'934'592};
  for (int32_t i = 0; i < 4; ++i) {
    const bool reads = i == 3;
    all.streams.push_back({true, reads ? 2048 : 900 + 1700 * i});
    all.rows.push_back({.number = static_cast<uint64_t>(30 + i),
                        .state = reads ? State::reading : State::writing,
                        .stream = i,
                        .priority = i == 1 ? -1 : 0,
                        .prompt_tokens = reads ? 6000 : 800 + 1700 * i,
                        .cached_tokens = 512 * i,
                        .evaluated_tokens = all.streams.back().tokens,
                        .answer_tokens = reads ? 0 : 100,
                        .tokens_per_s = reads ? 0 : 231.4});
  }
  all.rows.push_back({.number = 29,
                      .state = State::preempted,
                      .prompt_tokens = 3000,
                      .answer_tokens = 412,
                      .tokens_per_s = 204.7,
                      .seconds_waiting = 3.2});
  all.rows.push_back(
      {.number = 34, .state = State::waiting, .priority = 5, .prompt_tokens = 24, .seconds_waiting = 11});
  const int64_t now = std::time(nullptr);
  const auto add = [&](int64_t branches, int64_t first, int64_t tokens, int64_t texts, int64_t ago, const char* text) {
    all.prefixes.push_back({.branches = branches,
                            .first = first,
                            .tokens = tokens,
                            .texts = texts,
                            .bytes = tokens * 131072,
                            .used = now - ago,
                            .text = text});
  };
  add(0, 0, 1620, 4, 1, "<|im_start|>system You are a careful programmer who answers with whole files.");
  add(1, 1620, 2400, 2, 1, "<|im_start|>user Here is the file src/parser.cpp, in which an error is to be found");
  add(2, 4020, 612, 1, 1, "Where does it lose the last line?");
  add(2, 4020, 1105, 1, 64, "Write it again without recursion.");
  all.prefixes.back().held = true;
  add(1, 1620, 431, 1, 320, "<|im_start|>user What is the difference between a mutex and a semaphore?");
  add(1, 1620, 5120, 1, 4000, "<|im_start|>user Please read this log and tell me why the job was killed");
  add(0, 0, 389, 1, 7300, "<|im_start|>user Was sind Kongruenzabbildungen?");
  return all;
}

api::Snapshot invented_snapshot(const api::Snapshot& of_engine) {
  api::Snapshot s = of_engine;
  s.gpus = {{"NVIDIA H200", 512.3, 700, 61, 1.98e9, 1.98e9, 3.2e9, 3.2e9, 23.4e9, 150.7e9}};
  api::Serving serving = {.state = api::Serving::State::on, .address = "http://127.0.0.1:8080", .model = "guide"};
  serving.engine = "NVIDIA H200";
  serving.context = 8192;
  serving.weight_bytes = 23.4e9;
  serving.cache_bytes = serving.scratch_bytes = 1.2e9;
  serving.slots = {{true, 5321}, {true, 812}, {}, {}, {true, 8192}, {}, {}, {}};
  serving.waiting = 3;
  serving.requests = 1234;
  serving.prompt_tokens = 7654321;
  serving.cached_tokens = 6543210;
  for (uint64_t i = 40; i > 0; --i)
    serving.latest.push_back({.number = i,
                              .route = i % 3 ? "/v1/chat/completions" : "/api/chat",
                              .prompt_tokens = static_cast<int64_t>(i * 211),
                              .answer_tokens = static_cast<int64_t>(i * 17 % 400),
                              .seconds = 0.3 * static_cast<double>(i),
                              .ended = i < 38,
                              .problem = i == 30 ? "the client disconnected" : ""});
  serving.sequences = invented_sequences();
  s.serving = std::make_shared<api::Serving>(serving);
  api::Job job{.id = 1, .request = api::QuantizeRequest{.explore = true}, .title = "Explore"};
  job.state = api::JobState::done;
  for (uint64_t i = 0; i < 40; ++i) // a mix beside each recipe
    for (const char* recipe : {"", "IQ2_XXS"})
      job.frontier.push_back({recipe, 4'000'000'000 + i * 100'000'000, 2.5 + 0.1 * static_cast<double>(i),
                              i == 39 ? 0 : std::pow(0.6, static_cast<double>(i)), *recipe == 0});
  s.jobs = std::make_shared<std::vector<api::Job>>(1, job);
  s.speed.prompt_tokens_per_s = 41234;
  s.speed.tokens_per_s = 431.5;
  s.speed.bytes_per_s = 2.12e12;
  s.speed.roof_bytes_per_s = 4.57e12;
  for (int i = 0; i < 300; ++i) s.speed.history.push_back({0.05 * i, 430.0 + i % 7});
  return s;
}

} // namespace

TEST_CASE("conversations are begun, opened, renamed and deleted, and a question is edited, and the roofline opens and "
          "follows "
          "its sliders, and the layout is remembered") {
  const tests::TemporaryFolder folder;
  app::WindowSetup setup = guide_setup();
  setup.request.sampling.max_tokens = 30;
  setup.conversation_folder = folder / "conversations";
  ui::WindowOptions options;
  options.layout_file = folder / "window.ini";
  with_window(options, setup, [&](User& user, app::WindowEngine& engine, ui::Window& window) {
    const auto now = [&] { return engine.snapshot(); };
    const auto answered = [&](size_t messages) {
      return eventually([&] {
        const auto at = now();
        return at->messages.size() == messages && at->state == api::EngineState::idle;
      });
    };
    user.type("What is Q4_K?");
    user.press("Return");
    REQUIRE(answered(2));
    const std::string first = now()->messages[1].text;
    CHECK(now()->messages[1].choices);
    user.point(500, 123);

    user.press("ctrl+n");
    REQUIRE(eventually([&] { return now()->messages.empty(); }));
    user.type("How do I convert?");
    user.press("shift+Return");
    user.type("please");
    user.press("ctrl+a");
    user.press("ctrl+c");
    user.press("Right");
    user.press("Return");
    REQUIRE(answered(2));
    CHECK(now()->messages[0].text == "How do I convert?\nplease");
    REQUIRE(now()->conversations->size() == 2);

    user.click("edit", 0);
    user.press("ctrl+a");
    user.type("What is a GGUF file?");
    user.press("Return");
    CHECK(eventually([&] {
      const auto at = now();
      return !at->messages.empty() && at->messages[0].text == "What is a GGUF file?";
    }));
    REQUIRE(answered(2));

    user.click("What is Q4_K?");
    REQUIRE(eventually([&] {
      const auto at = now();
      return !at->messages.empty() && at->messages[0].text == "What is Q4_K?";
    }));
    CHECK(now()->messages[1].text == first);
    user.click("rename");
    user.press("ctrl+a");
    user.type("K-quants");
    user.press("Return");
    CHECK(eventually([&] { return now()->conversations->at(0).title == "K-quants"; }));
    user.click("delete");
    user.click("really delete");
    CHECK(eventually([&] {
      const auto at = now();
      return at->conversations->size() == 1 && at->messages.empty();
    }));

    user.press("ctrl+3");
    CHECK(eventually([&] { return window.panel() == "roofline"; }));
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->roofs && at->predicted && at->measured;
    }));
    REQUIRE(eventually([&] { return now()->state == api::EngineState::idle; }));
    CHECK(now()->predicted->streams == 1);
    user.act("mousemove 997 105 mousedown 1");
    for (int x = 1000; x <= 1200; x += 50) user.point(x, 105);
    user.act("mouseup 1");
    CHECK(eventually([&] { return now()->predicted->streams > 8; }));
    user.point(520, 300); // a point of the plot

    user.press("ctrl+2");
    CHECK(eventually([&] { return window.panel() == "gauges"; }));
    user.press("ctrl+1");
    user.click("‹ list");
    user.press("ctrl+l");
    user.press("F1");
    CHECK(eventually([&] { return !ui::places_of("keyboard shortcuts").empty(); }));
    user.press("ctrl+2"); // beside the list
    CHECK(eventually([&] { return ui::places_of("keyboard shortcuts").empty(); }));
    user.press("ctrl+1");
    user.press("ctrl+equal"); // zoom in
    user.press("ctrl+equal");
    user.press("ctrl+minus");
    user.act("search --name '^ridge$' windowsize --sync 1100 750");
    user.press("ctrl+2");
    CHECK(eventually([&] { return window.panel() == "gauges"; }));
    CHECK(now()->error == "");
  });
  const ui::Layout layout = ui::load_layout(folder / "window.ini");
  CHECK(layout.panel == "gauges");
  CHECK(layout.light);
  CHECK(layout.zoom == 110);
  CHECK(!layout.conversations);
  CHECK(layout.settings);
  CHECK(layout.width == 1100);
  CHECK(layout.height == 750);
}

TEST_CASE("Escape stops the answer, but while a conversation is renamed it ends only that") {
  app::WindowSetup setup = guide_setup();
  setup.model.context = 200000;
  setup.request.sampling.max_tokens = -1;
  setup.request.sampling.ignore_eos = true;
  with_window({}, setup, [&](User& user, app::WindowEngine& engine, ui::Window&) {
    const auto now = [&] { return engine.snapshot(); };
    const auto answering = [&] { return now()->state == api::EngineState::writing; };
    const auto stopped = [&] {
      return now()->state == api::EngineState::idle && now()->messages.at(1).note == "stopped";
    };
    user.type("What is Q4_K?");
    user.press("Return");
    REQUIRE(eventually(answering));
    user.press("Escape");
    REQUIRE(eventually(stopped));
    user.click("rename");
    engine.send(api::intent::Regenerate{});
    REQUIRE(eventually(answering));
    user.type("x");
    user.press("Escape");
    CHECK(answering());
    user.press("Escape");
    CHECK(eventually(stopped));
    CHECK(now()->conversations->at(0).title == "What is Q4_K?");
  });
}

TEST_CASE("the server is switched on, asked and switched off in its panel") {
  ui::WindowOptions options;
  options.panel = "server";
  with_window(options, guide_setup(), [&](User& user, app::WindowEngine& engine, ui::Window&) {
    const auto now = [&] { return engine.snapshot()->serving; };
    user.click(300, 145); // the port
    user.press("ctrl+a");
    user.type("0"); // any free one
    user.click(316, 308);
    REQUIRE(eventually([&] { return now()->state == api::Serving::State::on; }));
    CHECK(now()->address.starts_with("http://127.0.0.1:"));
    CHECK(now()->slots.size() == 4);
    user.click(316, 308);
    REQUIRE(eventually([&] { return now()->state == api::Serving::State::off; }));
    CHECK(now()->problem == "");
  });
}

TEST_CASE("the panel of sequences says what a conversation holds, and what it has kept of another one") {
  app::WindowSetup setup = guide_setup();
  setup.request.sampling.max_tokens = 8;
  with_window({}, setup, [&](User& user, app::WindowEngine& engine, ui::Window& window) {
    const auto now = [&] { return engine.snapshot(); };
    const auto ask = [&](const std::string& question) {
      engine.send(api::intent::NewConversation{});
      engine.send(api::intent::Send{question});
      REQUIRE(eventually([&] {
        return now()->messages.size() == 2 && now()->messages[0].text == question &&
               now()->state == api::EngineState::idle;
      }));
    };
    ask("What is Q4_K, and what are its blocks made of?");
    CHECK(now()->sequences->rows.empty());
    REQUIRE(now()->sequences->streams.size() == 1);
    CHECK(now()->sequences->streams[0].tokens > 20);
    const int64_t first = now()->sequences->streams[0].tokens;
    ask("How do I convert a checkpoint of Hugging Face to GGUF?");
    REQUIRE(now()->sequences->prefixes.size() == 1);
    CHECK(now()->sequences->prefixes[0].tokens == first);
    CHECK(now()->sequences->prefixes[0].text.find("What is Q4_K") != std::string::npos);
    user.press("ctrl+8");
    CHECK(eventually([&] { return window.panel() == "sequences"; }));
    user.point(500, 420); // its row
    CHECK(now()->error == "");
  });
}

TEST_CASE("while the model writes, a frame draws what is in sight, however long the answer is") {
  app::WindowSetup setup = guide_setup();
  setup.model.context = 200000;
  setup.request.sampling.max_tokens = -1;
  setup.request.sampling.ignore_eos = true;
  for (const std::string panel : {"chat", "gauges"}) {
    ui::WindowOptions options;
    options.panel = panel;
    ui::FrameTimes times;
    with_window(options, setup, [&](User&, app::WindowEngine& engine, ui::Window& window) {
      engine.send(api::intent::Send{"What is Q4_K?"});
      const auto now = [&] { return engine.snapshot(); };
      CHECK(eventually([&] { return now()->speed.answer_tokens > 4000; }));
      const uint64_t frames = window.frames();
      CHECK(eventually([&] { return window.frames() >= frames + 20; }));
      engine.send(api::intent::Stop{});
      CHECK(eventually([&] { return now()->state == api::EngineState::idle; }));
      times = window.frame_times();
    });
    MESSAGE(panel << ": " << times.report());
    CHECK(times.while_writing().frames >= 19);
    CHECK(times.while_writing().most_vertices > 0);
    CHECK(times.while_writing().most_vertices < 20000); // a screen of text
  }
}

TEST_CASE("the panels draw what no engine measured: a GPU or several, and numbers of any size") {
  const tests::TemporaryFolder folder;
  app::WindowEngine engine(guide_setup(), [] {});
  REQUIRE(eventually([&] { return engine.snapshot()->model != nullptr; }));
  engine.send(api::intent::MeasureStep{-1});
  REQUIRE(
      eventually([&] { return engine.snapshot()->measured && engine.snapshot()->state == api::EngineState::idle; }));
  for (const char* panel :
       {"chat", "gauges", "roofline", "server", "jobs", "sequences", "sequences/server", "quant/caches"})
    for (const bool light : {false, true}) {
      auto shown = std::make_shared<api::Snapshot>(invented_snapshot(*engine.snapshot()));
      if (light)
        for (const double watts : {688.0, 71.0}) {
          shown->gpus.push_back(shown->gpus[0]);
          shown->gpus.back().power_watts = watts;
        }
      api::Roofs roofs;
      roofs.device = "NVIDIA H200";
      using Unit = core::Ceiling::Unit;
      roofs.ceilings = {{"dram_read", Unit::bytes_per_second, 4.57e12, ""},
                        {"l2_read", Unit::bytes_per_second, 12e12, ""},
                        {"fp32", Unit::operations_per_second, 60e12, ""},
                        {"wgmma_f16", Unit::operations_per_second, 794e12, ""}};
      roofs.read_bytes_per_s = 4.57e12;
      roofs.peak_ops_per_s = 794e12;
      roofs.ridge_ops_per_byte = 794 / 4.57;
      roofs.peak_name = "wgmma_f16";
      shown->roofs = std::make_shared<api::Roofs>(roofs);
      ui::WindowOptions options;
      options.panel = panel;
      options.light = light;
      options.width = 1024;
      options.height = 700;
      std::string name = panel;
      std::ranges::replace(name, '/', '-');
      options.screenshot = folder / fmt::format("{}{}.png", name, light);
      options.after_frames = 5;
      options.enable_widget_positions = true;
      ui::Window(options).run({[&] { return shown; }, [](const api::Intent&) {}});
      CHECK(std::filesystem::file_size(options.screenshot) > 10000);
      if (options.panel == "sequences/server")
        for (const char* choice : {"chat", "server"}) CHECK(ui::places_of(choice).size() == 1);
    }
}

TEST_CASE("the names of the roofs do not lie on one another, and are not cut") {
  app::WindowEngine engine(guide_setup(), [] {});
  REQUIRE(eventually([&] { return engine.snapshot()->model != nullptr; }));
  api::Roofs roofs;
  roofs.device = "a CPU";
  using Unit = core::Ceiling::Unit;
  roofs.ceilings = {{"dram_read", Unit::bytes_per_second, 2.6e9, ""},
                    {"fp32", Unit::operations_per_second, 271e9, ""},
                    {"int8", Unit::operations_per_second, 1.08e12, ""}};
  roofs.read_bytes_per_s = 2.6e9;
  roofs.peak_ops_per_s = 1.08e12;
  roofs.ridge_ops_per_byte = 1080 / 2.6;
  roofs.peak_name = "int8";
  auto shown = std::make_shared<api::Snapshot>(*engine.snapshot());
  shown->roofs = std::make_shared<api::Roofs>(roofs);
  const tests::TemporaryFolder folder;
  for (const auto& [width, height] : {std::pair(900, 600), std::pair(1280, 800)}) {
    CAPTURE(width);
    ui::WindowOptions options;
    options.panel = "roofline";
    options.width = width;
    options.height = height;
    options.enable_widget_positions = true;
    options.screenshot = folder / "roofs.png";
    options.after_frames = 5;
    ui::Window(options).run({[&] { return shown; }, [](const api::Intent&) {}});
    const auto memory = ui::places_of("memory 2.6 GB/s"), fp32 = ui::places_of("fp32 271 GOP/s");
    REQUIRE(memory.size() == 1);
    REQUIRE(fp32.size() == 1);
    constexpr float kLine = 14, kHalfName = 50; // pixels
    CHECK(std::abs(memory[0].y - fp32[0].y) >= kLine);
    CHECK(memory[0].x + kHalfName <
          fp32[0].x + kHalfName + kLine); // no farther right than a name that ends at the edge
  }
}
