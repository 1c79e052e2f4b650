// ridge rerank: documents by relevance.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "engine/adapters/adapters.h"
#include "engine/reranking/reranker.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace ridge::app {
namespace {

struct RerankCommand {
  api::ModelOptions model;
  std::string query, file;
  std::vector<std::string> documents;
  size_t most = SIZE_MAX;
  bool exact = false, raw = false, no_truncate = false;

  void run() {
    if (query.empty()) throw Error("rerank: no query; give --query TEXT", Error::kUsage);
    if (documents.empty() || !file.empty())
      for (const std::string& line : lines_of(core::read_text_file(file.empty() ? "-" : file)))
        documents.push_back(line);
    if (documents.empty())
      throw Error("rerank: no documents; give TEXT, --file FILE or lines on standard input", Error::kUsage);
    engine::Reranker reranker(
        engine::with_adapters(engine::open_model(model.model, load_on_terminal(), models::Ending::hidden),
                              model.adapters),
        model, exact, load_on_terminal());
    std::vector<std::pair<float, size_t>> scores;
    for (size_t i = 0; i < documents.size(); ++i) {
      const engine::Reranker::Score score = reranker.score(reranker.tokens_of(query, documents[i], !no_truncate));
      scores.emplace_back(raw ? score.logit : score.probability(), i);
    }
    std::ranges::stable_sort(scores, std::greater(), &std::pair<float, size_t>::first);
    scores.resize(std::min(most, scores.size()));
    for (const auto& [score, index] : scores)
      fmt::print("{}\n",
                 nlohmann::ordered_json{{"index", index}, {"score", score}, {"document", documents[index]}}.dump());
    flush_stdout();
  }
};

} // namespace

void add_rerank_command(CLI::App& app) {
  auto options = std::make_shared<RerankCommand>();
  CLI::App* command =
      app.add_subcommand("rerank", "sort documents by how well they answer a query: one line of JSON each");
  add_model_options(*command, options->model);
  command->add_option("-q,--query", options->query, "the query")->type_name("TEXT");
  CLI::Option* texts =
      command->add_option("document", options->documents, "the documents (default: each line of standard input is one)")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_name("TEXT");
  command->add_option("--file", options->file, "each line of this file is a document (-: standard input)")
      ->type_name("FILE")
      ->excludes(texts);
  command->add_option("--top-n", options->most, "print only the best N")
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
  command->add_flag("--raw", options->raw, "print the model's logits as scores instead of probabilities");
  command->add_flag("--no-truncate", options->no_truncate,
                    "fail if a document does not fit the context, instead of truncating it");
  command->add_flag("--exact", options->exact, "no activation quantization, F32 KV cache");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
