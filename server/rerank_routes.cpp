// /rerank sorts documents (Jina, Cohere, TEI), /score scores pairs of texts (vLLM).
#include "server/answers.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/models/rerank_service.h"
#include "server/requests/request_fields.h"
#include "server/routes.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

namespace ridge::server {
namespace {

constexpr size_t kMaxDocuments = 2048;

struct Pair {
  std::string query, document;
  std::vector<int32_t> tokens = {};
};

class Ranking {
 public:
  Ranking(RerankService& service, const Fields& body, std::vector<Pair> pairs)
      : service_(service), use_(service), model_(body.text("model").value_or(service.name())),
        raw_(body.flag("raw_scores").value_or(false)), pairs_(std::move(pairs)) {
    const bool truncate = body.flag("truncate").value_or(true);
    for (Pair& pair : pairs_) {
      pair.tokens = service.reranker().tokens_of(pair.query, pair.document, truncate);
      tokens_ += std::ssize(pair.tokens);
    }
  }

  // Runs after the route has returned; stops if the client leaves.
  static void send(const std::shared_ptr<Ranking>& request, const char* route,
                   const std::function<Json(const Ranking&)>& make, HttpResponse& response) {
    RerankService& service = request->service_;
    reply_unscheduled(service,
                      {.route = route,
                       .what = fmt::format("{} documents", request->pairs_.size()),
                       .tokens = request->tokens_,
                       .work = [request](Client& client) { return request->score(client); },
                       .answer = [request, make] { return make(*request); }},
                      ErrorForm::openai, response);
  }

  const std::string& model() const { return model_; }
  const std::vector<Pair>& pairs() const { return pairs_; }
  const std::vector<float>& scores() const { return scores_; }
  std::vector<size_t> best(size_t most) const {
    std::vector<size_t> order(scores_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return scores_[i]; });
    order.resize(std::min(most, order.size()));
    return order;
  }
  Json usage() const { return {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}; }

 private:
  bool score(Client& client) {
    for (const Pair& pair : pairs_) {
      if (!client.is_there()) return false;
      const engine::Reranker::Score score = service_.score(pair.tokens);
      scores_.push_back(raw_ ? score.logit : score.probability());
    }
    service_.count_request();
    return true;
  }

  RerankService& service_;
  const ModelService::Use use_;
  const std::string model_;
  const bool raw_;
  std::vector<Pair> pairs_;
  int64_t tokens_ = 0;
  std::vector<float> scores_;
};

std::string document_text(const Json& given, const std::string& path) {
  if (given.is_string()) return given.get<std::string>();
  if (given.is_object()) {
    const Fields fields(given, path);
    fields.required("text");
    return *fields.text("text");
  }
  throw_invalid(path, "{}: expected a string, or an object with a text", path);
}

std::vector<std::string> documents_of(const Fields& body, const char* name) {
  const Json& given = body.required(name);
  if (!given.is_array() || given.empty() || given.size() > kMaxDocuments)
    throw_invalid(name, "{}: expected a list of 1 to {} texts", name, kMaxDocuments);
  std::vector<std::string> documents;
  for (size_t i = 0; i < given.size(); ++i)
    documents.push_back(document_text(given[i], fmt::format("{}[{}]", name, i)));
  return documents;
}

std::string query_of(const Fields& body) {
  body.required("query");
  const std::string query = *body.text("query");
  if (query.empty()) throw_invalid("query", "query: expected a string that is not empty");
  return query;
}

// Reads the first member that exists.
std::vector<std::string> side_of(const Fields& body, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Json* given = body.find(name);
    if (!given) continue;
    return given->is_array() ? documents_of(body, name) : std::vector<std::string>{document_text(*given, name)};
  }
  throw_invalid(*names.begin(), "{} is missing", *names.begin());
}

} // namespace

void rerank(RerankService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::rerank);
  const bool plain = fields.find("texts") && !fields.find("documents");
  const std::string query = query_of(fields);
  std::vector<Pair> pairs;
  for (std::string& document : documents_of(fields, plain ? "texts" : "documents"))
    pairs.push_back({query, std::move(document)});
  const auto most = static_cast<size_t>(fields.integer("top_n", 1, INT32_MAX).value_or(INT32_MAX));
  const bool shows = fields.flag(plain ? "return_text" : "return_documents").value_or(false);
  const auto make = [=](const Ranking& ranking) -> Json {
    Json results = Json::array();
    for (const size_t i : ranking.best(most)) {
      Json result = {{"index", i}, {plain ? "score" : "relevance_score", ranking.scores()[i]}};
      const std::string& document = ranking.pairs()[i].document;
      if (shows && plain) result["text"] = document;
      if (shows && !plain) result["document"] = {{"text", document}};
      results.push_back(std::move(result));
    }
    if (plain) return results;
    return {{"id", new_id("rerank-")},
            {"object", "list"},
            {"model", ranking.model()},
            {"results", std::move(results)},
            {"usage", ranking.usage()},
            {"meta", {{"api_version", {{"version", "2"}}}, {"billed_units", {{"search_units", 1}}}}}};
  };
  Ranking::send(std::make_shared<Ranking>(service, fields, std::move(pairs)), "/v1/rerank", make, response);
}

void score(RerankService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::rerank);
  const std::vector<std::string> first = side_of(fields, {"text_1", "queries", "data_1"}),
                                 second = side_of(fields, {"text_2", "documents", "data_2"});
  if (first.size() != 1 && first.size() != second.size())
    throw_invalid("text_1", "text_1: expected one text, or as many as in text_2, {}", second.size());
  std::vector<Pair> pairs;
  for (size_t i = 0; i < second.size(); ++i) pairs.push_back({first[first.size() == 1 ? 0 : i], second[i]});
  const auto make = [](const Ranking& ranking) -> Json {
    Json data = Json::array();
    for (const float one : ranking.scores())
      data.push_back({{"index", data.size()}, {"object", "score"}, {"score", one}});
    return {{"id", new_id("score-")},   {"object", "list"},        {"created", std::time(nullptr)},
            {"model", ranking.model()}, {"data", std::move(data)}, {"usage", ranking.usage()}};
  };
  Ranking::send(std::make_shared<Ranking>(service, fields, std::move(pairs)), "/v1/score", make, response);
}

} // namespace ridge::server
