// Reasoning and stop strings, split at every place.
#include "text/chat/reasoning.h"

#include "support/numerics.h"

#include <random>

using namespace ridge;
using text::ReasoningSplitter;
using text::StopMatcher;

namespace {

std::string split_in(std::string_view text, size_t size, std::string_view prompt = {}) {
  ReasoningSplitter splitter(prompt);
  ReasoningSplitter::Piece all;
  const auto add = [&](const ReasoningSplitter::Piece& piece) {
    all.reasoning += piece.reasoning;
    all.answer += piece.answer;
  };
  for (size_t at = 0; at < text.size(); at += size) add(splitter.push(text.substr(at, size)));
  add(splitter.finish());
  return all.reasoning + " | " + all.answer;
}

struct Case {
  const char* text;
  const char* expected;
  const char* prompt = "";
};

constexpr Case kCases[] = {
    {"<think>\nwhy\nnot\n</think>\n\nbecause", "why\nnot | because"},
    {"  \n<think>a</think>b", "a | b"},
    {"<thinking>a</thinking> b", "a | b"},
    {"<reasoning> a </reasoning>b", "a | b"},
    {"[THINK]a[/THINK]b", "a | b"},
    {"<seed:think>a</seed:think>b", "a | b"},
    {"◁think▷a◁/think▷b", "a | b"},
    {"<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a | b"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "a | b"},
    {"<|channel|>final<|message|>b", " | b"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "a | b",
     "<|start|>user<|message|>q<|end|><|start|>assistant"},
    {"a<|end|><|start|>assistant<|channel|>final<|message|>b", "a | b",
     "<|start|>assistant<|channel|>analysis<|message|>"},
    {"b", " | b", "<|start|>assistant<|channel|>final<|message|>"},
    {"<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
     "<|constrain|>json<|message|>{}<|call|>",
     " | Let me look.\n\nto=functions.f {}", "<|start|>assistant"},
    {" to=functions.f<|channel|>commentary json<|message|>{}", " | to=functions.f {}", "<|start|>assistant"},
    {"<|channel|>comment", " | ", "<|start|>assistant"},
    {"no header at all", " | no header at all", "<|start|>assistant"},
    {" to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b", "a | b", "<|eot|><|start|>assistant"},
    {" to=self<|message|>a<|eom|><|start|>assistant<|message|>b<|eom|>", "a | b", "<|eot|><|start|>assistant"},
    {"<|channel>thought\na<channel|>b", "a | b", "<|turn>model\n"},
    {"<|START_THINKING|>a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>", "a | b"},
    {"<think:opensource>a</think:opensource>b", "a | b"},
    {"<mm:think>a</mm:think>b", "a | b"},
    {"a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]", "a | b\n",
     "<|begin_assistant|>\nHere are my reasoning steps:\n"},
    {"a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|close|>message<|sep|>", "a | b",
     "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>"},
    {"<|think|>a<|end|><|begin|>assistant<|content|>b", "a | b", "<|begin|>assistant"},
    {"<think>\na\n</think>\n<answer>\nb\n</answer>", "a | b\n"},
    {"why\n</think>\n\nyes", "why | yes", "<|Assistant|><think>\n"},
    {"plain answer", " | plain answer", "<think>\n\n</think>\n\n"},
    {"<think>\n\n</think>\n\nyes", " | yes"},
    {"Here is my thought process: a\nHere is my response: b", "a | b", "after 'Here is my thought process:' and"},
    {"Here is my thought process: a\nHere is my response: b",
     " | Here is my thought process: a\nHere is my response: b"},
    {"<think>a</think>\n<response>b</response>", "a | b", "between <response></response> for each"},
    {"<response>b</response>", " | <response>b</response>"},
    {"a", " | a", "<SPECIAL_11>Assistant\n<think></think>"},
    {"<think>a</think><think>b</think>c", "ab | c"},
    {"say <think> in the middle</think>", " | say <think> in the middle</think>"},
    {"  indented", " |   indented"},
    {"<thin ice>", " | <thin ice>"},
    {"<think>never closed", "never closed | "},
    {"<think>a </thin", "a </thin | "},
    {"1 < 2", " | 1 < 2"},
    {"", " | "},
};

} // namespace

TEST_CASE("reasoning is told from answer wherever the pieces are cut") {
  for (const Case& one : kCases) {
    const std::string_view text = one.text;
    CAPTURE(text);
    for (size_t size = 1; size <= text.size() + 1; ++size) {
      CAPTURE(size);
      CHECK(split_in(text, size, one.prompt) == one.expected);
    }
  }
}

TEST_CASE("text that can be no marker is passed on at once") {
  ReasoningSplitter splitter;
  CHECK(splitter.push("Hello [T").answer == "Hello [T");
  ReasoningSplitter thinking("<think>");
  CHECK(thinking.in_reasoning());
  CHECK(thinking.push("so").reasoning == "so");
  CHECK(thinking.push(" then</th").reasoning == " then");
  CHECK(thinking.push("ink>ok").answer == "ok");
  CHECK(!thinking.in_reasoning());
}

TEST_CASE("a stop string is found across pieces, and nothing of it or after it gets out") {
  for (const char* text : {"one two STOP three", "STOP", "SSTSTOP x", "no end STO", ""}) {
    CAPTURE(text);
    const std::string whole = text;
    const std::string expected = whole.substr(0, whole.find("STOP"));
    for (size_t size = 1; size <= whole.size() + 1; ++size) {
      StopMatcher matcher({"STOP", "", "never"});
      std::string out;
      for (size_t at = 0; at < whole.size(); at += size) out += matcher.push(whole.substr(at, size));
      out += matcher.finish();
      CHECK(out == expected);
      CHECK(matcher.stopped() == (whole.find("STOP") != whole.npos));
    }
  }
}

TEST_CASE("only what may become a stop string is buffered") {
  StopMatcher matcher({"</s>", "\n\nUser:"});
  CHECK(matcher.push("a<") == "a");
  CHECK(matcher.push("b\n") == "<b");
  CHECK(matcher.push("\nUs") == "");
  CHECK(matcher.push("e\n") == "\n\nUse");
  CHECK(matcher.finish() == "\n");
}

TEST_CASE("of several stop strings the one complete first counts") {
  StopMatcher matcher({"abcd", "bc"});
  CHECK(matcher.push("xabcd") == "xa");
  CHECK(matcher.stopped());
}

TEST_CASE("cutting any text anywhere changes nothing") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::string_view kParts[] = {"<think>",
                                         "</think>",
                                         "<",
                                         "/",
                                         "think",
                                         ">",
                                         " ",
                                         "\n",
                                         "x",
                                         "<|channel|>",
                                         "analysis",
                                         "<|message|>",
                                         "<|end|>",
                                         "final",
                                         "[THINK]",
                                         "[/THINK]",
                                         "<|start|>assistant",
                                         " to=self",
                                         "<answer>"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += kParts[random() % std::size(kParts)];
    CAPTURE(text);
    CHECK(split_in(text, 1 + random() % 5) == split_in(text, text.size() + 1));
  }
}
