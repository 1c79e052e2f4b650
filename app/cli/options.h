// Groups of options that several commands share. They fill the structs of core/requests.h.
#pragma once

#include "app/mcp/server_list.h"
#include "core/requests.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

// With `guide`, -m may be left out: engine::open_model then takes the built-in guide. `bare`: -m's model may also be a
// word without -m, unless TextOptions::add_words takes such words.
void add_model_options(CLI::App& command, core::ModelOptions& options, bool guide = false, bool bare = true);
// --lora.
inline constexpr const char* kAdapterHelp =
    "a LoRA adapter of the model, a GGUF file, and how much of it counts, such as file.gguf:0.5 (default: 1); several: "
    "again for each";
void add_adapter_options(CLI::App& command, std::vector<core::AdapterOption>& adapters,
                         const char* help = kAdapterHelp);
// --cpu-moe, --gpu-memory, --host-memory, --gpus, --tensor-parallel and --pipeline; behind --gpu-layers.
struct RoomOptions {
  bool& experts_on_host;
  std::string &gpu_memory, &host_memory;
  core::GpuOptions& ranks;
};
void add_gpu_room_options(CLI::App& command, const RoomOptions& options);
// For commands that generate: how tokens are guessed ahead.
void add_speculation_options(CLI::App& command, core::ModelOptions& options);
// --image and --audio, whose files come in one list, and --mmproj.
void add_media_options(CLI::App& command, std::vector<std::string>& files, std::string& mmproj, bool sounds = true);
// --mcp and --mcp-server.
void add_mcp_options(CLI::App& command, McpOptions& options);
void add_prefix_cache_option(CLI::App& command, core::PrefixOptions& options); // --prefix-cache
void add_sampling_options(CLI::App& command, core::SamplingOptions& options);  // also the command's footer
void add_template_options(CLI::App& command, core::TemplateOptions& options);

// -p TEXT or -f FILE ("-": standard input), or words of the command line: the text of whichever was given.
struct TextOptions {
  std::string text, file;
  const CLI::Option* words_option = nullptr; // add_words()

  void add_to(CLI::App& command, const char* text_help);
  void add_words(CLI::App& command);      // a model and a text, without -m and -p; behind add_to()
  std::vector<std::string> words() const; // without the model
  bool given() const { return !text.empty() || !file.empty() || !words().empty(); }
  // Throws Error (usage) where there are two texts.
  std::string read() const;
  // The same, and behind it what is piped into the command, if anything (app/terminal/piped_text.h).
  std::string read_with_piped() const;
};

// For commands that show answers on a terminal.
inline constexpr const char* kNoMarkdownHelp = "a terminal gets answers as they are written, not as Markdown";

std::vector<std::string> lines_of(const std::string& text); // without their ends

// "1,2,3" or "1 2 3" -> numbers. Throws Error (usage) naming the flag and the word.
std::vector<int32_t> parse_ids(const std::string& text, const char* flag);

} // namespace ridge::app
