#include "app/cli/cli.h"

#include "app/cli/choose_model.h"
#include "app/config/merge.h"
#include "app/help/command_tree.h"
#include "app/help/help_page.h"
#include "app/help/words.h"
#include "app/models/model_names.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/mapped_file.h"
#include "engine/loading/machine.h"
#include "engine/loading/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ridge::app {
namespace {

constexpr const char* kFooter =
    "`ridge COMMAND --help` lists a command's options; `ridge config` shows which of them the configuration file sets "
    "(--config FILE: use another file; --config none: use none).";

int fail(std::string_view what, int status = Error::kFailed) {
  write_stderr(fmt::format("ridge: error: {}\n", what));
  return status;
}

int fail_of_ours(const std::exception& error) {
  return fail(fmt::format("internal error, please report it: {}", error.what()));
}

struct Configuration {
  CommandLine line;
  std::vector<Setting> holding;
  bool helps = false;

  // Removes --config from the words. Help works even if the file is wrong.
  void read(std::vector<std::string>& words) {
    const auto is_help = [](const std::string& word) {
      return word == "--help" || word == "-h" || word == "--version";
    };
    helps = std::ranges::any_of(words, is_help) || (!words.empty() && words[0] == "help");
    try {
      line.file = read_settings(words);
    } catch (const Error&) {
      if (!helps) throw;
    }
  }
  void complete(CLI::App& app, std::vector<std::string>& args) {
    if (helps) return;
    check_settings(app, line.file);
    line.args = args;
    const std::vector<CLI::App*> commands = commands_of(app);
    const auto command = std::ranges::find(commands, args[0], &CLI::App::get_name);
    if (command == commands.end()) return;
    holding = settings_for(**command, args, line.file);
    args = with_settings(std::move(args), holding);
  }
  // Adds the file's line to errors about its settings.
  std::string explained(const std::string& error) const { return error + origin_of(error, holding, line.file); }
};

int parse_and_run(CLI::App& app, Configuration& configuration, std::vector<std::string> words, NextCommand& next) {
  if (!words.empty() && words[0] == "__complete") return print_completions(app, {words.begin() + 1, words.end()});
  const bool alone = words.empty();
  configuration.read(words);
  std::vector<std::string> args = read_words(app, words);
  try {
    if (alone && stdin_is_terminal() && stdout_is_terminal()) {
      fmt::print("ridge runs local language models; `ridge help` lists its commands.\n\n");
      next = choose_first_model(true);
      return 0;
    }
    if (args.empty()) return app.exit(CLI::CallForHelp());
    configuration.complete(app, args);
    std::ranges::reverse(args); // CLI11 expects reverse order
    app.parse(std::move(args));
    core::check_mappings();
    return 0;
  } catch (const engine::RankEnded&) { // not an error: rank 0 has finished
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto used = app.get_subcommands();
    const std::string command = used.empty() ? "" : used.front()->get_name() + " ";
    return fail(fmt::format("{}; see ridge {}--help", configuration.explained(error.what()), command), Error::kUsage);
  }
}

int run_and_report(CLI::App& app, Configuration& configuration, const std::vector<std::string>& words,
                   NextCommand& next) {
  try {
    const int status = parse_and_run(app, configuration, words, next);
    if (status == 0) flush_stdout();
    return status;
  } catch (const Error& error) {
    return fail(configuration.explained(error.what()), error.exit_code);
  } catch (const std::bad_alloc&) {
    write_stderr("ridge: error: out of memory\n"); // allocates nothing
    return Error::kFailed;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return fail_of_ours(error);
    return fail(fmt::format("cannot write to stdout: {}", error.code().message()));
  } catch (const std::exception& error) {
    return fail_of_ours(error);
  }
}

using AddCommand = std::function<void(CLI::App&)>;

void add_group(CLI::App& app, const char* name, const std::vector<AddCommand>& commands) {
  const size_t before = commands_of(app).size();
  for (const AddCommand& add : commands) add(app);
  const auto all = commands_of(app);
  for (size_t i = before; i < all.size(); ++i) all[i]->group(name);
}

void add_commands(CLI::App& app, const CommandLine& line, NextCommand& next) {
  const auto add_serve = [&](CLI::App& to) { add_serve_command(to, line); };
  const auto add_pull = [&](CLI::App& to) { add_pull_commands(to, next); };
  const auto add_search = [&](CLI::App& to) { add_search_command(to, next); };
  add_group(app, "Use models", {add_chat_command, add_run_command, add_serve, add_gui_command});
  add_group(app, "Find and manage models",
            {add_models_command, add_search, add_pull, add_fit_command, add_inspect_command});
  add_group(app, "Create models", {add_convert_command, add_quantize_command, add_imatrix_command});
  add_group(app, "Measure", {add_bench_command, add_roofline_command, add_perplexity_command});
  add_group(app, "Inspect single steps",
            {add_tokenize_commands, add_template_command, add_logits_command, add_embed_command, add_rerank_command});
  const auto add_config = [&](CLI::App& to) { add_config_command(to, line); };
  add_group(app, "This machine", {add_doctor_command, add_config, add_completion_command, add_manual_command});
}

int run_words(const std::vector<std::string>& words, NextCommand& next) {
  CLI::App app{"ridge: run local GGUF models and see how close they come to the memory roofline", "ridge"};
  app.set_version_flag("--version", fmt::format("ridge {} ({})", RIDGE_VERSION, engine::kCommit));
  app.require_subcommand(1, 1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); // the last of repeated options counts
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpPage>());
  Configuration configuration;
  add_commands(app, configuration.line, next);

  app.parse_complete_callback([&app] { // runs before the command
    for (CLI::App* command : app.get_subcommands()) {
      const bool may_be_text = take_model_word(*command);
      resolve_models(*command, may_be_text);
    }
  });

  return run_and_report(app, configuration, words, next);
}

} // namespace

int run_cli(int argc, const char* const* argv) {
  if (!open_missing_streams()) return Error::kFailed;
  NextCommand words(argv + std::min(argc, 1), argv + argc), next;
  int status = run_words(words, next);
  while (status == 0 && !next.empty()) {
    words = std::exchange(next, {});
    status = run_words(words, next);
  }
  drain_stderr();
  return status;
}

} // namespace ridge::app
