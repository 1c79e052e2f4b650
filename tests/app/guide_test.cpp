// Unseen questions (models/guide/questions.json) and facts in the guide's answers, which perplexity does not measure.
#include "app/support.h"
#include "engine/chat/conversation.h"
#include "engine/speculation/head_drafter.h"
#include "engine/speculation/speculation.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>

using namespace ridge;
using json = nlohmann::ordered_json;

namespace {

// Greedy, each in a new conversation.
std::vector<std::string> ask(const std::vector<std::string>& questions) {
  engine::LoadedModel model = engine::open_model("");
  const text::ChosenTemplate chosen = text::choose_chat_template(model.file);
  REQUIRE(!chosen.origin.empty());
  core::ExecutorConfig config;
  config.context = 512;
  config.max_batch = 128;
  config.threads = 1; // tests use all cores; more threads mostly wait
  engine::start_executor(model, config, "cpu");
  engine::Session session(*model.executor, model.program);
  api::GenerateRequest request;
  request.sampling.params.temp = 0;
  request.sampling.max_tokens = 120;
  engine::Answerer answerer(model, session, request);
  std::vector<std::string> answers;
  for (const std::string& question : questions) {
    engine::Conversation conversation(model, session, chosen.chat_template);
    conversation.add_user(question);
    answers.push_back(conversation
                          .answer(
                              answerer, [](std::string_view, bool) {}, nullptr)
                          .content);
  }
  return answers;
}

std::vector<std::string> texts(const json& entries) {
  std::vector<std::string> out;
  for (const json& entry : entries) out.push_back(entry["question"]);
  return out;
}

bool says(const std::string& answer, const std::string& fact) {
  return std::regex_search(answer, std::regex(fact, std::regex::icase | std::regex::ECMAScript));
}

const json& questions() {
  static const json all = json::parse(std::ifstream(RIDGE_SOURCE_DIR "/models/guide/questions.json"));
  return all;
}

} // namespace

TEST_CASE("the guide has the right fact in at least 85 of 100 answers to questions it never saw") {
  const json& known = questions()["known"];
  REQUIRE(known.size() >= 100);
  const std::vector<std::string> answers = ask(texts(known));
  int right = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    bool all = true;
    for (const json& fact : known[i]["facts"]) all = all && says(answers[i], fact);
    right += all;
    if (!all) MESSAGE(known[i]["question"].get<std::string>() << "\n  -> " << answers[i]);
  }
  MESSAGE(right << " of " << known.size());
  CHECK(100 * right >= 85 * static_cast<int>(known.size()));
}

TEST_CASE("the guide says so when it is asked about something else") {
  const std::vector<std::string> asked = texts(questions()["unknown"]);
  REQUIRE(asked.size() == 20);
  const std::vector<std::string> answers = ask(asked);
  int honest = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool refused = says(answers[i], "only know");
    honest += refused;
    if (!refused) MESSAGE(asked[i] << "\n  -> " << answers[i]);
  }
  MESSAGE(honest << " of 20");
  CHECK(honest >= 18);
}

TEST_CASE("the guide answers as without its draft, which is right more than 1.5 times a step of three guesses") {
  const std::vector<std::string> known = texts(questions()["known"]);
  engine::LoadedModel model = engine::open_generating(api::ModelOptions{});
  REQUIRE(model.heads.size() == 1);
  core::ExecutorConfig config;
  config.context = 256;
  config.max_batch = 64;
  config.max_outputs = 4;
  config.threads = 1;  // on a busy machine more threads mostly wait
  config.exact = true; // batched steps round like single ones
  engine::start_executor(model, config, "cpu");
  const text::ChosenTemplate chosen = text::choose_chat_template(model.file);
  engine::Session plain(*model.executor, model.program);
  api::GenerateRequest request;
  request.sampling.params.seed = 1;
  request.sampling.max_tokens = 60;
  for (const float temp : {0.0f, 0.8f}) {
    CAPTURE(temp);
    request.sampling.params.temp = temp;
    engine::GuessCounts counts;
    for (size_t i = 0; i < known.size(); i += 10) {
      CAPTURE(known[i]);
      const auto answer = [&](engine::Session& session) {
        engine::Answerer answerer(model, session, request);
        engine::Conversation conversation(model, session, chosen.chat_template);
        conversation.add_user(known[i]);
        return conversation
            .answer(
                answerer, [](std::string_view, bool) {}, nullptr)
            .content;
      };
      const std::string expected = answer(plain);
      engine::Session guessing(*model.executor, model.program,
                               std::make_unique<engine::Speculator>(std::make_unique<engine::HeadDrafter>(model), 3));
      CHECK(answer(guessing) == expected);
      counts += guessing.guesses();
    }
    const double right = static_cast<double>(counts.all_right()) / static_cast<double>(counts.steps);
    MESSAGE(right << " right guesses a step, of " << counts.steps << " steps");
    CHECK(right > 1.5);
  }
}

TEST_CASE("the guide's layers may be divided, where its draft cannot be used") {
  const auto divided =
      tests::run_ridge({"run", "--device", "cpu", "--pipeline", "2", "--temp", "0", "-n", "4", "-p", "What is Q4_K?"});
  CAPTURE(divided.err);
  CHECK(divided.status == 0);
  CHECK(divided.out.find("Q4_K") != std::string::npos);
}

TEST_CASE("commands that measure a model take the guide where none is named, and say so") {
  const auto bench = tests::run_ridge({"bench", "--device", "cpu", "-p", "8", "-n", "4", "-r", "1", "-o", "jsonl"});
  CAPTURE(bench.err);
  CHECK(bench.status == 0);
  CHECK(bench.out.find("llama 11M Q6_K") != std::string::npos);
  CHECK(bench.err.find("built-in guide") != std::string::npos);
  const auto perplexity = tests::run_ridge({"perplexity", "--device", "cpu", "--parse-special", "--chunks", "2",
                                            "--json", "-f", RIDGE_SOURCE_DIR "/models/guide/heldout.txt"});
  CAPTURE(perplexity.err);
  CHECK(perplexity.status == 0);
  CHECK(json::parse(perplexity.out)["perplexity"] < 100);
}
