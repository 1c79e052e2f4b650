#include "engine/reranking/reranker.h"

#include "core/error.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>

namespace ridge::engine {
namespace {

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
// Qwen3-Reranker's template, for files without one.
constexpr const char* kQwenTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
    "web "
    "search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

std::string template_of(const gguf::File& file) {
  const std::string_view architecture = file.get_string("general.architecture", "");
  std::string source(file.get_string("tokenizer.chat_template.rerank",
                                     architecture.starts_with("qwen3") ? std::string_view(kQwenTemplate) : ""));
  const auto count = [&](std::string_view part) {
    size_t times = 0;
    for (size_t at = 0; (at = source.find(part, at)) != std::string::npos; at += part.size()) ++times;
    return times;
  };
  if (!source.empty() && (count(kQuery) != 1 || count(kDocument) != 1))
    throw_error("{}: tokenizer.chat_template.rerank: expected {} and {}, once each", file.path(), kQuery, kDocument);
  return source;
}

// RoBERTa and its successors put two separators between texts, BERT and ModernBERT one.
bool doubles_separator(const gguf::File& file, const text::Tokenizer& tokenizer) {
  const bool roberta = tokenizer.model() == "t5" ||
                       (tokenizer.model() == "gpt2" && file.get_string("general.architecture", "") != "modern-bert");
  return roberta && file.get_bool("tokenizer.ggml.add_sep_token", true);
}

// The embedding of the second token type minus the first's (BERT only).
std::vector<float> type_difference(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width) {
  const gguf::Tensor* types = file.find_tensor("token_types.weight");
  if (tokenizer.model() != "bert" || !types || types->dims[1] < 2) return {};
  const quant::FormatInfo& format = *types->type.format();
  std::vector<float> first(static_cast<size_t>(width)), second(first.size());
  format.decode(types->data.data(), width, first.data());
  format.decode(types->data.data() + format.row_bytes(width), width, second.data());
  for (size_t i = 0; i < second.size(); ++i) second[i] -= first[i];
  return second;
}

std::string pooling_of(const LoadedModel& model) {
  return RankingHead(model.file, model.need_tokenizer(), model.program.values[model.program.result()].width)
                 .reads_last()
             ? "last"
             : "cls";
}

LoadedModel taking_rows(LoadedModel model) {
  const int64_t width = model.program.values[model.program.result()].width;
  if (!type_difference(model.file, model.need_tokenizer(), width).empty()) model.program.row_width = width;
  return model;
}

} // namespace

float Reranker::Score::probability() const { return 1 / (1 + std::exp(-logit)); }

Reranker::Reranker(LoadedModel model, const api::ModelOptions& where, bool exact, const LoadSteps& steps)
    : Reranker(std::move(model), {.pooling = pooling_of(model), .exact = exact}, where, steps) {}

Reranker::Reranker(LoadedModel&& model, const Embedder::Options& options, const api::ModelOptions& where,
                   const LoadSteps& steps)
    : embedder_(taking_rows(std::move(model)), where, options, steps),
      head_(embedder_.model().file, embedder_.model().need_tokenizer(), embedder_.width()),
      template_(template_of(embedder_.model().file)),
      doubled_separator_(doubles_separator(embedder_.model().file, embedder_.model().need_tokenizer())),
      type_difference_(type_difference(embedder_.model().file, embedder_.model().need_tokenizer(), embedder_.width())) {
}

std::vector<int32_t> Reranker::tokens_of(std::string_view query, std::string_view document, bool truncate) const {
  std::vector<int32_t> tokens = pair(query, document);
  if (std::ssize(tokens) <= context()) return tokens;
  const int64_t all = std::ssize(tokens);
  if (truncate) {
    const text::Tokenizer& tokenizer = model().need_tokenizer();
    std::vector<int32_t> kept = tokenizer.encode(document);
    while (std::ssize(tokens) > context() && !kept.empty()) { // a cut text may tokenize differently
      const int64_t excess = std::ssize(tokens) - context();
      kept.resize(static_cast<size_t>(std::max<int64_t>(0, std::ssize(kept) - excess)));
      tokens = pair(query, tokenizer.decode(kept));
    }
    if (std::ssize(tokens) <= context()) return tokens;
    throw_error("the query alone has {} tokens, but the context holds {}: raise -c, or shorten it", tokens.size(),
                context());
  }
  throw_error("the query and a document have {} tokens, but the context holds {}: raise -c, or truncate the document",
              all, context());
}

std::vector<int32_t> Reranker::pair(std::string_view query, std::string_view document) const {
  if (!template_.empty()) return rendered(query, document);
  const text::Tokenizer& tokenizer = model().need_tokenizer();
  std::vector<int32_t> tokens = tokenizer.encode(query, {.add_special = true});
  const int32_t end = this->end();
  if (end >= 0 && (tokens.empty() || tokens.back() != end)) tokens.push_back(end);
  if (doubled_separator_ && end >= 0) tokens.push_back(end);
  const std::vector<int32_t> second = tokenizer.encode(document);
  tokens.insert(tokens.end(), second.begin(), second.end());
  if (end >= 0) tokens.push_back(end);
  return tokens;
}

// Control tokens come only from the template.
std::vector<int32_t> Reranker::rendered(std::string_view query, std::string_view document) const {
  std::string text = template_;
  std::vector<text::ByteSpan> data;
  const auto put = [&](std::string_view mark, std::string_view value) {
    const size_t from = template_.find(mark) + text.size() - template_.size();
    text.replace(from, mark.size(), value);
    data.push_back({from, from + value.size()});
  };
  const bool query_first = template_.find(kQuery) < template_.find(kDocument);
  put(query_first ? kQuery : kDocument, query_first ? query : document);
  put(query_first ? kDocument : kQuery, query_first ? document : query);
  return model().need_tokenizer().encode(text, {.add_special = true, .parse_special = true, .data = data});
}

int32_t Reranker::end() const {
  const text::Tokenizer& tokenizer = model().need_tokenizer();
  return tokenizer.eos() >= 0 ? tokenizer.eos() : tokenizer.special().separator;
}

// Replaces the tokens after the first end token by rows with the second token type. Returns these rows.
std::vector<float> Reranker::second_type(std::vector<int32_t>& tokens) const {
  const auto first = std::ranges::find(tokens, end());
  if (type_difference_.empty() || first == tokens.end()) return {};
  const gguf::Tensor& table = *model().file.find_tensor("token_embd.weight");
  const quant::FormatInfo& format = *table.type.format();
  const auto width = std::ssize(type_difference_);
  std::vector<float> rows(static_cast<size_t>((tokens.end() - first - 1) * width));
  float* row = rows.data();
  for (auto token = first + 1; token != tokens.end(); ++token, row += width) {
    format.decode(table.data.data() + *token * format.row_bytes(width), width, row);
    for (int64_t i = 0; i < width; ++i) row[i] += type_difference_[static_cast<size_t>(i)];
    *token = static_cast<int32_t>(first - token);
  }
  return rows;
}

Reranker::Score Reranker::score(std::span<const int32_t> tokens) {
  std::vector<int32_t> read(tokens.begin(), tokens.end());
  for (const int32_t token : tokens)
    if (token < 0 || token >= model().program.vocab) throw_error("{} is not a token of this vocabulary", token);
  const std::vector<float> rows = second_type(read);
  return {head_.logit(embedder_.embed(read, false, rows))};
}

} // namespace ridge::engine
