// The guide's corpus has a question for each command and main flag, and names only what exists.
#include "app/support.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace ridge::tests;
namespace fs = std::filesystem;

namespace {

// Questions ("=", "?") and answers ("!", "+").
struct GuideCorpus {
  std::string asked, answered;
  GuideCorpus() {
    for (const auto& entry : fs::directory_iterator(RIDGE_SOURCE_DIR "/models/guide/corpus")) {
      std::istringstream lines(read_file(entry.path()));
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("=") || line.starts_with("?")) asked += line.substr(1) + " |\n";
        if (line.starts_with("!") || line.starts_with("+")) answered += line.substr(1) + "\n";
      }
    }
  }
  bool asks_about(const std::string& words) const { // "ridge run" is not in "ridge running"
    for (size_t at = asked.find(words); at != std::string::npos; at = asked.find(words, at + 1)) {
      const char before = at == 0 ? ' ' : asked[at - 1], behind = asked[at + words.size()];
      if (before == ' ' && (behind == ' ' || behind == '?' || behind == ',')) return true;
    }
    return false;
  }
};

std::vector<std::string> commands_with_help() {
  std::vector<std::string> commands;
  std::istringstream help(run_ridge({"--help"}).out);
  for (std::string line; std::getline(help, line) && line != "Options";)
    if (line.starts_with("  ") && line[2] != ' ') commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  return commands;
}

const std::string& help_of(const std::string& command) {
  static std::map<std::string, std::string> known;
  if (!known.contains(command)) known[command] = run_ridge({command, "--help"}).out;
  return known[command];
}

std::vector<std::string> first_flags(const std::string& command) {
  std::istringstream help(help_of(command));
  std::vector<std::string> flags;
  std::string line;
  while (std::getline(help, line) && line != "Common" && line != "Options") {
  }
  const std::regex flag("^  (?:-[a-zA-Z], )?(--[a-z][a-z0-9-]*)");
  std::smatch found;
  while (std::getline(help, line) && !line.empty())
    if (std::regex_search(line, found, flag) && found[1] != "--help") flags.push_back(found[1]);
  return flags;
}

} // namespace

TEST_CASE("the guide's corpus has a question about each command, and each flag that its help shows first") {
  const GuideCorpus corpus;
  const std::vector<std::string> commands = commands_with_help();
  CHECK(commands.size() > 20);
  size_t flags = 0;
  for (const std::string& command : commands) {
    CHECK_MESSAGE(corpus.asks_about("ridge " + command), "models/guide/corpus/tool.txt asks nothing about ridge ",
                  command);
    for (const std::string& flag : first_flags(command)) {
      ++flags;
      CHECK_MESSAGE((corpus.asks_about(flag) || corpus.asks_about("ridge " + command + " " + flag)),
                    "no question about ", flag, " of ridge ", command,
                    "; write the topics anew: python3 models/guide/make_corpus.py --flags build/release/ridge");
    }
  }
  CHECK(flags > 150);
}

TEST_CASE("the commands and flags that the guide's corpus names are there") {
  const GuideCorpus corpus;
  const std::vector<std::string> commands = commands_with_help();
  std::set<std::string> flags;
  const std::regex flag("(?:^|\\s|,)(--[a-z][a-z0-9-]*[a-z0-9])");
  for (const std::string& command : commands) {
    const std::string& help = help_of(command);
    for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at) flags.insert((*at)[1]);
  }
  for (const std::string* text : {&corpus.asked, &corpus.answered}) {
    for (std::sregex_iterator at(text->begin(), text->end(), flag), end; at != end; ++at)
      CHECK_MESSAGE(flags.contains((*at)[1]), "the corpus names ", (*at)[1].str(), ", which no command has");
    const std::regex command("(?:Run|run|^) ridge ([a-z]+) (?:-|[a-z]+\\.gguf|hf:|\\|)");
    for (std::sregex_iterator at(text->begin(), text->end(), command), end; at != end; ++at)
      CHECK_MESSAGE(std::ranges::find(commands, (*at)[1].str()) != commands.end(), "there is no command ", at->str());
  }
}
