// Option groups shared by commands.
#pragma once

#include "api/requests.h"
#include "app/mcp/server_list.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// `guide`: -m is optional; engine::open_model then takes the guide. `bare`: the model may be given without -m; not
// together with TextOptions::add_words.
void add_model_options(CLI::App& command, api::ModelOptions& options, bool guide = false, bool bare = true);
inline constexpr const char* kAdapterHelp =
    "GGUF file of a LoRA adapter, with an optional scale as in file.gguf:0.5 (default: 1; repeatable)";
void add_adapter_options(CLI::App& command, std::vector<api::AdapterOption>& adapters, const char* help = kAdapterHelp);
struct RoomOptions {
  bool &experts_on_host, &cpu_experts;
  std::string &gpu_memory, &host_memory;
  api::GpuOptions& ranks;
};
void add_gpu_room_options(CLI::App& command, const RoomOptions& options);
void add_speculation_options(CLI::App& command, api::ModelOptions& options);
void add_batch_invariant_option(CLI::App& command, bool& batch_invariant);
void add_media_options(CLI::App& command, std::vector<std::string>& files, std::string& mmproj, bool sounds = true);
void add_mcp_options(CLI::App& command, McpOptions& options);
void add_prefix_cache_option(CLI::App& command, api::PrefixOptions& options);
void add_sampling_options(CLI::App& command, api::SamplingOptions& options); // also sets the command's footer
void add_template_options(CLI::App& command, api::TemplateOptions& options);

// The text from -p, -f ("-": standard input) or positional words.
struct TextOptions {
  std::string text, file;
  const CLI::Option* words_option = nullptr;

  void add_to(CLI::App& command, const char* text_help);
  void add_words(CLI::App& command);      // takes model and text without -m and -p; call after add_to()
  std::vector<std::string> words() const; // except the model
  bool given() const { return !text.empty() || !file.empty() || !words().empty(); }
  // Throws Error (usage) if two texts are given.
  std::string read() const;
  // Adds piped input to the text.
  std::string read_with_piped() const;
};

inline constexpr const char* kNoMarkdownHelp = "print answers in a terminal as written, without rendering Markdown";

std::vector<std::string> lines_of(const std::string& text); // without line ends

// "1,2,3" or "1 2 3". Throws Error (usage).
std::vector<int32_t> parse_ids(const std::string& text, const char* flag);

} // namespace ridge::app
