// Completions and the manual page.
#include "app/support.h"

#include "support/process.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ridge;
using namespace ridge::tests;

namespace {

std::vector<std::string> offered(const std::vector<std::string>& words) {
  std::vector<std::string> arguments = {"__complete"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Result result = run_ridge(arguments);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  std::vector<std::string> found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) found.push_back(line.substr(0, line.find('\t')));
  return found;
}

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

// Names that need quoting, and Ollama's wide:3b.
const std::string& files() {
  static const std::string path = [] {
    const std::filesystem::path work = folder() / "complete";
    const std::filesystem::path ollama = work / "ollama",
                                library = ollama / "manifests/registry.ollama.ai/library/wide";
    std::filesystem::create_directories(work / "files/inner");
    std::filesystem::create_directories(library);
    std::filesystem::create_directories(ollama / "blobs");
    const std::string hash(64, '7');
    std::ofstream(work / "files/one model.gguf") << "GGUF";
    std::ofstream(work / "files/two:b.gguf") << "GGUF";
    std::ofstream(ollama / "blobs" / ("sha256-" + hash)) << "blob";
    std::ofstream(library / "3b") << R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", )"
                                  << R"("digest": "sha256:)" << hash << "\"}]}";
    return (work / "files").string();
  }();
  return path;
}

Terminal::Environment surroundings() {
  const std::filesystem::path ridge = RIDGE_BINARY;
  return {{"PATH", ridge.parent_path().string() + ":" + std::getenv("PATH")},
          {"HOME", files()},
          {"OLLAMA_MODELS", files() + "/../ollama"},
          {"TERM", "dumb"}};
}

bool is_here(const std::string& shell) {
  const bool found = run({"/bin/sh", "-c", "command -v " + shell}).status == 0;
  if (!found) MESSAGE(shell, " is not installed: its completion is not checked");
  return found;
}

// Binds a key that shows and clears the line, then completes with Tab.
void check_interactive(const Words& shell, const std::string& setup, char show) {
  Terminal terminal(shell, surroundings(), 200);
  terminal.type("cd '" + files() + "'; " + setup + "; echo rea''dy\n");
  REQUIRE(terminal.expect("ready"));
  const auto completes = [&](const std::string& typed, const std::string& line) {
    terminal.type(typed + "\t" + show);
    CHECK_MESSAGE(terminal.expect("[" + line + "]"), shell[0], ": ", typed);
  };
  const char* const colon = shell[0] == "zsh" ? ":" : "\\:"; // bash quotes it
  completes("ridge qua", "ridge quantize ");
  completes("ridge run --devi", "ridge run --device ");
  completes("ridge run --device cu", "ridge run --device cuda ");
  completes("ridge run --device=cu", "ridge run --device=cuda ");
  completes("ridge run -m wid", std::string("ridge run -m wide") + colon + "3b ");
  completes("ridge run -m wide:", "ridge run -m wide:3b ");
  completes("ridge run --model=wide:3", "ridge run --model=wide:3b ");
  completes("ridge inspect on", "ridge inspect one\\ model.gguf ");
  completes("ridge inspect 'on", "ridge inspect 'one model.gguf' ");
  completes("ridge inspect in", "ridge inspect inner/");
  completes("ridge run --model=on", "ridge run --model=one\\ model.gguf ");
  completes("ridge quantize x.gguf tw", std::string("ridge quantize x.gguf two") + colon + "b.gguf ");
  completes("ridge run --temp ", "ridge run --temp ");
  terminal.type("ridge \t\t");
  CHECK(terminal.expect("perplexity"));
}

} // namespace

TEST_CASE("completions are commands, options, an option's values or files") {
  const Words all = offered({""});
  CHECK(has(all, "chat"));
  CHECK(has(all, "quantize"));
  CHECK(!has(all, "__complete"));
  CHECK(offered({"ru"}) == Words{"run"});
  CHECK(offered({"run", "--devi"}) == Words{"--device"});
  CHECK(has(offered({"run", "-"}), "-m"));
  Words devices = offered({"run", "--device", ""});
  std::ranges::sort(devices);
  CHECK(devices == Words{"auto", "cpu", "cuda"});
  CHECK(offered({"run", "--device", "cp"}) == Words{"cpu"});
  CHECK(offered({"run", "-m", "mod"}) == Words{":files"});
  CHECK(offered({"inspect", "no-such"}) == Words{":files"});
  CHECK(offered({"chat", "no-such"}) == Words{":files"});
  CHECK(offered({"run", "no-such"}) == Words{":files"});
  CHECK(offered({"quantize", "a.gguf", ""}) == Words{":files"});
  CHECK(offered({"convert", ""}) == Words{":files"});
  CHECK(offered({"convert", "-o", ""}) == Words{":files"});
  CHECK(offered({"run", "--device=c"}).size() == 2);
  CHECK(has(offered({"run", "--device=c"}), "--device=cuda"));
  CHECK(offered({"run", "--model=mod"}) == Words{":files"});
  CHECK(offered({"run", "--nonsense="}).empty());
  CHECK(offered({"run", "--temp", ""}).empty());
  CHECK(offered({"nonsense", ""}).empty());
  CHECK(offered({"completion", "z"}) == Words{"zsh"});
}

TEST_CASE("bash completes with the script that ridge prints") {
  check_interactive({"bash", "--norc", "--noprofile", "-i"},
                    "PS1='$ '; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; "
                    "show() { echo \"[$READLINE_LINE]\"; READLINE_LINE=; }; bind -x '\"\\C-g\": show'; "
                    "eval \"$(ridge completion bash)\"",
                    '\a');
  CHECK(run_ridge({"completion", "tcsh"}).status == 2);
}

TEST_CASE("zsh completes with the script that ridge prints, evaluated or found in fpath") {
  if (!is_here("zsh")) return;
  const std::string functions = files() + "/../functions";
  std::filesystem::create_directories(functions);
  std::ofstream(functions + "/_ridge") << run_ridge({"completion", "zsh"}).out;
  const std::string keys = "show() { print -r -- \"[$BUFFER]\"; BUFFER=; zle reset-prompt; }; zle -N show; "
                           "bindkey '^G' show; PS1='%% '; autoload -Uz compinit; ";
  check_interactive({"zsh", "-f", "-i"}, keys + "compinit -u -D; eval \"$(ridge completion zsh)\"", '\a');
  check_interactive({"zsh", "-f", "-i"}, keys + "fpath=('" + functions + "' $fpath); compinit -u -D", '\a');
}

TEST_CASE("fish completes with the script that ridge prints") {
  if (!is_here("fish")) return;
  const auto offers = [&](const std::string& line) {
    std::string script = "cd '" + files() + "'; ";
    for (const auto& [name, value] : surroundings())
      script +=
          name == "PATH" ? "set -gx PATH (string split : '" + value + "'); " : "set -gx " + name + " '" + value + "'; ";
    const Result result =
        run({"fish", "--no-config", "-c", script + "ridge completion fish | source; complete -C \"" + line + "\""});
    CHECK(result.err.empty());
    Words found;
    std::istringstream lines(result.out);
    for (std::string each; std::getline(lines, each);) found.push_back(each.substr(0, each.find('\t')));
    return found;
  };
  CHECK(offers("ridge qua") == Words{"quantize"});
  CHECK(offers("ridge run --devi") == Words{"--device"});
  CHECK(offers("ridge run --device cu") == Words{"cuda"});
  CHECK(offers("ridge run --device=cu") == Words{"--device=cuda"});
  CHECK(offers("ridge run -m wide:") == Words{"wide:3b"});
  CHECK(offers("ridge inspect on") == Words{"one model.gguf"});
  CHECK(offers("ridge run --model=on") == Words{"--model=one model.gguf"});
  CHECK(offers("ridge run --temp ").empty());
}

TEST_CASE("the manual page has every command and option, and no text of it is markup") {
  const std::string page = run_ridge({"manual"}).out;
  CHECK(page.starts_with(".TH RIDGE 1"));
  for (const std::string& command : offered({""})) CHECK(page.find("\n.SS ridge " + command + "\n") != page.npos);
  CHECK(page.find("\\fB\\-\\-top\\-k\\fR \\fIK\\fR") != page.npos);
  CHECK(page.find("(default: 40)") != page.npos);
  const Words known = {".TH", ".SH", ".SS", ".TP", ".B", ".I", ".EX", ".EE"};
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    CHECK_MESSAGE((line.empty() || line[0] != '\''), line);
    if (line.starts_with(".")) CHECK_MESSAGE(has(known, line.substr(0, line.find(' '))), line);
  }
}
