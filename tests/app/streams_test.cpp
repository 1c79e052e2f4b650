// Missing, full or unread streams; full disks.
#include "app/support.h"
#include "app/terminal/log_queue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>

using namespace ridge;
using namespace ridge::tests;

namespace {

const std::string kHarbourFile = std::string(RIDGE_SOURCE_DIR) + "/tests/data/harbour.txt";

Result run_redirected(std::vector<std::string> args, const std::string& redirections, const std::string& before = "") {
  args.insert(args.begin(), {"sh", "-c", before + " exec \"$@\" " + redirections, "sh", RIDGE_BINARY});
  return run(args);
}

std::vector<std::vector<std::string>> commands_with_results() {
  const std::string& model = tiny_model();
  const std::vector<std::string> run = {"run", "-m", model, "-p", "hi", "-n", "2", "--device", "cpu"};
  std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"--version"},
      {},
      {"bench", "--help"},
      {"__complete", "in"},
      {"completion", "bash"},
      {"manual"},
      {"doctor"},
      {"doctor", "--json"},
      {"models", "--architectures"},
      {"models", "--json"},
      {"fit", "-m", model},
      {"inspect", model},
      {"inspect", "--json", model},
      {"tokenize", "-m", model, "-p", "hi"},
      {"tokenize", "-m", model, "-p", "hi", "--ids"},
      {"detokenize", "-m", model, "5", "6"},
      {"template", "--chat-template", "chatml", "--messages",
       folder().write("one.json", R"([{"role": "user", "content": "hi"}])")},
      {"embed", "-m", model, "--device", "cpu", "hi"},
      {"bench", "-m", model, "-p", "8", "-n", "2", "-r", "1", "--device", "cpu"},
      {"perplexity", "-m", model, "-f", kHarbourFile, "-c", "64", "--chunks", "2", "--device", "cpu"},
      {"quantize", model, folder() / "never.gguf", "Q8_0"},
      {"quantize", "--dry-run", "--json", model, folder() / "never.gguf", "Q8_0"},
      run,
      run};
  commands.back().push_back("--json");
  return commands;
}

// A pipe of one page.
struct Pipe {
  int ends[2];
  Pipe() {
    REQUIRE(::pipe(ends) == 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe&) = delete;

  void fill() const {
    const int flags = ::fcntl(ends[1], F_GETFL);
    ::fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
    while (::write(ends[1], "-", 1) == 1) {
    }
    ::fcntl(ends[1], F_SETFL, flags);
  }
  // Without dashes.
  std::string read_to(const std::string& end) const {
    std::string text;
    for (char byte; !text.ends_with(end) && ::read(ends[0], &byte, 1) == 1;) text += byte;
    return text.substr(std::min(text.size(), text.find_first_not_of('-')));
  }
};

} // namespace

TEST_CASE("a result that cannot be written is an error of every command") {
  for (const std::vector<std::string>& command : commands_with_results()) {
    CAPTURE(fmt::format("{}", fmt::join(command, " ")));
    const Result result = run_redirected(command, ">/dev/full");
    CAPTURE(result.err);
    CHECK(result.status == 1);
    const size_t at = result.err.find("ridge: error: ");
    REQUIRE(at != std::string::npos);
    CHECK(result.err.substr(at).starts_with("ridge: error: cannot write to stdout"));
    CHECK(std::ranges::count(result.err.substr(at), '\n') == 1);
  }
  CHECK(!std::filesystem::exists(folder() / "never.gguf"));
}

TEST_CASE("an error that cannot be written still has its status") {
  CHECK(run_redirected({"inspect", folder() / "absent.gguf"}, "2>/dev/full").status == 1);
  CHECK(run_redirected({"inspect", "--nonsense"}, "2>/dev/full").status == 2);
  const Result noted = run_redirected({"tokenize", "-m", tiny_model(), "-p", "hi"}, "2>/dev/full");
  CHECK(noted.status == 0);
  CHECK(!noted.out.empty());
}

TEST_CASE("a reader that has seen enough ends a command without a word, and one that ignores that with an error") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  const auto into_pipe = [&](const std::string& kind) {
    return run({"env", "--" + kind + "-signal=PIPE", "LC_ALL=C", "bash", "-c",
                "exec \"$0\" manual >&" + std::to_string(ends[1]), RIDGE_BINARY});
  };
  const Result usual = into_pipe("default");
  CHECK(usual.status == 128 + SIGPIPE);
  CHECK(usual.err.find("ridge") == std::string::npos);
  const Result ignored = into_pipe("ignore");
  CHECK(ignored.status == 1);
  CHECK(ignored.err == "ridge: error: cannot write to stdout: Broken pipe\n");
  ::close(ends[1]);
}

TEST_CASE("without standard streams a file that is written is whole") {
  const std::string usual = folder() / "usual.gguf";
  REQUIRE(run_ridge({"quantize", tiny_model(), usual, "Q8_0"}).status == 0);
  for (const char* closed : {"<&- >&-", "<&- >&- 2>&-", ">&-", "2>&-"}) {
    CAPTURE(closed);
    const std::string out = folder() / "closed.gguf";
    CHECK(run_redirected({"quantize", tiny_model(), out, "Q8_0"}, closed).status == 0);
    CHECK(read_file(out) == read_file(usual));
    std::filesystem::remove(out);
  }
}

TEST_CASE("a file that the disk does not take is named, and nothing of it is left") {
  const std::string model = tiny_model(), out = folder() / "limited";
  const std::vector<std::vector<std::string>> commands = {
      {"quantize", model, out, "Q8_0"},
      {"logits", "-m", model, "--device", "cpu", "--ids", "1,2,3,4,5", "--out", out},
      {"imatrix", "-m", model, "-f", kHarbourFile, "-o", out, "-c", "32", "--chunks", "2", "--device", "cpu"},
  };
  for (const std::vector<std::string>& command : commands) {
    CAPTURE(fmt::format("{}", fmt::join(command, " ")));
    const Result result = run_redirected(command, "", "ulimit -f 1;"); // 512 bytes or 1 KiB
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(result.err.find("ridge: error: " + out + ": cannot write: File too large\n") != std::string::npos);
    CHECK(!std::filesystem::exists(out));
  }
}

TEST_CASE("a log that is not read makes no thread wait, and says how many lines were dropped") {
  const Pipe pipe;
  pipe.fill();
  app::LogQueue log(pipe.ends[1], 1000);
  const std::string line(36, 'x'); // 101 bytes with overhead
  for (int i = 0; i < 50; ++i) log.add(line + "\n");
  CHECK(!log.drain(std::chrono::milliseconds(1)));
  const std::string seen = pipe.read_to("dropped\n");
  CHECK(log.drain(kWatchdog));
  const auto written = static_cast<int>(std::ranges::count(seen, 'x')) / 36;
  CHECK(written >= 9); // the thread may hold one
  CHECK(written <= 10);
  CHECK(seen.ends_with("\n" + std::to_string(50 - written) + " lines were dropped\n"));
  log.add("after\n");
  CHECK(pipe.read_to("\n") == "after\n");
}

TEST_CASE("the place of dropped lines in a log is where they were") {
  const Pipe pipe;
  pipe.fill();
  app::LogQueue log(pipe.ends[1], 300);
  log.add("1\n");
  for (int i = 0; i < 10; ++i) log.add(std::string(400, 'y') + "\n"); // never fits
  log.add("2\n");
  CHECK(pipe.read_to("2\n") == "1\n10 lines were dropped\n2\n");
}

TEST_CASE("lines of a log that cannot be written are counted until they can") {
  const TemporaryFolder own;
  const std::string fifo = own / "log";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  const int writer = ::open(fifo.c_str(), O_WRONLY);
  ::close(reader); // EPIPE
  app::LogQueue log(writer);
  log.add("lost\n");
  log.add("lost, too\n");
  REQUIRE(log.drain(kWatchdog));
  reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  log.add("written\n");
  REQUIRE(log.drain(kWatchdog));
  std::string text(100, 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(reader, text.data(), text.size()))));
  CHECK(text == "2 lines were dropped\nwritten\n");
  ::close(reader);
}
