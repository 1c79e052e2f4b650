#include "app/help/words.h"

#include "app/help/command_tree.h"
#include "core/error.h"
#include "core/strings/closest.h"
#include "core/strings/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace ridge::app {
namespace {

enum class Way : uint8_t {
  renamed,    // option `here`, same value
  repository, // option `here`, a Hugging Face repository
  always,     // ignored
  always_on,  // ignored, unless "off"
  never,      // an error with advice `here`
};

struct ForeignWord {
  std::string_view name, longer; // either may be empty
  Way way;
  std::string_view here;
  std::string_view command = {}; // only this command; empty: all
};

constexpr auto kForeignWords = std::to_array<ForeignWord>({
    {"-sys", "--system", Way::renamed, "--system-prompt"},
    {"-ub", "", Way::renamed, "--ubatch-size"},
    {"-ngl", "", Way::renamed, "--gpu-layers"},
    {"-np", "", Way::renamed, "--parallel"},
    {"-md", "--model-draft", Way::renamed, "--draft-model"},
    {"-ctk", "", Way::renamed, "--cache-type-k"},
    {"-ctv", "", Way::renamed, "--cache-type-v"},
    {"-cmoe", "", Way::renamed, "--cpu-moe"},
    {"-mm", "", Way::renamed, "--mmproj"},
    {"-mg", "--main-gpu", Way::renamed, "--gpus"},
    {"-a", "", Way::renamed, "--alias"},
    {"", "--lora-scaled", Way::renamed, "--lora"},
    {"", "--lora-init-without-apply", Way::never,
     "--lora FILE:0 loads an adapter that is active only in requests that name it"},
    {"", "--no-webui", Way::renamed, "--no-ui"},
    {"-mu", "--model-url", Way::renamed, "--model"},
    {"", "--n-predict", Way::renamed, "--predict"},
    {"", "--max-tokens", Way::renamed, "--predict"},
    {"", "--temperature", Way::renamed, "--temp"},
    {"-hf", "--hf-repo", Way::repository, "--model"},
    {"-hfr", "", Way::repository, "--model"},
    {"-hff", "--hf-file", Way::never, "name the file after its repository: -m hf:OWNER/REPO/FILE.gguf"},
    {"-fa", "--flash-attn", Way::always_on,
     "ridge has only one attention implementation, which never stores the score matrix"},
    {"", "--jinja", Way::always, ""},
    {"", "--no-warmup", Way::always, ""},
    {"-cb", "--cont-batching", Way::always, ""},
    {"-cnv", "--conversation", Way::always, "", "chat"},
    {"-cnv", "--conversation", Way::never, "for conversations use `ridge chat`"},
    {"-no-cnv", "--no-conversation", Way::always, "", "run"},
    {"-no-cnv", "--no-conversation", Way::never, "`ridge run` gives one answer"},
    {"-st", "--single-turn", Way::always, "", "run"},
    {"-st", "--single-turn", Way::never, "`ridge run` gives one answer"},
    {"-i", "--interactive", Way::never, "for conversations use `ridge chat`"},
    {"", "--no-jinja", Way::never, "chat templates are always Jinja; --chat-template NAME selects a built-in one"},
    {"", "--mlock", Way::never, "the operating system keeps weights in memory as long as they fit; see `ridge fit`"},
    {"", "--no-mmap", Way::never, "files are always memory-mapped; data for a GPU is read once"},
    {"-ts", "--tensor-split", Way::never, "--tensor-parallel N splits every layer evenly over N GPUs"},
    {"-sm", "--split-mode", Way::never,
     "--pipeline N gives each of N GPUs whole layers, --tensor-parallel N a part of every layer"},
    {"-dev", "", Way::never, "use --device cuda or cpu, and --gpus 0,1 to select GPUs"},
    {"-ot", "--override-tensor", Way::never, "--cpu-moe keeps experts in host memory"},
    {"-ncmoe", "--n-cpu-moe", Way::never,
     "--cpu-moe keeps experts in host memory and caches the most used ones on the GPU"},
    {"-tb", "--threads-batch", Way::never, "-t applies to prompts, too"},
    {"-nkvo", "--no-kv-offload", Way::never,
     "the KV cache of a layer is stored on the device that runs the layer; see -ngl"},
    {"-jf", "--json-schema-file", Way::never, "write -j \"$(cat FILE)\""},
    {"-sysf", "--system-prompt-file", Way::never, "write --system-prompt \"$(cat FILE)\""},
    {"-r", "--reverse-prompt", Way::never, "--stop TEXT ends the answer before this text"},
});

struct OtherCommand {
  std::string_view name, here;
};
constexpr auto kOtherCommands = std::to_array<OtherCommand>({
    {"list", "models"},
    {"ls", "models"},
    {"show", "inspect"},
    {"info", "inspect"},
    {"remove", "rm"},
    {"delete", "rm"},
    {"download", "pull"},
    {"get", "pull"},
    {"server", "serve"},
    {"cli", "chat"},
    {"generate", "run"},
    {"ask", "run"},
    {"create", "convert"},
    {"imat", "imatrix"},
    {"benchmark", "bench"},
    {"window", "gui"},
    {"ppl", "perplexity"},
    {"version", "--version"},
});

[[noreturn]] void refuse(const CLI::App& command, std::string_view word, std::string_view why) {
  throw Error(fmt::format("{}: {}: {}", command.get_name(), core::printable(word), why), Error::kUsage);
}

CLI::App& find_command(CLI::App& app, const std::string& word) {
  const auto commands = commands_of(app);
  if (const auto found = std::ranges::find(commands, word, &CLI::App::get_name); found != commands.end())
    return **found;
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const auto other = std::ranges::find(kOtherCommands, word, &OtherCommand::name);
  const std::string meant = other == kOtherCommands.end() ? core::did_you_mean(word, names)
                                                          : fmt::format("; did you mean '{}'?", other->here);
  throw Error(
      fmt::format("unknown command '{}'{}{}", core::printable(word), meant, meant.empty() ? "; see ridge --help" : ""),
      Error::kUsage);
}

const ForeignWord* find_foreign(const CLI::App& command, std::string_view name) {
  for (const ForeignWord& word : kForeignWords)
    if ((name == word.name || name == word.longer) && (word.command.empty() || word.command == command.get_name()))
      return &word;
  return nullptr;
}

class WordReader {
 public:
  WordReader(CLI::App& command, const std::vector<std::string>& words) : command_(command), words_(words) {}

  std::vector<std::string> read() {
    out_ = {command_.get_name()};
    for (at_ = 1; at_ < words_.size(); ++at_) {
      if (words_[at_] == "--") break;
      take(words_[at_]);
    }
    for (; at_ < words_.size(); ++at_) {
      out_.push_back(words_[at_]);
      if (words_[at_] != "--") count_text(words_[at_]);
    }
    return std::move(out_);
  }

 private:
  static bool is_option(std::string_view word) {
    return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
  }

  const CLI::Option* find(const std::string& name) const { return command_.get_option_no_throw(name); }

  void take(const std::string& word) {
    if (!is_option(word)) {
      count_text(word);
      out_.push_back(word);
      return;
    }
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    if (const CLI::Option* option = find(name)) return take_option(*option, word, equals < word.size() - 1);
    if (const ForeignWord* foreign = find_foreign(command_, name))
      return take_foreign(*foreign, name, equals == std::string::npos ? "" : word.substr(equals + 1));
    if (!word.starts_with("--") && is_glued(word)) return out_.push_back(word);
    refuse_unknown(name);
  }

  void take_option(const CLI::Option& option, const std::string& word, bool has_value) {
    out_.push_back(word);
    int values = has_value;
    while (at_ + 1 < words_.size() && (values < option.get_items_expected_min() ||
                                       (values < option.get_items_expected_max() && !is_option(words_[at_ + 1])))) {
      out_.push_back(words_[++at_]);
      ++values;
    }
    if (values < option.get_items_expected_min()) refuse_without_value(option, word);
  }

  [[noreturn]] void refuse_without_value(const CLI::Option& option, const std::string& word) const {
    const OptionWords words = words_of(option);
    const int count = option.get_items_expected_min();
    refuse(command_, word,
           !words.choices.empty() ? fmt::format("expected one of: {}", fmt::join(words.choices, ", "))
           : count > 1            ? fmt::format("expected {} values, {} each", count, words.value)
                                  : fmt::format("expected {}", words.value));
  }

  void take_foreign(const ForeignWord& foreign, const std::string& name, std::string value) {
    if (foreign.way == Way::never) refuse(command_, name, foreign.here);
    if (foreign.way == Way::always) return;
    if (foreign.way == Way::always_on) return take_always_on(foreign, name, value);
    const std::string here(foreign.here);
    const CLI::Option* option = find(here);
    if (!option) refuse(command_, name, fmt::format("corresponds to {}, which this command does not have", here));
    out_.push_back(here);
    if (option->get_items_expected_min() == 0) return;
    if (value.empty() && at_ + 1 < words_.size()) value = words_[++at_];
    if (value.empty()) refuse_without_value(*option, name);
    const bool bare = value.find("://") == std::string::npos && !value.starts_with("hf:");
    out_.push_back(foreign.way == Way::repository && bare ? "hf:" + value : value);
  }

  void take_always_on(const ForeignWord& foreign, const std::string& name, std::string value) {
    const auto is_switch = [](std::string_view text) {
      return text == "on" || text == "off" || text == "auto" || text == "1" || text == "0";
    };
    if (value.empty() && at_ + 1 < words_.size() && is_switch(words_[at_ + 1])) value = words_[++at_];
    if (value == "off" || value == "0") refuse(command_, fmt::format("{} {}", name, value), foreign.here);
  }

  // -t4, -mmodel.gguf. Letters alone are an unknown word.
  bool is_glued(const std::string& word) const {
    const CLI::Option* option = find(word.substr(0, 2));
    if (!option || option->get_items_expected_min() == 0) return false;
    return !std::ranges::all_of(word.substr(2), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    });
  }

  [[noreturn]] void refuse_unknown(const std::string& name) const {
    const std::string see = fmt::format("; see ridge {} --help", command_.get_name());
    if (const std::string with_two = "-" + name; find(with_two) || find_foreign(command_, with_two))
      refuse(command_, name, fmt::format("unknown option; did you mean '{}'?", core::printable(with_two)));
    if (!name.starts_with("--"))
      if (const CLI::Option* option = find(name.substr(0, 2)); option && option->get_items_expected_min() > 0)
        refuse(command_, name,
               fmt::format("unknown option; put a space between {} and {}{}", name.substr(0, 2),
                           core::printable(name.substr(2)), see));
    std::vector<std::string> known;
    for (const OptionWords& option : options_of(command_))
      for (const std::string& each : option.names) known.push_back(each);
    const std::string meant = core::did_you_mean(name, known);
    refuse(command_, name, "unknown option" + (meant.empty() ? see : meant));
  }

  void count_text(const std::string& word) {
    int most = 0;
    for (const CLI::Option* option : command_.get_options())
      if (option->get_positional()) most += std::min(option->get_items_expected_max(), kMany);
    if (++texts_ <= most) return;
    if (most == 0)
      refuse(command_, word,
             fmt::format("unexpected argument; this command takes only options; see ridge {} --help",
                         command_.get_name()));
    refuse(command_, word,
           fmt::format("one argument too many; put a text with spaces in quotes; see ridge {} --help",
                       command_.get_name()));
  }

  static constexpr int kMany = 1 << 20;

  CLI::App& command_;
  const std::vector<std::string>& words_;
  std::vector<std::string> out_;
  size_t at_ = 0;
  int texts_ = 0;
};

} // namespace

std::vector<std::string> read_words(CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return words;
  if (words[0] == "help") {
    if (words.size() == 1) return {"--help"};
    return {find_command(app, words[1]).get_name(), "--help"};
  }
  return WordReader(find_command(app, words[0]), words).read();
}

} // namespace ridge::app
