// ridge completion: shell scripts that call ridge for candidates.
#include "app/cli/cli.h"
#include "app/help/command_tree.h"
#include "app/models/model_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

constexpr const char* kBash = R"SCRIPT(# bash completion for ridge
_ridge() {
  # To bash, a colon and an equals sign are words of their own, and it replaces only what follows them.
  local IFS=$'\n' line glued= typed=${COMP_WORDS[COMP_CWORD]} before words=()
  for line in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $line && $line != *[!:=]* ]]; then
      [ ${#words[@]} -gt 0 ] || words=("")
      words[-1]+=$line glued=yes
    elif [ "$glued" ]; then
      words[-1]+=$line glued=
    else
      words+=("$line")
    fi
  done
  [ "$glued" ] && typed=
  before=${words[-1]%"$typed"}
  COMPREPLY=()
  for line in $(ridge __complete "${words[@]}" 2>/dev/null); do
    if [ "$line" = :files ]; then
      compopt -o default -o filenames
      line=${words[-1]}
      [[ $line == --*=* ]] && line=${line#*=} before=${before#*=}
      for line in $(compgen -f -- "$line"); do COMPREPLY+=("${line#"$before"}"); done
    else
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$before"}")
    fi
  done
}
complete -F _ridge ridge
)SCRIPT";

// clang-format off
constexpr const char* kZsh = R"SCRIPT(#compdef ridge
_ridge() {
  local line files
  local -a found
  for line in ${(f)"$(ridge __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)"}; do
    if [[ $line == :files ]]; then
      files=yes
    else
      found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  (( $#found )) && _describe ridge found
  [[ -n $files ]] || return
  [[ $PREFIX == --*=* ]] && compset -P 1 '*='
  _files
}
if [[ $funcstack[1] == _ridge ]]; then _ridge "$@"; else compdef _ridge ridge; fi
)SCRIPT";
// clang-format on

constexpr const char* kFish = R"SCRIPT(# fish completion for ridge
function __ridge_complete
  set -l words (commandline -opc)[2..-1] (commandline -ct)
  for line in (ridge __complete $words 2>/dev/null)
    if test "$line" = :files
      set -l option (string match -r -- '^--[^=]*=' (commandline -ct))
      for path in (__fish_complete_path (string replace -- "$option" '' (commandline -ct)))
        echo "$option$path"
      end
    else
      echo $line
    end
  end
end
complete -c ridge -f -a '(__ridge_complete)'
)SCRIPT";

bool names_a_file(const std::string& value) {
  if (value == kModelType || value == kModelAndTextType || value == "DIR" || value.starts_with("FILE") ||
      value.starts_with("FOLDER"))
    return true;
  return value.ends_with(".gguf") || value.ends_with(".npy");
}

struct Found {
  std::string before = {};
  std::string prefix;
  std::vector<std::string> lines;

  void add(const std::string& word, const std::string& help) {
    if (word.starts_with(prefix)) lines.push_back(fmt::format("{}{}\t{}", before, word, help));
  }
  void add_values(const OptionWords& option) {
    for (const std::string& choice : option.choices) add(choice, option.help);
    if (option.value == kModelType || option.value == kLocalModelType || option.value == kModelAndTextType)
      for (const std::string& name : model_names()) add(name, option.help);
    if (names_a_file(option.value) && !std::ranges::count(lines, ":files")) lines.emplace_back(":files");
  }
  void add_options(const std::vector<OptionWords>& options) {
    for (const OptionWords& option : options)
      for (const std::string& name : option.names) add(name, option.help);
  }
};

std::vector<std::string> completions(CLI::App& app, const std::vector<std::string>& words) {
  Found found{.prefix = words.empty() ? "" : words.back()};
  const auto commands = commands_of(app);
  if (words.size() <= 1) {
    for (const CLI::App* command : commands) found.add(command->get_name(), command->get_description());
    if (found.prefix.starts_with('-')) found.add_options(options_of(app));
    return found.lines;
  }
  const auto command = std::ranges::find(commands, words[0], &CLI::App::get_name);
  if (command == commands.end()) return {};
  const std::vector<OptionWords> options = options_of(**command);
  std::string valued = words[words.size() - 2];
  if (const size_t equals = found.prefix.find('='); found.prefix.starts_with("--") && equals != std::string::npos) {
    found.before = found.prefix.substr(0, equals + 1);
    valued = found.prefix.substr(0, equals);
    found.prefix.erase(0, equals + 1);
  }
  for (const OptionWords& option : options)
    if (!option.value.empty() && std::ranges::find(option.names, valued) != option.names.end()) {
      found.add_values(option);
      return found.lines;
    }
  if (!found.before.empty()) return {};
  if (found.prefix.starts_with('-')) {
    found.add_options(options);
    return found.lines;
  }
  for (const OptionWords& option : options)
    if (option.accepts_positional) found.add_values(option);
  return found.lines;
}

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

} // namespace

int print_completions(CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& line : completions(app, words)) fmt::print("{}\n", line);
  return 0;
}

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "print the completion script for a shell: bash, zsh or fish");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL")
      ->required();
  command->footer("bash: eval \"$(ridge completion bash)\" in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit;\n"
                  "fish: ridge completion fish > ~/.config/fish/completions/ridge.fish");
  command->callback([shell] { fmt::print("{}", completion_script(*shell)); });
}

} // namespace ridge::app
