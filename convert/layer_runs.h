// A model on a text, some layers at a time, with some of its tensors in other types: for measuring what quantizing
// costs.
//
// What layers give is handed to their caller, and is the input of the next ones. So the layers behind a tensor can
// run again with another form of it while those before it do not, and only the layers that run have to be in memory.
#pragma once

#include "convert/calibration.h"
#include "core/split.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::convert {

// What a model reads while it is measured.
struct MeasuredText {
  std::vector<std::vector<int32_t>> chunks; // token ids, all chunks of one length; each is read from position 0
  std::vector<int32_t> scored;              // positions of a chunk whose logits count, ascending

  // About so many, evenly, among the second halves of the chunks: their tokens have some context.
  void score_second_halves(int64_t scores);

  int64_t chunk_tokens() const { return std::ssize(chunks.at(0)); }
  int64_t tokens() const { return std::ssize(chunks) * chunk_tokens(); }
  int64_t scores() const { return std::ssize(chunks) * std::ssize(scored); }
};

// Layers that run over all chunks of a text.
class LayerRun {
 public:
  // `observe`: see what goes into the matrices, for inputs().
  LayerRun(core::Program layers, const MeasuredText& text, const core::MakeExecutor& make_executor, int threads,
           bool observe = false);
  LayerRun(const LayerRun&) = delete; // the executor refers to program_
  LayerRun& operator=(const LayerRun&) = delete;

  bool gives_logits() const { return program_.output < 0; }
  int64_t width() const { return program_.values[program_.result()].width; }
  // `input`: the rows of all tokens that the layers before gave, [tokens][width]; empty for the first layers. each()
  // gets the result chunk after chunk: rows of all its tokens or, of logits, of those that are scored; the first one's
  // number is among all of them.
  void operator()(std::span<const float> input,
                  const std::function<void(int64_t first, std::span<const float> rows)>& each);
  std::vector<float> rows(std::span<const float> input);        // all of them
  gguf::Imatrix inputs() const { return collector_->result(); } // of the matrices, in all runs until now

 private:
  const core::Program program_;
  const MeasuredText& text_;
  std::optional<ImatrixCollector> collector_;
  std::unique_ptr<core::Executor> executor_;
};

// A model as groups of layers that can run by themselves. Mostly a group is one layer. The first one has the embeddings
// too, the last one the output matrix.
class LayerGroups {
 public:
  // Both must outlive this. Throws Error where the file is no model that writes text.
  LayerGroups(const gguf::File& file, const MeasuredText& text, core::MakeExecutor make_executor, int threads);

  int count() const { return static_cast<int>(first_layers_.size()); }
  int64_t vocab() const { return vocab_; }
  // The only group that reads a tensor; nothing where several do, or none.
  std::optional<int> only_reader(std::string_view tensor) const;
  bool is_read(std::string_view tensor) const; // by any

  // Groups first to last, one behind the other. `file`: the model, or the same with other forms of tensors.
  std::unique_ptr<LayerRun> run(const gguf::File& file, int first, int last, bool observe = false) const;
  std::unique_ptr<LayerRun> run(int first, int last) const { return run(file_, first, last); }

 private:
  core::Program cut(core::Program whole, int first, int last) const;

  const gguf::File& file_;
  const MeasuredText& text_;
  const core::MakeExecutor make_executor_;
  const int threads_;
  int64_t vocab_ = 0;
  std::vector<int32_t> first_layers_;             // of each group
  std::vector<std::vector<std::string>> tensors_; // of each group, sorted
};

} // namespace ridge::convert
