// Completions and the manual page, as a shell and a reader meet them.
#include "app/support.h"

#include "support/process.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

using namespace ridge;
using namespace ridge::tests;

namespace {

// The words that `ridge __complete` offers for a command line, without what they mean.
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
  CHECK(offered({"inspect", ""}) == Words{":files"});
  CHECK(offered({"run", "--temp", ""}).empty());
  CHECK(offered({"nonsense", ""}).empty());
  CHECK(offered({"completion", "z"}) == Words{"zsh"});
}

TEST_CASE("bash completes with the script that ridge prints") {
  const std::filesystem::path ridge = RIDGE_BINARY;
  const auto reply = [&](const std::string& words, int last) {
    return run({"/bin/bash", "-c",
                "PATH=" + ridge.parent_path().string() + ":$PATH; eval \"$(ridge completion bash)\"; COMP_WORDS=(" +
                    words + "); COMP_CWORD=" + std::to_string(last) + "; _ridge 2>/dev/null; echo \"${COMPREPLY[*]}\""})
        .out;
  };
  CHECK(reply("ridge qua", 1) == "quantize\n");
  CHECK(reply("ridge run --device cu", 3) == "cuda\n");
  CHECK(reply("ridge inspect LICEN", 2) == "LICENSE\n");
  CHECK(run_ridge({"completion", "tcsh"}).status == 2);
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
