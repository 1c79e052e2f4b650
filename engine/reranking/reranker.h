// How well documents answer a query, by a model that reads both together.
#pragma once

#include "engine/embedder.h"
#include "engine/reranking/ranking_head.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Any number of threads may ask; their texts take turns.
class Reranker {
 public:
  // The model, opened with Ending::hidden, gets its executor here. Throws Error for what is no reranker.
  Reranker(LoadedModel model, const core::ModelOptions& where, bool exact = false, const LoadSteps& steps = {});

  // The tokens of both texts, as the model wants them around and between these. Where they do not fit the context, the
  // document's end is left out with `truncate`; else an Error says so, as it does where the query alone is too long.
  std::vector<int32_t> tokens_of(std::string_view query, std::string_view document, bool truncate) const;

  struct Score {
    float logit = 0;
    float probability() const; // of the document being relevant
  };
  Score score(std::span<const int32_t> tokens);

  const LoadedModel& model() const { return embedder_.model(); }
  int64_t context() const { return embedder_.context(); }

 private:
  Reranker(LoadedModel&& model, const Embedder::Options& options, const core::ModelOptions& where,
           const LoadSteps& steps);
  std::vector<int32_t> pair(std::string_view query, std::string_view document) const;
  std::vector<int32_t> rendered(std::string_view query, std::string_view document) const;
  std::vector<float> second_type(std::vector<int32_t>& tokens) const;
  int32_t end() const; // the token behind each of the texts; -1: none

  Embedder embedder_;
  const RankingHead head_;
  std::string template_;   // with {query} and {document}; empty: the tokenizer's own tokens stand between the texts
  bool doubled_separator_; // … of which there are two
  // What BERT adds to the document's tokens, in place of what it adds to the query's; empty: it tells no texts apart.
  std::vector<float> type_difference_;
};

} // namespace ridge::engine
