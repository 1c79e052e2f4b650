// Command-line words.
#include "app/support.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

using Words = std::vector<std::string>;

// The number of prompt tokens of `ridge run`.
int64_t prompt_tokens(Words words, const std::string& input = "") {
  const Words rest = {"--raw", "--json", "-n", "1", "-t", "1", "--device", "cpu", "--grammar", "root ::= \"a\""};
  words.insert(words.begin(), "run");
  words.insert(words.end(), rest.begin(), rest.end());
  const Result result = run_ridge(words, input);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out)["usage"]["prompt_tokens"];
}

// Expects one line of error, before a model is opened.
void check_wrong(const Words& words, const Words& said) {
  const Result result = run_ridge(words);
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.err.starts_with("ridge: error: "));
  CHECK(std::ranges::count(result.err, '\n') == 1);
  for (const std::string& part : said) CHECK_MESSAGE(result.err.find(part) != std::string::npos, part);
}

} // namespace

TEST_CASE("words of several letters behind one dash mean what they mean elsewhere, or are refused by name") {
  const std::string home = folder() / "nowhere";
  const Result pulled = run({"env", "HF_ENDPOINT=http://127.0.0.1:1", "HF_HOME=" + home, "HOME=" + home, RIDGE_BINARY,
                             "run", "-hf", "foo/bar", "-p", "hi"});
  CHECK(pulled.status == 1);
  CHECK(pulled.out.empty());
  CHECK_MESSAGE(pulled.err.find("foo/bar") != std::string::npos, pulled.err);
  const int64_t tokens = prompt_tokens({"-m", tiny_model(), "-p", "on the hill"});
  for (const Words& more : {Words{"-fa", "on"},
                            {"-fa"},
                            {"--flash-attn", "auto"},
                            {"--flash-attn=on"},
                            {"--jinja"},
                            {"-no-cnv"},
                            {"-st"},
                            {"-ub", "64"},
                            {"-ngl", "0"}}) {
    Words words = {"-m", tiny_model(), "-p", "on the hill"};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(prompt_tokens(words) == tokens);
  }
  check_wrong({"run", "-fa", "off", "-p", "x"}, {"run: -fa off: ", "attention"});
  check_wrong({"run", "-cnv", "-p", "x"}, {"run: -cnv: ", "ridge chat"});
  check_wrong({"chat", "-no-cnv"}, {"chat: -no-cnv: ", "ridge run"});
  check_wrong({"run", "-p", "x", "--mlock"}, {"run: --mlock: ", "ridge fit"});
  check_wrong({"run", "-p", "x", "--no-mmap"}, {"run: --no-mmap: ", "always memory-mapped"});
  check_wrong({"run", "-phello"}, {"run: -phello: ", "a space between -p and hello"});
  check_wrong({"run", "-temp", "1"}, {"run: -temp: unknown option; did you mean '--temp'?"});
  check_wrong({"run", "-xyz"}, {"run: -xyz: unknown option", "ridge run --help"});
  check_wrong({"tokenize", "-ngl", "3", "x"}, {"tokenize: -ngl: ", "--gpu-layers"});
}

TEST_CASE("the long words of other programs are known") {
  const auto answer = [](const Words& more) {
    Words words = {"run", "-m", tiny_model(), "-p", "on", "--temp", "0", "-t", "1", "--device", "cpu", "--ignore-eos"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run_ridge(words);
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  CHECK(answer({"--n-predict", "5"}) == answer({"-n", "5"}));
  CHECK(answer({"--n-predict=5"}) == answer({"--predict", "5"}));
  CHECK(answer({"-n", "5", "--system", "Be brief."}) == answer({"-n", "5", "--system-prompt", "Be brief."}));
  CHECK(answer({"-n", "5", "-sys", "Be brief."}) == answer({"-n", "5", "--system-prompt", "Be brief."}));
  CHECK(answer({"-n", "5", "-sys", "Be brief."}) != answer({"-n", "5"}));
  CHECK(answer({"-n5"}) == answer({"-n", "5"}));
  CHECK(answer({"-n", "5", "--stop", "-sys"}) == answer({"-n", "5"})); // a value, not an option
}

TEST_CASE("what was probably meant is asked") {
  check_wrong({"caht"}, {"unknown command 'caht'; did you mean 'chat'?"});
  check_wrong({"list"}, {"did you mean 'models'?"});
  check_wrong({"run", "--tmep", "1", "-p", "x"}, {"run: --tmep: unknown option; did you mean '--temp'?"});
  check_wrong({"run", "--nonsense-of-mine"}, {"unknown option; see ridge run --help"});
  check_wrong({"quantize", tiny_model(), folder() / "q.gguf", "Q4_KM"}, {"'Q4_KM'; did you mean 'Q4_K_M'?"});
  check_wrong({"inspect", tiny_model(), "--tensor", "output.weight", "--as", "Q4-0"}, {"did you mean 'Q4_0'?"});
  const std::string home = folder() / "meant";
  std::filesystem::create_directories(home + "/models");
  std::filesystem::copy_file(tiny_model(), home + "/models/Tiny-Llama-F16.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  const Result result = run({"env", "-i", "HOME=" + home, RIDGE_BINARY, "inspect", "tiny-lama-f16"});
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.err.find("did you mean 'Tiny-Llama-F16'?") != std::string::npos, result.err);
}

TEST_CASE("words too many are named, the first of them") {
  check_wrong({"chat", tiny_model(), "second", "third"}, {"chat: second: one argument too many"});
  check_wrong({"doctor", "one", "two"}, {"doctor: one: unexpected argument; this command takes only options"});
}

TEST_CASE("a value that is missing is said by its name") {
  check_wrong({"run", "-ngl"}, {"run: -ngl: expected N"});
  check_wrong({"chat", "--device"}, {"chat: --device: expected one of: ", "cuda"});
}

TEST_CASE("ridge help is help") {
  CHECK(run_ridge({"help"}).out == run_ridge({"--help"}).out);
  CHECK(run_ridge({"help", "run"}).out == run_ridge({"run", "--help"}).out);
  check_wrong({"help", "rum"}, {"did you mean 'run'?"});
}

TEST_CASE("a text is written behind the model, or piped into run, alone or behind another") {
  const int64_t hill = prompt_tokens({"-m", tiny_model(), "-p", "on the hill"});
  CHECK(prompt_tokens({tiny_model(), "on the hill"}) == hill);
  CHECK(prompt_tokens({tiny_model(), "on", "the", "hill"}) == hill);
  CHECK(prompt_tokens({"on the hill", "-m", tiny_model()}) == hill);
  CHECK(prompt_tokens({"-m", tiny_model()}, "on the hill\n") == hill);
  CHECK(prompt_tokens({"-m", tiny_model(), "-f", "-"}, "on the hill") == hill);
  CHECK(prompt_tokens({"-m", tiny_model(), "-p", "Summarize"}, "on the hill\n") ==
        prompt_tokens({"-m", tiny_model(), "-p", "Summarize\n\non the hill"}));
  CHECK(prompt_tokens({tiny_model(), "Summarize"}, "on the hill\n") ==
        prompt_tokens({"-m", tiny_model(), "-p", "Summarize\n\non the hill"}));
  const std::string file = folder().write("hill.txt", "on the hill\n");
  const Result redirected = run(
      {"/bin/sh", "-c", std::string(RIDGE_BINARY) + " run --raw --json -n 1 -t 1 -m " + tiny_model() + " <" + file});
  CHECK(json::parse(redirected.out)["usage"]["prompt_tokens"] == hill);
  check_wrong({"run", "-m", tiny_model()}, {"run: no text", "-p TEXT"});
  check_wrong({"run", tiny_model(), "one", "-p", "two"}, {"'one': -p or -f already gives a text"});
}

TEST_CASE("a text alone is for the built-in guide") {
  const Result answer = run_ridge({"run", "What is a roofline?", "-n", "3", "--device", "cpu"});
  CHECK_MESSAGE(answer.status == 0, answer.err);
  CHECK(!answer.out.empty());
  const Result ids = run_ridge({"tokenize", "the roofline", "--ids"});
  CHECK(ids.status == 0);
  CHECK(ids.out == run_ridge({"tokenize", "-p", "the roofline", "--ids"}).out);
  CHECK(run_ridge({"tokenize", tiny_model(), "the roofline", "--ids"}).out ==
        run_ridge({"tokenize", "-m", tiny_model(), "-p", "the roofline", "--ids"}).out);
}

TEST_CASE("chat -p sends a first message") {
  const Words args = {"chat", "-m", tiny_model(), "-n", "8", "-s", "1", "--grammar", "root ::= [a-z]{8}", "-p", "hi"};
  const Result result = run_ridge(args, "again\n");
  CHECK(result.status == 0);
  CHECK(result.out.size() == 2 * 9);
}
