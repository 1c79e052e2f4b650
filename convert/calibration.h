// Text through a model, to see what its matrices meet: importance matrices, and the chunks that other calibrations run.
#pragma once

#include "core/executor.h"
#include "gguf/imatrix.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ridge::convert {

// The text's tokens in chunks of `chunk_tokens`, each starting with BOS where the model wants one; what is left over at
// the end is dropped. Throws Error where the text has not one chunk.
std::vector<std::vector<int32_t>> calibration_chunks(const text::Tokenizer& tokenizer, std::string_view text,
                                                     bool parse_special, int64_t chunk_tokens, int64_t max_chunks);

// Runs a whole chunk from position 0; `logits(position, row)` is called for every position in order, if given.
void run_chunk(core::Executor& executor, std::span<const int32_t> tokens,
               const std::function<void(int64_t, std::span<const float>)>& logits = {});

// Sums the squares of what goes into each matrix. Give it to the executor's configuration.
class ImatrixCollector final : public core::InputObserver {
 public:
  // `output`: the output matrix, too. The Program, which must be the executor's, must outlive this.
  ImatrixCollector(const core::Program& program, bool output);

  void observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) override;
  gguf::Imatrix result() const; // entries alone

 private:
  struct Sums {
    const core::Weight* weight = nullptr; // nullptr: not collected
    std::vector<double> squares;          // [matrices][cols]
    std::vector<double> counts;           // [matrices]
    const core::Weight* order = nullptr;  // of act-order matrices: column i of what is seen is column order[i]
  };
  const core::Program& program_;
  std::vector<Sums> by_op_;
};

} // namespace ridge::convert
