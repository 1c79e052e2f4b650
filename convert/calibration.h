// Runs a text through a model to see the inputs of its matrices: importance matrices, and chunks for other
// calibrations.
#pragma once

#include "core/split.h"
#include "gguf/imatrix.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ridge::convert {

// The text's tokens in chunks of `chunk_tokens`. Each begins with BOS if the model wants one. Tokens after the last
// whole chunk are dropped. Throws Error if the text is shorter than a chunk.
std::vector<std::vector<int32_t>> calibration_chunks(const text::Tokenizer& tokenizer, std::string_view text,
                                                     bool parse_special, int64_t chunk_tokens, int64_t max_chunks);

// A text that the model writes itself, chosen token by token as likely as it finds it: chunks of one length. For models
// that there is no text for.
std::vector<std::vector<int32_t>> own_text(const gguf::File& file, const core::Program& program,
                                           const core::MakeExecutor& make_executor, int threads);

// Runs a whole chunk from position 0. Calls `logits(position, row)`, if given, for every position in order.
void run_chunk(core::Executor& executor, std::span<const int32_t> tokens,
               const std::function<void(int64_t, std::span<const float>)>& logits = {});

// Sums the squares of each matrix's inputs. It is an observer for the executor's configuration.
class ImatrixCollector final : public core::InputObserver {
 public:
  // `output`: observe the output matrix, too. `program` is the executor's and must outlive this.
  ImatrixCollector(const core::Program& program, bool output);

  void observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) override;
  gguf::Imatrix result() const; // only its entries

 private:
  struct Sums {
    const core::Weight* weight = nullptr; // nullptr: not collected
    std::vector<double> squares;          // [matrices][cols]
    std::vector<double> counts;           // [matrices]
    const core::Weight* order = nullptr;  // of act-order matrices: column i of the input is column order[i]
  };
  const core::Program& program_;
  std::vector<Sums> by_op_;
};

} // namespace ridge::convert
