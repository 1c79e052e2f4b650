// ridge gui: the window. Without its libraries, reports what is missing.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "core/error.h"

#if RIDGE_GUI
#include "app/window/window_engine.h"
#include "core/files/xdg.h"
#include "engine/options.h"
#include "engine/speculation/speculation.h"
#include "ui/window.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <vector>

namespace ridge::app {
namespace {

struct GuiCommand {
  WindowSetup setup;
  ui::WindowOptions window;
  std::string size, prompt;
  std::vector<std::string> images;
  bool light = false, dark = false, frame_times = false;

  void run() {
    core::validate(setup.request.sampling.params);
    engine::check_speculation(setup.model);
    engine::check_prefixes(setup.prefixes);
    if (!size.empty()) {
      char rest;
      if (std::sscanf(size.c_str(), "%dx%d%c", &window.width, &window.height, &rest) != 2 || window.width < 320 ||
          window.height < 240 || window.width > 16384 || window.height > 16384)
        throw Error(fmt::format("--size: expected WIDTHxHEIGHT such as 1280x800, found '{}'", size), Error::kUsage);
    }
    if (light || dark) window.light = light;
    setup.remember_files = window.screenshot.empty();
    if (const std::string folder = core::data_folder(); !folder.empty() && window.screenshot.empty())
      setup.conversation_folder = folder + "/conversations";
    if (const std::string folder = core::config_folder(); !folder.empty() && window.screenshot.empty())
      window.layout_file = folder + "/window.ini";
    if (const std::string folder = core::config_folder(); !folder.empty() && window.screenshot.empty())
      setup.preset_file = folder + "/presets.json";
    ui::Window shown(window);
    WindowEngine engine(setup, [&] { shown.wake(); });
    for (const std::string& image : images) engine.send(api::intent::AddPicture{image});
    if (!prompt.empty()) engine.send(api::intent::Send{prompt});
    shown.run({[&] { return engine.snapshot(); }, [&](api::Intent intent) { engine.send(std::move(intent)); }});
    if (frame_times) fmt::print("{}", shown.frame_times().report());
  }
};

} // namespace

void add_gui_command(CLI::App& app) {
  auto options = std::make_shared<GuiCommand>();
  CLI::App* command = app.add_subcommand(
      "gui", "open the window: chat, gauges, roofline, model explorer, quant lab, jobs, server, sequences");
  add_model_options(*command, options->setup.model, true);
  add_speculation_options(*command, options->setup.model);
  add_prefix_cache_option(*command, options->setup.prefixes);
  command->add_option("--system-prompt", options->setup.request.system, "system prompt (-sys)")->type_name("TEXT");
  command->add_option("-p,--prompt", options->prompt, "a first message, sent immediately")->type_name("TEXT");
  add_media_options(*command, options->images, options->setup.model.mmproj, false);
  command
      ->add_option(
          "--panel", options->window.panel,
          "first panel: chat, gauges, roofline, model, quant, jobs, server or sequences; add /PART for a part of it")
      ->type_name("NAME");
  command->add_option("--size", options->size, "window size")->type_name("WxH");
  auto* light = command->add_flag("--light", options->light, "light theme");
  command->add_flag("--dark", options->dark, "dark theme (default: as last time, unless --panel or --size is given)")
      ->excludes(light);
  command->add_option("--screenshot", options->window.screenshot, "save a screenshot of the window, then quit")
      ->type_name("FILE.png");
  command
      ->add_option("--after-frames", options->window.after_frames,
                   "with --screenshot: frames to wait after the window has settled")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--frame-times", options->frame_times,
                    "on quitting, print frame times and the share of a core used for drawing");
  add_mcp_options(*command, options->setup.mcp);
  add_template_options(*command, options->setup.request.chat_template);
  add_sampling_options(*command, options->setup.request.sampling);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app

#else

namespace ridge::app {

void add_gui_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gui", "open the window (not included in this build)");
  command->allow_extras();
  command->callback([] {
    throw Error("this build has no window: install libimgui-dev, libglfw3-dev and libpng-dev (./dev setup) and build "
                "again, or use `ridge chat` in a terminal");
  });
}

} // namespace ridge::app

#endif
