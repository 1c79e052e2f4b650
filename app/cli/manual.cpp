// ridge manual: a manual page from the parser.
#include "app/cli/cli.h"
#include "app/help/command_tree.h"

#include <fmt/format.h>

namespace ridge::app {
namespace {

constexpr const char* kEnd = R"(.SH FILES
.TP
.I $XDG_CONFIG_HOME/ridge/window.ini
layout of the window (default folder: ~/.config)
.TP
.I $XDG_DATA_HOME/ridge
conversations, and models downloaded from addresses (default folder: ~/.local/share)
.TP
.I $XDG_STATE_HOME/ridge
terminal history and the best measured memory bandwidth (default folder: ~/.local/state)
.TP
.I $HF_HOME/hub
downloaded models, shared with other tools (default folder: ~/.cache/huggingface)
.TP
.I $XDG_CACHE_HOME/ridge/rank\-secret
secret by which processes that share a model on this machine authenticate each other (default folder: ~/.cache)
.SH ENVIRONMENT
.TP
.B HF_HOME, HF_HUB_CACHE
folders of Hugging Face models
.TP
.B HF_TOKEN
gives \-\-model and pull access to gated and private models
.TP
.B HF_ENDPOINT
a hub other than https://huggingface.co
.TP
.B https_proxy, no_proxy
proxy settings for downloads
.TP
.B RIDGE_RANK_SECRET, RIDGE_RANK_SECRET_FILE
secret by which processes that share a model on several machines authenticate each other
.TP
.B RIDGE_RANK_TIMEOUT
how many seconds these processes wait for each other
.TP
.B NO_COLOR
plain text in the terminal
.TP
.B CUDA_VISIBLE_DEVICES
which GPUs may be used
.SH EXIT STATUS
0: success. 1: failure, with the reason on standard error. 2: wrong command line.
.SH EXAMPLES
.EX
ridge chat \-m hf:OWNER/REPO:Q4_K_M
ridge chat \-m model.gguf
ridge run \-p 'What is a roofline?'
ridge bench \-m model.gguf
ridge quantize model\-f16.gguf model\-q4.gguf Q4_K_M
ridge serve \-m model.gguf \-\-port 8080
.EE
)";

std::string escaped(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_begins = c == '\n';
  }
  return out;
}

std::string described(const OptionWords& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", escaped(name));
  if (!option.value.empty()) names += fmt::format("{}\\fI{}\\fR", names.empty() ? "" : " ", escaped(option.value));
  const std::string default_value =
      option.default_value.empty() ? "" : fmt::format(" (default: {})", option.default_value);
  return fmt::format(".TP\n{}\n{}\n", names, escaped(option.help + default_value));
}

std::string manual_page(CLI::App& app) {
  std::string page = fmt::format(".TH RIDGE 1 \"\" \"ridge {}\"\n.SH NAME\nridge \\- {}\n.SH SYNOPSIS\n"
                                 ".B ridge\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n",
                                 RIDGE_VERSION, "run local GGUF models and measure them against the memory roofline");
  for (const CLI::App* command : commands_of(app)) {
    page += fmt::format(".SS ridge {}\n{}\n", escaped(command->get_name()), escaped(command->get_description()));
    for (const OptionWords& option : options_of(*command))
      if (option.names.empty() || option.names.back() != "--help") page += described(option);
  }
  return page + kEnd;
}

} // namespace

void add_manual_command(CLI::App& app) {
  app.add_subcommand("manual", "print the manual page: ridge manual | man -l -")->callback([&app] {
    fmt::print("{}", manual_page(app));
  });
}

} // namespace ridge::app
