// The command line: each subcommand is one file that adds itself to the parser and runs from its callback.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

struct CommandLine;

void add_run_command(CLI::App& app);
void add_chat_command(CLI::App& app);
void add_serve_command(CLI::App& app, const CommandLine& line); // which is known when the command runs
void add_inspect_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_fit_command(CLI::App& app);
// pull and rm. `next`: words of a command that is to run when this one has ended.
void add_pull_commands(CLI::App& app, std::vector<std::string>& next);
void add_search_command(CLI::App& app, std::vector<std::string>& next); // `next` likewise
void add_tokenize_commands(CLI::App& app); // tokenize and detokenize
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
void add_config_command(CLI::App& app, const CommandLine& line); // likewise
void add_completion_command(CLI::App& app);
void add_manual_command(CLI::App& app);

// Parses and runs; returns the exit status. Errors end up on stderr as one line.
int run_cli(int argc, const char* const* argv);

} // namespace ridge::app
