// Runs groups of layers over a text with other tensor types. Callers keep outputs as inputs of the next layers:
// changing a tensor repeats only later layers, and only running layers use memory.
#pragma once

#include "convert/calibration.h"
#include "core/stages/split.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::convert {

struct MeasuredText {
  std::vector<std::vector<int32_t>> chunks; // token IDs of equal length, each from position 0
  std::vector<int32_t> scored;

  // About `scores` evenly spaced positions of the second halves, which have context.
  void score_second_halves(int64_t scores);

  int64_t chunk_tokens() const { return std::ssize(chunks.at(0)); }
  int64_t tokens() const { return std::ssize(chunks) * chunk_tokens(); }
  int64_t scores() const { return std::ssize(chunks) * std::ssize(scored); }
};

class LayerRun {
 public:
  // observe: for inputs(). observer: another one.
  LayerRun(core::Program layers, const MeasuredText& text, const core::MakeExecutor& make_executor, int threads,
           bool observe = false, core::InputObserver* observer = nullptr);
  LayerRun(const LayerRun&) = delete; // the executor refers to program_
  LayerRun& operator=(const LayerRun&) = delete;

  bool gives_logits() const { return program_.output < 0; }
  int64_t width() const { return program_.values[program_.result()].width; }
  // `input`: [tokens][width], empty for the first layers. each() gets all token rows, or the scored tokens' logits, per
  // chunk; `first` counts over all chunks.
  void operator()(std::span<const float> input,
                  const std::function<void(int64_t first, std::span<const float> rows)>& each);
  std::vector<float> rows(std::span<const float> input);
  // The rows of one chunk, valid until the next call. `input` as above.
  std::span<const float> chunk(size_t chunk, std::span<const float> input);
  gguf::Imatrix inputs() const { return collector_->result(); }

 private:
  const core::Program program_;
  const MeasuredText& text_;
  std::optional<ImatrixCollector> collector_;
  std::unique_ptr<core::Executor> executor_;
};

// Usually a layer per group; the first includes embeddings, the last the output matrix.
class LayerGroups {
 public:
  // Both must outlive this. Throws Error unless a text model.
  LayerGroups(const gguf::File& file, const MeasuredText& text, core::MakeExecutor make_executor, int threads);

  int count() const { return static_cast<int>(first_layers_.size()); }
  int64_t vocab() const { return vocab_; }
  // The only group that reads a tensor; nullopt: several or none.
  std::optional<int> only_reader(std::string_view tensor) const;
  bool is_read(std::string_view tensor) const;

  // [first, last]. `file`: the model or a variant with other types.
  std::unique_ptr<LayerRun> run(const gguf::File& file, int first, int last, bool observe = false) const;
  std::unique_ptr<LayerRun> run(int first, int last) const { return run(file_, first, last); }

 private:
  core::Program cut(core::Program whole, int first, int last) const;

  const gguf::File& file_;
  const MeasuredText& text_;
  const core::MakeExecutor make_executor_;
  const int threads_;
  int64_t vocab_ = 0;
  std::vector<int32_t> first_layers_;
  std::vector<std::vector<std::string>> tensors_;
};

} // namespace ridge::convert
