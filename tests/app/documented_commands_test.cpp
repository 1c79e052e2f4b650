// Runs every command in README.md and docs/ with small random models and a local hub; exceptions are listed with
// reasons.
#include "app/support.h"
#include "convert/import/checkpoint.h"
#include "support/adapters.h"
#include "support/http/fake_hub.h"
#include "support/peft.h"
#include "support/recipes/vision_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace ridge;
using namespace ridge::tests;
namespace fs = std::filesystem;

namespace {

struct Exception {
  std::string_view begins, reason;
};
constexpr Exception kNotRun[] = {
    {"tar -xzf ridge-", "unpacks a release; ./dev dist --test does that"},
    {"ridge-0.1.0-linux-x86_64/bin/ridge", "is the release's executable; ./dev dist --test runs it"},
    {"git clone", "fetches this repository"},
    {"./dev ", "builds and tests this program, which is what runs now"},
    {"ridge gui", "opens a window, which the tests of ui/ do"},
    {"ridge roofline", "measures for minutes; tests of measure/ run its parts"},
    {"ridge bench --shape", "makes a model of gigabytes"},
    {"ridge bench -m model.gguf --clients 32", "takes minutes on two cores; bench_test runs it with fewer clients"},
    {"ridge quantize model-f16.gguf small.gguf --target-size", "names a size that a small model does not have"},
    {"ridge convert Qwen3-VL-4B-Instruct", "converts a checkpoint with an encoder, as tests of convert/ do"},
    {"ridge convert gemma-3-4b-it", "converts a checkpoint with an encoder, as tests of convert/ do"},
    {"ridge convert Voxtral-Mini-3B-2507", "converts a checkpoint with an encoder, as tests of convert/ do"},
    {"ridge convert ultravox-v0_5", "converts a checkpoint with an encoder, as tests of convert/ do"},
    {"ridge convert EAGLE3-LLaMA3.1-8B", "converts a draft head beside its model, as tests of convert/ do"},
    {"ridge quantize mmproj-qwen3-vl.gguf", "takes what the lines above it write"},
    {"ridge run -m model.gguf --spec mtp", "needs a model with draft heads and words, which tests of engine/ have"},
    {"ridge bench -m model.gguf --spec mtp", "needs a model with draft heads, which bench_test has"},
    {"ridge fit -m qwen3.5-27b.gguf", "shows what a model of that name gives"},
    {"ridge fit -m lfm2-8b-a1b.gguf", "shows what a model of that name gives"},
    {"ridge quantize guide-f16.gguf --explore", "takes a minute; quantize_test explores a smaller model"},
    {"ridge quantize model-f16.gguf --explore", "takes a minute; quantize_test explores a smaller model"},
};

const Exception* exception_of(const std::string& command) {
  const auto at = std::ranges::find_if(kNotRun, [&](const Exception& one) { return command.starts_with(one.begins); });
  return at == std::end(kNotRun) ? nullptr : &*at;
}

struct Page {
  std::string path, text;
};
std::vector<Page> pages() {
  const fs::path root = RIDGE_SOURCE_DIR;
  std::vector<Page> all = {{"README.md", read_file(root / "README.md")}};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md")
      all.push_back({"docs/" + entry.path().filename().string(), read_file(entry.path())});
  std::ranges::sort(all, {}, &Page::path);
  return all;
}

// Lines of ```sh blocks, and of other blocks after "$ ".
std::vector<std::string> commands_of(const std::string& text) {
  std::vector<std::string> commands;
  std::istringstream lines(text);
  bool inside = false, shell = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      shell = line == "```sh";
      continue;
    }
    const bool shown = line.starts_with("$ ");
    if (!inside || !(shell || shown)) continue;
    if (shown) line.erase(0, 2);
    line = std::regex_replace(line, std::regex("(^|\\s+)#.*$"), "");
    if (!line.empty()) commands.push_back(line);
  }
  return commands;
}

// A home with models, the documented files, and a hub.
struct NamedFiles {
  TemporaryFolder home;
  const std::string work = home / "work";
  FakeHub hub;

  NamedFiles() {
    for (const char* folder : {"work", "models", "bin"}) fs::create_directories(home / folder);
    hub.repository = "OWNER/REPO";
    hub.files = {{"Tall-Q4_K_M.gguf", read_file(tiny_model())}, {"Tall-Q8_0.gguf", read_file(tiny_model())}};
    for (const char* name : {"models/model.gguf", "models/qwen3-8b-Q4_K_M.gguf", "work/model.gguf", "work/large.gguf"})
      fs::copy_file(tiny_model(), home / name);
    for (const char* name : {"model-f16.gguf", "small.gguf"})
      TinyModel{.width = 256, .ffn_width = 256}.write(work + "/" + name);
    TinyModel embeds;
    embeds.further.set("llama.pooling_type", uint32_t{1});
    embeds.write(work + "/embeddinggemma.gguf");
    write_adapters();
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("The river number {} is on the hill.\n", i);
    std::ofstream(work + "/text.txt") << text;
    std::ofstream(work + "/question.txt") << "What is a roofline?\n";
    std::ofstream(work + "/tools.json") << R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])";
    std::ofstream(work + "/mcp.json") << R"({"mcpServers": {}})";
    // Adds a free port: the last --port counts.
    std::ofstream(home / "bin/ridge") << "#!/bin/sh\n[ \"$1\" = serve ] && set -- \"$@\" --port 0\nexec '"
                                      << RIDGE_BINARY << "' \"$@\"\n";
    fs::permissions(home / "bin/ridge", fs::perms::owner_all);
  }

  // One in PEFT's format.
  void write_adapters() const {
    const gguf::File model = gguf::File::open(work + "/model.gguf");
    std::mt19937_64 random(1);
    for (const char* name : {"adapter.gguf", "other.gguf"}) {
      AdapterImage adapter("llama", 8);
      adapter.add_pair(*model.find_tensor("blk.0.attn_q.weight"), 4, random);
      adapter.write(work + "/" + name);
    }
    PeftFolder tuned{work + "/finetuned"};
    tuned.add("model.layers.0.self_attn.q_proj", 64, 64, 4, random);
    tuned.write();
  }
  std::vector<std::string> shell(const std::string& command) const {
    return {"env",
            "-i",
            "HOME=" + home.path(),
            "HF_ENDPOINT=" + hub.hub.address(),
            "PATH=" + (home / "bin") + ":/usr/bin:/bin",
            "LC_ALL=C.UTF-8",
            "RIDGE_CONFIG=none",
            "OMP_WAIT_POLICY=passive",
            "bash",
            "-c",
            "cd work && " + command};
  }
};

// A server runs until the next one starts.
class PageRun {
 public:
  explicit PageRun(const NamedFiles& files) : files_(files) {}
  ~PageRun() { stop_server(); }
  void run(const std::string& command) {
    CAPTURE(command);
    ::chdir(files_.home.path().c_str());
    if (command.starts_with("ridge serve"))
      start_server(command);
    else
      check(std::regex_replace(command, std::regex("http://127.0.0.1:8080"), address_));
    ::chdir(RIDGE_SOURCE_DIR);
  }

 private:
  void check(const std::string& command) const {
    const Result result = ridge::tests::run(files_.shell(command), "");
    CHECK_MESSAGE(result.status == 0, result.err);
    CHECK_MESSAGE(result.out.find("\"error\"") == std::string::npos, result.out);
  }
  void start_server(const std::string& command) {
    stop_server();
    int out[2];
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    server_ = ::fork();
    REQUIRE(server_ >= 0);
    if (server_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(::open("/dev/null", O_WRONLY), 2);
      exec(files_.shell("exec " + command));
    }
    ::close(out[1]);
    address_.clear();
    for (char c; ::read(out[0], &c, 1) == 1 && c != '\n';) address_ += c;
    ::close(out[0]);
    CHECK_MESSAGE(address_.starts_with("http://127.0.0.1:"), "the server says ", address_);
  }
  void stop_server() {
    if (server_ <= 0) return;
    ::kill(server_, SIGTERM);
    CHECK(wait_for(std::exchange(server_, -1)) == 0);
  }

  const NamedFiles& files_;
  pid_t server_ = -1;
  std::string address_;
};

} // namespace

TEST_CASE("every command of the documents runs as it is written, or has a reason not to") {
  REQUIRE_REFERENCE();
  std::set<const Exception*> used;
  std::map<std::string, int> counts;
  for (const Page& page : pages()) {
    CAPTURE(page.path);
    const NamedFiles files;
    const std::string& work = files.work;
    const VisionFiles seen{VisionCase("gemma3")};
    fs::copy_file(seen.image, work + "/a.jpg");
    fs::copy_file(seen.image, work + "/a.png");
    if (page.path == "docs/images.md" || page.path == "README.md") {
      fs::copy_file(seen.model, work + "/model.gguf", fs::copy_options::overwrite_existing);
      fs::copy_file(seen.mmproj, work + "/mmproj.gguf");
    }
    if (page.path == "docs/sound.md") {
      const VisionFiles heard{VisionCase("qwen3a")};
      fs::copy_file(heard.image, work + "/a.wav");
      fs::copy_file(heard.model, work + "/hears.gguf");
      fs::copy_file(heard.mmproj, work + "/mmproj.gguf");
    }
    if (page.path == "README.md" || page.path == "docs/adapters.md") {
      Checkpoint checkpoint;
      checkpoint.write();
      fs::copy(checkpoint.folder.path(), work + "/Qwen3-8B");
    }
    if (page.path == "docs/speculation.md") {
      const std::string guide = RIDGE_SOURCE_DIR "/models/guide/";
      for (const char* name : {"model.gguf", "small.gguf", "big.gguf", "llama-3.1-8b.gguf"})
        fs::copy_file(guide + "guide.gguf", work + "/" + name, fs::copy_options::overwrite_existing);
      for (const char* name : {"eagle3.gguf", "eagle3-llama-3.1-8b.gguf"})
        fs::copy_file(guide + "draft.gguf", work + "/" + name);
    }
    PageRun run(files);
    for (const std::string& command : commands_of(page.text)) {
      if (const Exception* exception = exception_of(command))
        used.insert(exception);
      else
        run.run(command), ++counts[page.path];
    }
  }
  for (const Exception& exception : kNotRun) CHECK_MESSAGE(used.contains(&exception), "no page has ", exception.begins);
  CHECK(counts["README.md"] > 12);
  CHECK(counts["docs/serve.md"] > 4);
}

// Inline code, too.
TEST_CASE("every command and flag that the documents name is one") {
  std::map<std::string, std::string> help;
  const auto help_of = [&](const std::string& command) -> const std::string& {
    if (!help.contains(command)) help[command] = run_ridge({command, "--help"}).out;
    return help[command];
  };
  const std::string commands = run_ridge({"--help"}).out;
  const std::regex span("`([^`]+)`");
  const std::regex shown("(?:^|\\s|`|\\(|\\|)ridge ([a-z]+)([^`\n#|]*)"), flag("\\s(--[a-z][a-z-]*[a-z])");
  int found = 0;
  for (const Page& page : pages()) {
    std::string code;
    std::istringstream lines(page.text);
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```")) {
        inside = !inside;
      } else if (inside) {
        code += line + "\n";
      } else {
        for (std::sregex_iterator at(line.begin(), line.end(), span), end; at != end; ++at)
          code += (*at)[1].str() + "\n";
      }
    }
    for (std::sregex_iterator at(code.begin(), code.end(), shown), end; at != end; ++at) {
      const std::string command = (*at)[1], rest = (*at)[2];
      CAPTURE(page.path);
      CAPTURE(at->str());
      if (command == "help") continue;
      REQUIRE((commands.find("\n  " + command + " ") != std::string::npos));
      for (std::sregex_iterator one(rest.begin(), rest.end(), flag); one != end; ++one, ++found)
        CHECK_MESSAGE(std::regex_search(help_of(command), std::regex((*one)[1].str() + "\\b")), (*one)[1].str());
    }
  }
  CHECK(found > 60);
}
