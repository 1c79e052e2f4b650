// Scores documents for a query.
#pragma once

#include "engine/embedder.h"
#include "engine/reranking/ranking_head.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Thread-safe; texts are evaluated one at a time.
class Reranker {
 public:
  // The model must be opened with Ending::hidden. Throws Error if it is no reranker.
  Reranker(LoadedModel model, const api::ModelOptions& where, bool exact = false, const LoadSteps& steps = {});

  // Includes special tokens. A document that is too long is cut with `truncate`; otherwise throws Error, as for a long
  // query.
  std::vector<int32_t> tokens_of(std::string_view query, std::string_view document, bool truncate) const;

  struct Score {
    float logit = 0;
    float probability() const;
  };
  Score score(std::span<const int32_t> tokens);

  const LoadedModel& model() const { return embedder_.model(); }
  int64_t context() const { return embedder_.context(); }

 private:
  Reranker(LoadedModel&& model, const Embedder::Options& options, const api::ModelOptions& where,
           const LoadSteps& steps);
  std::vector<int32_t> pair(std::string_view query, std::string_view document) const;
  std::vector<int32_t> rendered(std::string_view query, std::string_view document) const;
  std::vector<float> second_type(std::vector<int32_t>& tokens) const;
  int32_t end() const; // the token after each text; -1: none

  Embedder embedder_;
  const RankingHead head_;
  std::string template_; // empty: texts are joined by separators
  bool doubled_separator_;
  // Added to the document's embeddings (BERT's second token type); may be empty.
  std::vector<float> type_difference_;
};

} // namespace ridge::engine
