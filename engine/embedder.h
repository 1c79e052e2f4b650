// Embeddings: a model that ends with the hidden state, and how its vectors are made.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"
#include "engine/pooling.h"

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Whether the file says of itself that it embeds texts: its architecture has no output matrix, or it names a pooling.
bool is_embedding_model(const gguf::File& file, const core::Program& program);

// Any number of threads may embed; their texts take turns.
class Embedder {
 public:
  struct Options {
    std::string pooling; // a name (pooling_of_name); empty: the file's, else mean or, of a decoder, last
    bool exact = false;  // no activation quantization, F32 cache
    // Tokens that there is room for at least, where the options name no context. 0: as the options say.
    int64_t tokens = 0;
  };
  // The model, opened with Ending::hidden, gets its executor here. Throws Error for what cannot run.
  Embedder(LoadedModel model, const core::ModelOptions& where, const Options& options, const LoadSteps& steps = {});

  // The tokens of a text, with those that the model wants around it. Where they do not fit the context, the end of the
  // text is left out with `truncate`; else an Error says so.
  std::vector<int32_t> tokens_of(std::string_view text, bool truncate) const;
  // The vector of a text, of width() elements, normed to length 1 if wanted. With Pooling::none the hidden states of
  // all tokens, one after the other, as they are. Throws Error for no tokens, too many, or one outside the vocabulary.
  // `rows`: core::Batch::rows, where the Program takes some.
  std::vector<float> embed(std::span<const int32_t> tokens, bool normalized = true, std::span<const float> rows = {});

  const LoadedModel& model() const { return model_; }
  Pooling pooling() const { return pooling_; }
  int64_t width() const { return model_.program.values[model_.program.result()].width; }
  int64_t context() const { return model_.executor->config().context; }

 private:
  // The hidden states of those tokens that the pooling needs.
  std::vector<float> hidden_states(std::span<const int32_t> tokens, std::span<const float> rows);

  LoadedModel model_;
  Pooling pooling_;
  std::mutex mutex_; // of the executor
};

} // namespace ridge::engine
