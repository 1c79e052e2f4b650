// Text embeddings: hidden states and their pooling.
#pragma once

#include "api/requests.h"
#include "engine/loading/loaded_model.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

enum class Pooling : uint8_t {
  none, // one vector per token
  mean,
  cls,
  last,
};

// Throws a usage Error for unknown names.
Pooling pooling_of_name(std::string_view name);

// Reads ARCHITECTURE.pooling_type, if present. For a reranker it is the scored token, first or last. Throws Error for
// unknown values.
std::optional<Pooling> pooling_of_file(const gguf::File& file);

// rows: [tokens, width], at least one.
std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling);

// Scales to length 1; zeros stay zeros.
void normalize(std::span<float> vector);

// True if the architecture has no output matrix or the file names a pooling.
bool is_embedding_model(const gguf::File& file, const core::Program& program);

// Thread-safe; texts are evaluated one at a time.
class Embedder {
 public:
  struct Options {
    std::string pooling; // empty: the file's; else mean, or last for a decoder
    bool exact = false;  // no activation quantization, F32 cache
    // Minimum context if the model options name none.
    int64_t tokens = 0;
  };
  // The model must be opened with Ending::hidden. Throws Error if it cannot run.
  Embedder(LoadedModel model, const api::ModelOptions& where, const Options& options, const LoadSteps& steps = {});

  // Includes the model's special tokens. A text longer than the context is cut with `truncate`; otherwise throws Error.
  std::vector<int32_t> tokens_of(std::string_view text, bool truncate) const;
  // Returns width() values, normalized to length 1 if wanted; with Pooling::none, all raw hidden states [tokens,
  // width]. Throws Error for no tokens, too many, or unknown ones. `rows`: see core::Batch::rows.
  std::vector<float> embed(std::span<const int32_t> tokens, bool normalized = true, std::span<const float> rows = {});

  const LoadedModel& model() const { return model_; }
  Pooling pooling() const { return pooling_; }
  int64_t width() const { return model_.program.values[model_.program.result()].width; }
  int64_t context() const { return model_.executor->config().context; }

 private:
  std::vector<float> hidden_states(std::span<const int32_t> tokens, std::span<const float> rows);

  LoadedModel model_;
  Pooling pooling_;
  std::mutex mutex_; // guards the executor
};

} // namespace ridge::engine
