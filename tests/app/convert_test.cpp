// ridge convert: damaged checkpoints, a full disk, a kill.
#include "app/support.h"
#include "convert/import/checkpoint.h"
#include "support/reference.h"

#include <algorithm>
#include <csignal>

using namespace ridge;
using namespace ridge::tests;

namespace {

std::map<std::string, std::string> bytes_of(const Checkpoint& c) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(c.folder.path()))
    files[entry.path().filename().string()] = read_file(entry.path().string());
  return files;
}

// Expects one line of error and no changed files.
void check_refusal(const Checkpoint& c, const std::string& words) {
  const auto before = bytes_of(c);
  const TemporaryFolder where;
  const Result result = run_ridge({"convert", c.folder.path(), "-o", where / "out.gguf"});
  CHECK(result.status == 1);
  CHECK(result.err.starts_with("ridge: error: "));
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK_MESSAGE(result.err.find(words) != std::string::npos, result.err);
  CHECK(where.file_count() == 0);
  CHECK(bytes_of(c) == before);
}

// Adds 200 MB that convert quickly.
void grow(Checkpoint& c) {
  c.config["vocab_size"] = 400000;
  const std::vector<float> table(400000 * 64, 0.25f);
  c.file.add("model.embed_tokens.weight", "F32", {400000, 64}, table);
  c.file.add("lm_head.weight", "F32", {400000, 64}, table);
  c.save();
}

} // namespace

TEST_CASE("a checkpoint becomes a model that inspect reads") {
  Checkpoint c;
  c.write();
  const Result result = run_ridge({"convert", c.folder.path(), "-o", folder() / "made.gguf", "--type", "f16"});
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(run_ridge({"inspect", folder() / "made.gguf"}).status == 0);
}

TEST_CASE("convert wants a file to write, and one for each of two") {
  Checkpoint c;
  c.write();
  const std::string out = folder() / "one.gguf";
  using Options = std::vector<std::string>;
  for (const Options& options :
       {Options{}, Options{"--mmproj", out, "--text-only"}, Options{"-o", out, "--mmproj", out}}) {
    Options command = {"convert", c.folder.path()};
    command.insert(command.end(), options.begin(), options.end());
    const Result result = run_ridge(command);
    CHECK(result.status == 2);
    CHECK_MESSAGE(std::ranges::count(result.err, '\n') == 1, result.err);
    CHECK(!std::filesystem::exists(out));
  }
  const Result result = run_ridge({"convert", c.folder.path(), "--mmproj", out});
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.err.find("no image or audio encoder") != std::string::npos, result.err);
}

TEST_CASE("a truncated shard, a lying index and a lying config.json are named in one line, and nothing is written") {
  Checkpoint c;
  c.write();
  const std::string whole = c.file.bytes();
  for (const size_t left : {size_t{0}, size_t{5}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    CAPTURE(left);
    c.folder.write("model.safetensors", whole.substr(0, left));
    check_refusal(c, "model.safetensors");
  }
  c.folder.write("model.safetensors", whole);
  for (const auto& [key, value] : std::map<std::string, nlohmann::ordered_json>{{"hidden_size", 65536},
                                                                                {"hidden_size", 1LL << 60},
                                                                                {"intermediate_size", -5},
                                                                                {"num_hidden_layers", 1 << 30},
                                                                                {"num_key_value_heads", 0},
                                                                                {"vocab_size", 1e300}}) {
    CAPTURE(key);
    Checkpoint lying;
    lying.write();
    lying.config[key] = value;
    lying.save();
    check_refusal(lying, "ridge: error");
  }
  c.folder.write("model.safetensors.index.json", R"({"weight_map": {"lm_head.weight": "../../etc/passwd"}})");
  std::filesystem::remove(c.folder / "model.safetensors");
  check_refusal(c, "index.json");
}

TEST_CASE("on a full disk, convert says so and leaves nothing") {
  Checkpoint c;
  c.write();
  const TemporaryFolder where;
  // A file size limit (512-byte blocks) simulates a full disk.
  const Result result = run({"sh", "-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" convert \"$1\" -o \"$2\"",
                             RIDGE_BINARY, c.folder.path(), where / "out.gguf"});
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.err.find("out.gguf: cannot write: File too large") != std::string::npos, result.err);
  CHECK(where.file_count() == 0);
}

TEST_CASE("killed at any moment, convert leaves the checkpoint and the old file as they were") {
  Checkpoint c;
  c.write();
  grow(c);
  const auto before = bytes_of(c);
  const TemporaryFolder where;
  where.write("out.gguf", "old");
  for (const int64_t bytes : {0, 1 << 20, 50 << 20, 150 << 20}) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::close(1);
      ::close(2);
      exec({RIDGE_BINARY, "convert", c.folder.path(), "-o", where / "out.gguf"});
    }
    REQUIRE(eventually("convert to have written so much", [&] { return written_by(pid) >= bytes; }));
    ::kill(pid, SIGKILL);
    wait_for(pid);
    CHECK(where.file_count() == 1);
    const std::string found = read_file(where / "out.gguf");
    CHECK((found == "old" || found.size() > 200000000)); // all of the old or new file
  }
  CHECK(bytes_of(c) == before);
}
