// ridge pull, rm, -m hf:…: also killed, concurrent, offline.
#include "app/support.h"
#include "support/http/fake_hub.h"
#include "support/reference.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

using namespace ridge::tests;
namespace fs = std::filesystem;

namespace {

struct Home {
  TemporaryFolder folder;
  std::vector<std::string> environment;

  explicit Home(const std::string& endpoint)
      : environment{"env", "-i", "HOME=" + folder.path(), "HF_ENDPOINT=" + endpoint, "PATH=/usr/bin:/bin"} {}
  std::vector<std::string> command(const std::vector<std::string>& args) const {
    std::vector<std::string> all = environment;
    all.push_back(RIDGE_BINARY);
    all.insert(all.end(), args.begin(), args.end());
    return all;
  }
  Result ridge(const std::vector<std::string>& args, const std::string& input = "") const {
    return run(command(args), input);
  }
  pid_t start(const std::vector<std::string>& args) const {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) exec(command(args));
    return pid;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file() && !entry.is_symlink()) found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
};

std::string without_line_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

} // namespace

TEST_CASE("-m hf:… pulls, loads and answers, and the next time sends no request") {
  FakeHub hub;
  hub.files = {{"Tiny-Q4_K_M.gguf", read_file(tiny_model())}};
  Home home(hub.hub.address());
  const std::vector<std::string> ask = {"run", "-m", "hf:acme/Tall-GGUF", "-p", "hello", "-n", "4", "-s", "1",
                                        "-t",  "1",  "--device",          "cpu"};
  const Result first = home.ridge(ask);
  CHECK_MESSAGE(first.status == 0, first.err);
  CHECK(first.err.find("hf:acme/Tall-GGUF: Tiny-Q4_K_M, ") != std::string::npos);
  hub.hub.clear();
  const Result second = home.ridge(ask);
  CHECK(second.out == first.out);
  CHECK(hub.hub.requests().empty());
  CHECK(home.ridge({"inspect", "tiny-q4"}).status == 0);
  CHECK(home.ridge({"models"}).out.find("Hugging Face: acme/Tall-GGUF") != std::string::npos);
  CHECK(home.ridge({"chat", "-m", "hf:acme/Tall-GGUF", "-n", "2", "--device", "cpu"}, "hello\n").status == 0);

  CHECK(home.ridge({"rm", "tiny"}).status == 2);
  CHECK(home.ridge({"rm", "Tiny-Q4_K_M"}).out.find("removed") != std::string::npos);
  CHECK(home.files().empty());
  const Result gone = home.ridge({"rm", "Tiny-Q4_K_M"});
  CHECK(gone.status == 1);
  CHECK(gone.err == "ridge: error: Tiny-Q4_K_M: no such model here (see ridge models)\n");
}

TEST_CASE("rm leaves what others put there") {
  Home home("http://127.0.0.1:1");
  fs::create_directories(home.folder / "models");
  fs::copy_file(tiny_model(), home.folder / "models/Mine.gguf");
  const Result result = home.ridge({"rm", "Mine"});
  CHECK(result.status == 1);
  CHECK(result.err.find("not downloaded by ridge (folder)") != std::string::npos);
  CHECK(home.files() == std::vector<std::string>{"Mine.gguf"});
}

TEST_CASE("rm takes the address of a file that was pulled, whole or not") {
  Home home("http://127.0.0.1:1");
  const fs::path models = home.folder / ".local/share/ridge/models";
  fs::create_directories(models);
  fs::copy_file(tiny_model(), models / "Tiny.gguf");
  std::ofstream(models / "Large.gguf.incomplete") << "half";
  CHECK(home.ridge({"rm", "https://example.org/a/Large.gguf?download=1"}).out.find("removed the partial download") !=
        std::string::npos);
  CHECK(home.files() == std::vector<std::string>{"Tiny.gguf"});
  CHECK(home.ridge({"rm", "https://example.org/Tiny.gguf"}).out.find("Tiny.gguf: removed") != std::string::npos);
  CHECK(home.files().empty());
  const Result gone = home.ridge({"rm", "https://example.org/Tiny.gguf"});
  CHECK(gone.status == 1);
  CHECK(gone.err == "ridge: error: https://example.org/Tiny.gguf: no such model here (see ridge models)\n");
}

TEST_CASE("a pull that was killed goes on, also by two processes at once") {
  FakeHub hub;
  const std::string bytes(6'000'000, 'x');
  hub.files = {{"Tall-Q4_K_M.gguf", bytes}};
  std::atomic<int64_t> most = 0; // bytes the hub may send
  std::atomic<int64_t> sent = 0;
  hub.store_before = [&](const HttpRequest& request, const HttpReply& reply) {
    const size_t first = std::stoul(request.header("range").substr(6));
    reply.raw(fmt::format("HTTP/1.1 206 x\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
                          bytes.size() - first, first, bytes.size() - 1, bytes.size()));
    for (size_t at = first; at < bytes.size() && !hub.store.stopping(); at += 50'000) {
      const std::string_view piece = std::string_view(bytes).substr(at, 50'000);
      while (sent >= most && !hub.store.stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (!reply.raw(piece)) break;
      sent += std::ssize(piece);
    }
    return true;
  };
  Home home(hub.hub.address());
  for (const int signal : {SIGKILL, SIGINT, SIGKILL}) {
    most = sent + 1'500'000;
    const pid_t pid = home.start({"pull", "hf:acme/Tall-GGUF"});
    REQUIRE(eventually("a part of the file to be sent", [&] { return sent >= most; }));
    ::kill(pid, signal);
    CHECK(wait_for(pid) == (signal == SIGINT ? 130 : 128 + signal));
    CHECK(home.ridge({"models"}).out.find("Tall") == std::string::npos);
    if (signal == SIGINT) {
      CHECK(home.ridge({"rm", "hf:acme/Tall-GGUF"}).out.find("removed the partial download") != std::string::npos);
      CHECK(home.files().empty());
      sent = 0;
    }
  }
  const pid_t other = home.start({"pull", "hf:acme/Tall-GGUF"});
  most = INT64_MAX;
  const Result result = home.ridge({"pull", "hf:acme/Tall-GGUF"});
  CHECK(wait_for(other) == 0);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(read_file(without_line_end(result.out)) == bytes);
  CHECK(sent < 11'000'000); // only data in flight twice
  CHECK(home.files() == std::vector<std::string>{".ridge-pulled", sha256_of(bytes), "main"});
}

TEST_CASE("on a terminal a pull shows speed and time left in one line") {
  FakeHub hub;
  const std::string bytes(40'000'000, 'x');
  const std::string name = "A-model-with-a-name-of-some-length-as-they-have-today-Q4_K_M.gguf";
  hub.files = {{name, bytes}};
  std::atomic<bool> seen = false; // sends slowly until then
  hub.store_before = [&](const HttpRequest&, const HttpReply& reply) {
    reply.raw(fmt::format("HTTP/1.1 206 x\r\nContent-Length: {0}\r\nContent-Range: bytes 0-{1}/{0}\r\n\r\n",
                          bytes.size(), bytes.size() - 1));
    for (size_t at = 0; at < bytes.size() && reply.raw(std::string_view(bytes).substr(at, 10'000)); at += 10'000)
      if (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return true;
  };
  Home home(hub.hub.address());
  Terminal wide(home.command({"pull", "hf:acme/Tall-GGUF"}), {}, 130);
  CHECK(wide.expect("B/s, "));
  CHECK(wide.expect(" left"));
  seen = true;
  CHECK(wide.exit_status() == 0);
  CHECK(home.ridge({"rm", "hf:acme/Tall-GGUF"}).status == 0);
  seen = false;
  Terminal narrow(home.command({"pull", "hf:acme/Tall-GGUF"}), {}, 60);
  for (int line = 0; line < 2; ++line) CHECK(narrow.expect("\033[K"));
  seen = true;
  CHECK(narrow.exit_status() == 0);
  size_t longest = 0;
  for (size_t at = 0, end; (end = narrow.seen().find("\033[K", at)) != std::string::npos; at = end + 3)
    if (const size_t start = narrow.seen().rfind('\r', end); start != std::string::npos && start >= at)
      longest = std::max(longest, end - start - 1);
  CHECK(longest > 30);
  CHECK(longest < 60);
}

TEST_CASE("what cannot be pulled is one line") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", "x"}};
  Home home(hub.hub.address());
  const auto refusal = [&](const std::vector<std::string>& args, int status) {
    const Result result = home.ridge(args);
    CAPTURE(result.err);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("ridge: error: "));
    CHECK(std::ranges::count(result.err, '\n') == 1);
    return result.err;
  };
  refusal({"pull", "hf:acme"}, 2);
  CHECK(refusal({"pull", "hf:acme/Other"}, 1).find("no such repository") != std::string::npos);
  CHECK(refusal({"run", "-m", "hf:acme/Tall-GGUF:Q9", "-p", "x"}, 1).find("available: Q4_K_M") != std::string::npos);
  refusal({"run", "-m", "hf:acme/Tall-GGUF", "-p", "x", "--no-such-flag"}, 2);
  CHECK(hub.store.requests().empty());

  // Unloadable libraries simulate missing ones.
  fs::create_directories(home.folder / "lib");
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    home.folder.write("lib/" + std::string(name), "no library");
  home.environment.push_back("LD_LIBRARY_PATH=" + (home.folder / "lib"));
  CHECK(refusal({"pull", "hf:acme/Tall-GGUF"}, 1).find("libcurl.so.4 is missing") != std::string::npos);
}
