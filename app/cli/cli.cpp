#include "app/cli/cli.h"

#include "app/config/merge.h"
#include "app/help/command_tree.h"
#include "app/models/model_names.h"
#include "app/terminal/streams.h"
#include "core/error.h"
#include "core/files/mapped_file.h"
#include "engine/machine.h"
#include "engine/ranks/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <string_view>
#include <system_error>

namespace ridge::app {
namespace {

constexpr auto kShortWords = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"-sys", "--system-prompt"},
    {"-ub", "--ubatch-size"},
    {"-ngl", "--gpu-layers"},
    {"-np", "--parallel"},
    {"-md", "--draft-model"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
});

constexpr const char* kFooter = "`ridge COMMAND --help` lists a command's options; `ridge config` says which of them "
                                "the configuration file sets (--config FILE: another file; none: no file).";

// One line to stderr. Returns the exit status.
int fail(std::string_view what, int status = Error::kFailed) {
  write_stderr(fmt::format("ridge: error: {}\n", what));
  return status;
}

int fail_of_ours(const std::exception& error) { // a bug, but still one line
  return fail(fmt::format("internal error, please report it: {}", error.what()));
}

// What the configuration file adds to a command line.
struct Configuration {
  SettingsFile file;
  std::vector<Setting> holding; // of this command line

  // The words with what holds; help is there whatever the file says.
  std::vector<std::string> complete(CLI::App& app, std::vector<std::string> args) {
    const auto is_help = [](const std::string& arg) { return arg == "--help" || arg == "-h" || arg == "--version"; };
    if (std::ranges::any_of(args, is_help)) return args;
    file = read_settings(args);
    check_settings(app, file);
    const std::vector<CLI::App*> commands = commands_of(app);
    const auto command = args.empty() ? commands.end() : std::ranges::find(commands, args[0], &CLI::App::get_name);
    if (command == commands.end()) return args;
    holding = settings_for(**command, args, file);
    return with_settings(std::move(args), holding);
  }
  // An error about what the file sets, with its line.
  std::string explained(const std::string& error) const { return error + origin_of(error, holding, file); }
};

// Returns the exit status.
int parse_and_run(CLI::App& app, Configuration& configuration, int argc, const char* const* argv) {
  if (argc > 1 && argv[1] == std::string_view("__complete")) return print_completions(app, {argv + 2, argv + argc});
  std::vector<std::string> args = expand_short_words(argc, argv);
  try {
    if (args.empty()) return app.exit(CLI::CallForHelp());
    args = configuration.complete(app, std::move(args));
    const auto known = app.get_subcommands([](CLI::App*) { return true; });
    if (!args.empty() && !args[0].starts_with('-') &&
        std::ranges::find(known, args[0], &CLI::App::get_name) == known.end())
      throw Error(fmt::format("unknown command '{}'; see ridge --help", args[0]), Error::kUsage);
    std::ranges::reverse(args); // CLI11 takes them last first
    app.parse(std::move(args));
    core::check_mappings();
    return 0;
  } catch (const engine::RankEnded&) { // rank 0 has what it wanted
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error); // --help, --version
    const auto used = app.get_subcommands();
    const std::string command = used.empty() ? "" : used.front()->get_name() + " ";
    return fail(fmt::format("{}; see ridge {}--help", configuration.explained(error.what()), command), Error::kUsage);
  }
}

// Reports what was thrown, and results that could not be written.
int run_and_report(CLI::App& app, Configuration& configuration, int argc, const char* const* argv) {
  try {
    const int status = parse_and_run(app, configuration, argc, argv);
    if (status == 0) flush_stdout();
    return status;
  } catch (const Error& error) {
    return fail(configuration.explained(error.what()), error.exit_code);
  } catch (const std::bad_alloc&) {
    write_stderr("ridge: error: out of memory\n"); // which takes none
    return Error::kFailed;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return fail_of_ours(error);
    return fail(fmt::format("cannot write to stdout: {}", error.code().message())); // fmt::print could not
  } catch (const std::exception& error) {
    return fail_of_ours(error);
  }
}

} // namespace

std::vector<std::string> expand_short_words(int argc, const char* const* argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  for (std::string& arg : args)
    for (const auto& [word, option] : kShortWords)
      if (arg == word) arg = option;
  return args;
}

int run_cli(int argc, const char* const* argv) {
  if (!open_missing_streams()) return Error::kFailed;
  CLI::App app{"ridge: run local GGUF models and see how close they come to the memory roofline", "ridge"};
  app.set_version_flag("--version", fmt::format("ridge {} ({})", RIDGE_VERSION, engine::kCommit));
  app.require_subcommand(1, 1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); // of a repeated option the last counts
  app.footer(kFooter);
  add_chat_command(app);
  add_run_command(app);
  add_serve_command(app);
  add_inspect_command(app);
  add_models_command(app);
  add_pull_commands(app);
  add_fit_command(app);
  add_tokenize_commands(app);
  add_template_command(app);
  add_logits_command(app);
  add_embed_command(app);
  add_rerank_command(app);
  add_convert_command(app);
  add_quantize_command(app);
  add_imatrix_command(app);
  add_bench_command(app);
  add_perplexity_command(app);
  add_roofline_command(app);
  add_gui_command(app);
  add_doctor_command(app);
  Configuration configuration;
  add_config_command(app, configuration.file);
  add_completion_command(app);
  add_manual_command(app);

  app.parse_complete_callback([&app] { // before the command itself
    for (CLI::App* command : app.get_subcommands()) resolve_models(*command);
  });

  const int status = run_and_report(app, configuration, argc, argv);
  drain_stderr();
  return status;
}

} // namespace ridge::app
