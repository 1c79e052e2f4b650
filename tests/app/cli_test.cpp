// The executable: output, errors, exit status.
#include "app/support.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

// Expects one line "ridge: error: …" and no stdout.
void check_refusal(const Result& result, int status, const std::string& said) {
  CAPTURE(result.err);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(result.err.starts_with("ridge: error: "));
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK(result.err.find(said) != std::string::npos);
}

} // namespace

TEST_CASE("wrong usage is one line and exit status 2") {
  check_refusal(run_ridge({"frobnicate"}), 2, "frobnicate");
  check_refusal(run_ridge({"logits", "--ids", "1", "--out", folder() / "x.npy"}), 2, "--model");
  check_refusal(run_ridge({"inspect", "--no-such-flag"}), 2, "ridge inspect --help");
  check_refusal(run_ridge({"logits", "-m", tiny_model(), "--ids", "1,x", "--out", folder() / "x.npy"}), 2, "'x'");
  check_refusal(run_ridge({"bench", "--save", folder() / "x.gguf"}), 2, "--shape");
  check_refusal(run_ridge({"bench", "--shape", "llama-1b:Q9_Z"}), 2, "Q4_K_M");
  check_refusal(run_ridge({"run", "-m", tiny_model(), "-p", "x", "--top-p", "7"}), 2, "top-p");
}

TEST_CASE("a model may be named without -m") {
  const std::vector<std::string> rest = {"-p", "hello", "-n", "4", "-s", "1", "-t", "1", "--device", "cpu"};
  std::vector<std::string> bare = {"run", tiny_model()}, named = {"run", "-m", tiny_model()};
  bare.insert(bare.end(), rest.begin(), rest.end());
  named.insert(named.end(), rest.begin(), rest.end());
  const Result result = run_ridge(bare);
  CHECK(result.status == 0);
  CHECK(result.out == run_ridge(named).out);
}

TEST_CASE("a word that is no model may have been meant as a message") {
  const std::string how = "give -p \"hi\"";
  check_refusal(run_ridge({"run", "hi"}), 1, how.c_str());
  for (const std::vector<std::string>& other : {std::vector<std::string>{"run", "hi", "-p", "x"}, {"chat", "hi"}})
    CHECK(run_ridge(other).err.find(how) == std::string::npos);
}

TEST_CASE("a bad file is one line and exit status 1") {
  check_refusal(run_ridge({"inspect", folder() / "missing.gguf"}), 1, "missing.gguf");
  check_refusal(run_ridge({"inspect", folder().write("text.gguf", "hello, this is no model")}), 1, "text.gguf");
  check_refusal(run_ridge({"inspect", "/"}), 1, "directory");
  check_refusal(run_ridge({"run", "-m", tiny_model(), "--spec", "mtp", "-p", "x"}), 1, "has no draft head");
  check_refusal(run_ridge({"serve", "-m", tiny_model(), "--spec", "mtp"}), 1, "has no draft head");
  const std::string whole = read_file(tiny_model());
  check_refusal(run_ridge({"run", "-m", folder().write("cut.gguf", whole.substr(0, whole.size() - 1000)), "-p", "x"}),
                1, "cut.gguf");
}

TEST_CASE("--help and --version succeed, and every command has help") {
  CHECK(run_ridge({"--version"}).out.starts_with("ridge "));
  for (const char* command : {"gui", "chat", "run", "inspect", "models", "tokenize", "detokenize", "template", "logits",
                              "embed", "bench", "perplexity", "roofline", "doctor"}) {
    const Result result = run_ridge({command, "--help"});
    CHECK(result.status == 0);
    CHECK(result.out.find(command) != std::string::npos);
    CHECK(result.out.find("[MODEL] [MODEL]") == std::string::npos);
  }
}

TEST_CASE("models --architectures lists those that run, as text and as the table of the docs") {
  CHECK(run_ridge({"models", "--architectures"}).out.find("\nqwen3moe ") != std::string::npos);
  CHECK(run_ridge({"models", "--markdown"}).out.find("\n| `qwen3moe` | ") != std::string::npos);
}

TEST_CASE("models on this machine are listed, named with -m, and completed") {
  namespace fs = std::filesystem;
  const std::string home = folder() / "home", models = home + "/models";
  fs::create_directories(models);
  fs::copy_file(tiny_model(), models + "/Tiny-Llama-F16.gguf", fs::copy_options::overwrite_existing);
  fs::copy_file(tiny_model(), models + "/Tiny-Other-F16.gguf", fs::copy_options::overwrite_existing);
  folder().write("home/models/broken.gguf", "no model");
  const auto at_home = [&](std::vector<std::string> args) {
    const std::vector<std::string> clean = {"env", "-i", "HOME=" + home, "PATH=/usr/bin:/bin", RIDGE_BINARY};
    args.insert(args.begin(), clean.begin(), clean.end());
    return run(args);
  };
  const Result listed = at_home({"models"});
  CHECK(listed.status == 0);
  for (const char* part : {"Tiny-Llama-F16", "llama", "F16", "512", "folder: "})
    CHECK_MESSAGE(listed.out.find(part) != std::string::npos, listed.out);
  CHECK(listed.err.find("broken: ") != std::string::npos);
  CHECK(at_home({"tokenize", "-m", "tiny-llama", "-p", "on", "--ids"}).out ==
        run_ridge({"tokenize", "-m", tiny_model(), "-p", "on", "--ids"}).out);
  CHECK(at_home({"inspect", "tiny-other"}).status == 0);
  check_refusal(at_home({"inspect", "tiny"}), 2, "tiny: ambiguous; it matches Tiny-Llama-F16, Tiny-Other-F16");
  check_refusal(at_home({"run", "-m", "absent", "-p", "x"}), 1, "absent: no such file");
  check_refusal(at_home({"run", "-m", "tiny", "--no-such-flag"}), 2, "no-such-flag");
  CHECK(at_home({"__complete", "run", "-m", "Tiny-O"}).out.starts_with("Tiny-Other-F16\t"));
  CHECK(at_home({"models"}).out.find("qwen3moe") == std::string::npos);
}

TEST_CASE("inspect says how a chat with the model will be") {
  CHECK(run_ridge({"inspect", tiny_model()}).out.find("\nchat template: tokenizer.chat_template\n") !=
        std::string::npos);
  TinyModel model;
  model.chat_template.clear();
  model.further.set("general.sampling.temp", 0.5f);
  model.further.set("general.architecture", "nonesuch");
  model.write(folder() / "bare.gguf");
  const std::string shown = run_ridge({"inspect", folder() / "bare.gguf"}).out;
  CHECK(shown.find("\nsupported: no, ") != std::string::npos);
  CHECK(shown.find("\nchat template: none; using \"chatml\"\n") != std::string::npos);
  CHECK(shown.find("\nrecommended sampling: temp 0.5\n") != std::string::npos);
}

TEST_CASE("inspect --json describes the whole file") {
  const Result result = run_ridge({"inspect", "--json", tiny_model()});
  REQUIRE(result.status == 0);
  const json report = json::parse(result.out);
  CHECK(report["metadata"]["general.architecture"] == "llama");
  CHECK(report["metadata"]["tokenizer.ggml.tokens"]["length"] > 300);
  CHECK(report["tensors"].size() == 21);
  CHECK(report["tensors"][0]["name"] == "token_embd.weight");
  CHECK(report["tensors"][0]["bits_per_weight"] == 16);
  const json full = json::parse(run_ridge({"inspect", "--json", "--full", tiny_model()}).out);
  CHECK(full["metadata"]["tokenizer.ggml.tokens"].size() > 300);
}

TEST_CASE("inspect --tensor writes the decoded tensor as NumPy reads it") {
  const Result result =
      run_ridge({"inspect", tiny_model(), "--tensor", "blk.0.attn_k.weight", "--out", folder() / "k.npy"});
  REQUIRE(result.status == 0);
  const std::string npy = read_file(folder() / "k.npy");
  CHECK(npy.starts_with("\x93NUMPY"));
  CHECK(npy.find("'shape': (32, 64,)") != std::string::npos);
  CHECK(npy.size() == 128 + 32 * 64 * 4);
  check_refusal(run_ridge({"inspect", tiny_model(), "--tensor", "nothing"}), 1, "no tensor 'nothing'");
}

TEST_CASE("tokenize and detokenize are inverse") {
  const std::string text = "on the hill: ünïcode 🙂\n\tdone";
  const Result ids = run_ridge({"tokenize", "-m", tiny_model(), "-f", "-", "--ids", "--no-bos"}, text);
  REQUIRE(ids.status == 0);
  CHECK(std::ranges::count(ids.out, '\n') == 1);
  CHECK(run_ridge({"detokenize", "-m", tiny_model(), ids.out}).out == text);
  check_refusal(run_ridge({"detokenize", "-m", tiny_model(), "99999"}), 1, "vocabulary");
}

TEST_CASE("special tokens in a text are parsed only with --special") {
  const auto count = [](std::vector<std::string> extra) {
    std::vector<std::string> args = {"tokenize", "-m", tiny_model(), "-p", "<|im_end|>", "--ids", "--no-bos"};
    args.insert(args.end(), extra.begin(), extra.end());
    const std::string out = run_ridge(args).out;
    return std::ranges::count(out, ' ') + 1;
  };
  CHECK(count({"--special"}) == 1);
  CHECK(count({}) > 5);
}

TEST_CASE("logits have one row per token") {
  REQUIRE(run_ridge({"logits", "-m", tiny_model(), "--ids", "1,2 3", "--out", folder() / "l.npy", "--exact"}).status ==
          0);
  CHECK(read_file(folder() / "l.npy").find("'shape': (3, ") != std::string::npos);
  check_refusal(run_ridge({"logits", "-m", tiny_model(), "--ids", "70000", "--out", folder() / "no.npy"}), 1,
                "vocabulary");
  CHECK(!std::filesystem::exists(folder() / "no.npy"));
}

TEST_CASE("embed writes a line of JSON for each text, or an array") {
  const Result lines = run_ridge({"embed", "-m", tiny_model(), "the rain", "a"});
  REQUIRE(lines.status == 0);
  CHECK(std::ranges::count(lines.out, '\n') == 2);
  const auto first = nlohmann::json::parse(lines.out.substr(0, lines.out.find('\n')));
  CHECK(first["index"] == 0);
  CHECK(first["tokens"] == 9);
  CHECK(first["embedding"].size() == 64);

  const std::string texts = folder().write("texts.txt", "the rain\na\n");
  CHECK(run_ridge({"embed", "-m", tiny_model(), "--file", texts}).out == lines.out);
  REQUIRE(run_ridge({"embed", "-m", tiny_model(), "--file", texts, "--out", folder() / "e.npy"}).status == 0);
  CHECK(read_file(folder() / "e.npy").find("'shape': (2, 64,)") != std::string::npos);
  REQUIRE(run_ridge({"embed", "-m", tiny_model(), "--ids", "1,2 3", "--pooling", "none", "--exact", "--out",
                     folder() / "n.npy"})
              .status == 0);
  CHECK(read_file(folder() / "n.npy").find("'shape': (3, 64,)") != std::string::npos);

  check_refusal(run_ridge({"embed", "-m", tiny_model(), "--pooling", "max", "x"}), 2, "unknown pooling 'max'");
  check_refusal(run_ridge({"embed", "-m", tiny_model(), "-c", "4", "the rain"}), 1, "the context holds 4");
  CHECK(run_ridge({"embed", "-m", tiny_model(), "-c", "4", "--truncate", "the rain"}).status == 0);
}

TEST_CASE("run samples as the model file recommends, where no option says otherwise") {
  TinyModel model;
  model.further.set("general.sampling.top_k", int32_t{1});
  model.write(folder() / "greedy.gguf");
  const auto answer = [](const char* seed, std::vector<std::string> extra = {}) {
    std::vector<std::string> args = {"run", "-m", folder() / "greedy.gguf", "-p", "on", "-n", "16", "-t", "1",
                                     "-s",  seed};
    args.insert(args.end(), extra.begin(), extra.end());
    const Result result = run_ridge(args);
    CHECK(result.status == 0);
    return result.out;
  };
  CHECK(answer("1") == answer("2"));
  CHECK(answer("1") == answer("1", {"--temp", "0"}));
  CHECK(answer("1", {"--top-k", "0"}) != answer("2", {"--top-k", "0"}));
}

TEST_CASE("doctor names what it found") {
  const json report = json::parse(run_ridge({"doctor", "--json"}).out);
  CHECK(report["findings"].size() >= 8);
}

TEST_CASE("run gives the reference completions") {
  REQUIRE_REFERENCE();
  for (const json& c : json::parse(read_file(reference_dir() + "/models/stories260K.greedy.json"))) {
    const Result result = run_ridge({"run", "-m", reference_dir() + "/models/stories260K.gguf", "--raw", "-p",
                                     c["prompt"], "-n", std::to_string(c["n_predict"].get<int>()), "--temp", "0"});
    CHECK(result.status == 0);
    CHECK(result.out == c["completion"].get<std::string>());
  }
}

TEST_CASE("run -n is a limit: a chat gets no longer context for it than the model was trained for") {
  const auto answer = [](const std::string& limit, std::vector<std::string> more) {
    std::vector<std::string> args = {"run",    "-m",       tiny_model(), "-p", "on",        "-n",
                                     limit,    "--device", "cpu",        "-s", "1",         "--json",
                                     "--spec", "off",      "--temp",     "0",  "--grammar", "root ::= \"a\""};
    args.insert(args.end(), more.begin(), more.end());
    const Result result = run_ridge(args);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(json::parse(result.out)["content"] == "a");
    return result.err;
  };
  const std::string bare = answer("3", {});
  CHECK(bare.empty());
  for (const char* limit : {"1000", "100000000", "2147483647", "9223372036854775807"}) {
    const std::string said = answer(limit, {});
    CAPTURE(said);
    CHECK(said.starts_with(std::string("-n ") + limit + ": the context of 512 tokens has room for "));
    CHECK(std::ranges::count(said, '\n') == 1);
  }
  CHECK(answer("100", {"-c", "64"}).starts_with("-n 100: the context of 64 tokens has room for "));
  const std::string raw = answer("1000", {"--raw"});
  CHECK(raw == "exceeding the 512 tokens that the model was trained for\n");
  for (const char* limit : {"2147483647", "9223372036854775807"}) {
    const std::string said = answer(limit, {"--raw"});
    CAPTURE(said);
    CHECK(said.find(std::string("-n ") + limit + ": the context of 2147483647 tokens has room for ") !=
          std::string::npos);
  }
}

TEST_CASE("run says exactly how many tokens of an answer the context has room for") {
  for (const bool raw : {false, true}) {
    std::vector<std::string> args = {"run",      "-m",  tiny_model(), "-p", "on", "--ignore-eos", "--json",
                                     "--device", "cpu", "-s",         "1",  "-c", "64",           "-n"};
    if (raw) args.insert(args.begin() + 1, "--raw");
    const auto with = [&](int64_t limit) {
      std::vector<std::string> all = args;
      all.push_back(std::to_string(limit));
      return run_ridge(all);
    };
    const Result cut = with(100);
    const json report = json::parse(cut.out);
    CHECK(report["stop"] == "context_full");
    const int64_t tokens = report["usage"]["completion_tokens"];
    CHECK(cut.err.find("has room for " + std::to_string(tokens) + " after") != std::string::npos);
    CHECK(with(tokens).err.empty());
    CHECK(json::parse(with(tokens).out)["stop"] == "limit");
  }
}

TEST_CASE("run gives a long prompt room where the model was trained for it") {
  TinyModel model;
  model.context = 16384;
  model.write(folder() / "long.gguf");
  const std::string text(9000, 'x'); // more than the default context
  const Result result = run_ridge({"run", "-m", folder() / "long.gguf", "-f", "-", "-n", "1", "--device", "cpu"}, text);
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(result.err.empty());
}

TEST_CASE("the same seed gives the same text, another seed another") {
  const auto text = [](const char* seed) {
    return run_ridge({"run", "-m", tiny_model(), "--raw", "-p", "on", "-n", "30", "-s", seed, "--ignore-eos"}).out;
  };
  CHECK(text("5") == text("5"));
  CHECK(text("5") != text("6"));
}

TEST_CASE("run --json separates the text from how it came about") {
  const Result result = run_ridge({"run", "-m", tiny_model(), "-p", "Hello", "-n", "5", "--ignore-eos", "--json"});
  REQUIRE(result.status == 0);
  const json report = json::parse(result.out);
  CHECK(report["stop"] == "limit");
  CHECK(report["usage"]["completion_tokens"] == 5);
  CHECK(report["usage"]["prompt_tokens"] > 5);
}

TEST_CASE("reasoning and answer are separated") {
  const std::vector<std::string> args = {
      "run", "-m", tiny_model(), "-p", "Hello", "--grammar", "root ::= \"<think>\" [a-z]{4} \"</think>\" [A-Z]{3}"};
  std::vector<std::string> with_json = args;
  with_json.push_back("--json");
  const json report = json::parse(run_ridge(with_json).out);
  CHECK(report["reasoning_content"].get<std::string>().size() == 4);
  CHECK(report["content"].get<std::string>().size() == 3);
  CHECK(run_ridge(args).out.size() == 3);
}

TEST_CASE("a stop string ends the answer before it, wherever tokens break") {
  const Result result = run_ridge({"run", "-m", tiny_model(), "-p", "x", "--raw", "--grammar", "root ::= \"abcdefgh\"",
                                   "--stop", "zz", "--stop", "def"});
  CHECK(result.out == "abc");
}

TEST_CASE("a JSON schema holds the answer") {
  const Result result = run_ridge({"run", "-m", tiny_model(), "-p", "x", "-j",
                                   R"({"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"]})"});
  REQUIRE(result.status == 0);
  const json answer = json::parse(result.out);
  CHECK((answer["n"] == 1 || answer["n"] == 2));
  CHECK(result.err.empty());
  check_refusal(run_ridge({"run", "-m", tiny_model(), "-p", "x", "-j", "{nonsense"}), 1, "--json-schema");
  check_refusal(run_ridge({"run", "-m", tiny_model(), "-p", "x", "--grammar", "root ::= nothing"}), 1, "nothing");
}

TEST_CASE("an answer that breaks what the grammar leaves out of its schema is given, and a line says so") {
  const std::string schema = R"({"properties": {"n": {"const": 1}}, "required": ["n"], "not": {"required": ["n"]}})";
  for (const char* raw : {"--raw", "--json"}) {
    const Result result = run_ridge({"run", "-m", tiny_model(), "-p", "x", "-j", schema, raw});
    CHECK(result.status == 0);
    CHECK(result.out.find("1") != std::string::npos);
    CHECK(result.err.find("the answer does not match its schema: ") != std::string::npos);
  }
  const Result chat = run_ridge({"chat", "-m", tiny_model(), "-j", schema}, "hi\n");
  CHECK(chat.status == 0);
  CHECK(chat.err.find("the answer does not match its schema: ") != std::string::npos);
}

TEST_CASE("a model without a chat template says so, and a named one stands in") {
  TinyModel plain;
  plain.chat_template.clear();
  plain.write(folder() / "plain.gguf");
  const Result result = run_ridge({"run", "-m", folder() / "plain.gguf", "-p", "x", "-n", "2"});
  CHECK(result.err.find("no chat template") != std::string::npos);
  CHECK(
      run_ridge({"run", "-m", folder() / "plain.gguf", "-p", "x", "-n", "2", "--chat-template", "chatml"}).err.empty());
  check_refusal(run_ridge({"run", "-m", tiny_model(), "-p", "x", "--chat-template", "nosuch"}), 2, "chatml");
}

TEST_CASE("--device cuda without a GPU is refused with the reason") {
  if (std::filesystem::exists("/dev/nvidia0")) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  check_refusal(run_ridge({"run", "-m", tiny_model(), "-p", "x", "--device", "cuda"}), 1, "--device cuda: ");
}
