// Runs calibration text through a model: importance matrices and token chunks.
#pragma once

#include "core/stages/split.h"
#include "gguf/imatrix.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ridge::convert {

// Chunks have `chunk_tokens`, with BOS if the model uses it; drops an incomplete one. Throws Error if the text is too
// short.
std::vector<std::vector<int32_t>> calibration_chunks(const text::Tokenizer& tokenizer, std::string_view text,
                                                     bool parse_special, int64_t chunk_tokens, int64_t max_chunks);

// Chunks of text sampled from the model, for use without a calibration text.
std::vector<std::vector<int32_t>> sample_text(const gguf::File& file, const core::Program& program,
                                              const core::MakeExecutor& make_executor, int threads);

// Evaluates a chunk from position 0. Calls `logits(position, row)` in order of position.
void run_chunk(core::Executor& executor, std::span<const int32_t> tokens,
               const std::function<void(int64_t, std::span<const float>)>& logits = {});

// Sums squared inputs per column, as the executor's observer.
class ImatrixCollector final : public core::InputObserver {
 public:
  // `output`: include the output matrix. `program` must be the executor's and outlive this.
  ImatrixCollector(const core::Program& program, bool output);

  void observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) override;
  gguf::Imatrix result() const;

 private:
  struct Sums {
    const core::Weight* weight = nullptr; // nullptr: not collected
    std::vector<double> squares;          // [matrices][cols]
    std::vector<double> counts;           // [matrices]
    const core::Weight* order = nullptr;  // for act-order: input column i is column order[i]
  };
  const core::Program& program_;
  std::vector<Sums> by_op_;
};

} // namespace ridge::convert
