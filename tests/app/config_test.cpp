// The configuration file.
#include "app/support.h"

#include <algorithm>

using namespace ridge::tests;

namespace {

// Without the first line.
Result config(const std::string& text, std::vector<std::string> args = {}) {
  args.insert(args.begin(), {"config", "--config", folder().write("config.ini", text)});
  Result result = run_ridge(args);
  result.out.erase(0, result.out.find('\n') + 1);
  return result;
}

std::vector<std::string> lines(const std::string& text, std::vector<std::string> args = {}) {
  std::vector<std::string> all;
  const std::string out = config(text, std::move(args)).out;
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find('\n', at);
    std::string line = out.substr(at, end - at);
    line.erase(std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }), line.end());
    all.push_back(line);
    at = end + 1;
  }
  return all;
}

using Lines = std::vector<std::string>;

void check_error(const std::string& text, const std::string& said) {
  const Result result = config(text);
  CAPTURE(result.err);
  CHECK(result.status != 0);
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK(result.err.find("config.ini:" + said) != std::string::npos);
}

} // namespace

TEST_CASE("a file has settings for all commands, for one, and for a model") {
  const char* text = "# all\n\nctx-size = 100\n--temp=0.5 # warm\n[run]\ntemp = 0.6\nstop = \"a # b\\n\"\nstop = c\n"
                     "[model \"tiny\"]\ntemp = 0.7\n[serve]\nparallel = 3\n";
  CHECK(lines(text).size() == 7);
  CHECK(lines(text, {"run"}) == Lines{"ctx-size = 100 line 3", "temp = 0.6 line 6, [run]",
                                      "stop = a # b\\x0a line 7, [run]", "stop = c line 8, [run]"});
  CHECK(lines(text, {"run", "/x/tiny.gguf"}).at(3) == "temp = 0.7 line 10, [model \"tiny\"]");
  CHECK(lines(text, {"chat"}) == Lines{"ctx-size = 100 line 3", "temp = 0.5 line 4"});
  CHECK(lines(text, {"serve"}).back() == "parallel = 3 line 12, [serve]");
  CHECK(lines(text, {"inspect"}).empty());
  CHECK(lines("model = tiny\n[model \"tiny\"]\ntop-k = 3\n[chat]\nmodel = other\n", {"run"}).back() ==
        "top-k = 3 line 3, [model \"tiny\"]");
  CHECK(lines("temp = 0.1\ntemp = 0.2\n", {"run"}) == Lines{"temp = 0.2 line 2"});
  CHECK(lines("[run]\nchat-template-file = a\n[model \"m\"]\nchat-template = chatml\n", {"run", "m"}) ==
        Lines{"chat-template = chatml line 4, [model \"m\"]"}); // exclusive options
}

TEST_CASE("what is wrong with a file is said with its line") {
  check_error("ctx-size = 1\nfrobnicate = 2\n", "2: no command has an option --frobnicate");
  check_error("[run]\nparallel = 2\n", "2: run has no option --parallel");
  check_error("[fly]\nx = 2\n", "2: [fly]: unknown command");
  check_error("[model \"m\"]\nfrobnicate = 2\n", "2: no command has an option");
  check_error("temp\n", "1: expected NAME = VALUE");
  check_error("[run\n", "1: expected [COMMAND]");
  check_error("[model \"\"]\n", "1: [model \"NAME\"]: the name is empty");
  check_error("stop = \"a\n", "1: the closing quote is missing");
  check_error("stop = \"\\q\"\n", "1: in quotes, \\ must be followed by");
  check_error("stop = \"a\" b\n", "1: unexpected \"b\" after");
  check_error("help = true\n", "1: help cannot be set in the configuration file");
  check_error("\033[2J = 1\n", "1: no command has an option --\\x1b[2J");
  CHECK(config(std::string("a\0b", 3)).err.find("expected text in UTF-8") != std::string::npos);
  CHECK(run_ridge({"config", "--config", folder() / "absent.ini"}).status == 1);
  CHECK(run_ridge({"config", "--config"}).status == 2);
  CHECK(run_ridge({"config"}).out.starts_with("no configuration file"));
}

TEST_CASE("a command runs with what its file sets, and a flag goes before it") {
  const std::string file =
      folder().write("run.ini", "device = cpu\nthreads = 1\npredict = 5\n[run]\nseed = 3\ntop-k = 7\n");
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"run", "-m", tiny_model(), "-p", "hello"};
    args.insert(args.end(), more.begin(), more.end());
    return run_ridge(args);
  };
  const Result set = run({"--config", file});
  CHECK(set.status == 0);
  CHECK(set.out == run({"--device", "cpu", "-t", "1", "-n", "5", "-s", "3", "--top-k", "7"}).out);
  CHECK(run({"--config=" + file, "-s4"}).out ==
        run({"--device", "cpu", "-t", "1", "-n", "5", "-s", "4", "--top-k", "7"}).out);
  const std::string wrong = folder().write("wrong.ini", "\ntop-p = 7\n");
  const Result refused = run({"--config", wrong});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("wrong.ini:2)") != std::string::npos);
  CHECK(run({"--config", wrong, "--top-p", "0.5", "-n", "1"}).status == 0);
  CHECK(run_ridge({"run", "--help", "--config", folder() / "absent.ini"}).status == 0);
}
