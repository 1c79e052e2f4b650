// The command line. Each subcommand registers itself and runs from its callback.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

struct CommandLine;

void add_run_command(CLI::App& app);
void add_chat_command(CLI::App& app);
void add_serve_command(CLI::App& app, const CommandLine& line); // `line` is complete only when the command runs
void add_inspect_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_fit_command(CLI::App& app);
// pull and rm. `next`: the command to run afterwards.
void add_pull_commands(CLI::App& app, std::vector<std::string>& next);
void add_search_command(CLI::App& app, std::vector<std::string>& next);
void add_tokenize_commands(CLI::App& app);
void add_template_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_embed_command(CLI::App& app);
void add_rerank_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_imatrix_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_perplexity_command(CLI::App& app);
void add_roofline_command(CLI::App& app);
void add_gui_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_config_command(CLI::App& app, const CommandLine& line);
void add_completion_command(CLI::App& app);
void add_manual_command(CLI::App& app);

// Returns the exit status. Prints errors to stderr.
int run_cli(int argc, const char* const* argv);

} // namespace ridge::app
