// Measures how quantization changes a model's output.
//
// Sensitivity of a tensor: encode only this tensor in a coarse type, run the layers from it on over a text, and divide
// the divergence of the logits by the tensor's loss (convert/type_search.h). Divergence and loss both grow with the
// square of small errors, and errors of different tensors are nearly independent, so the divergence of a mix is about Σ
// sensitivity · loss.
#pragma once

#include "convert/layer_runs.h"
#include "convert/requantize.h"
#include "measure/divergence.h"

#include <functional>
#include <optional>
#include <vector>

namespace ridge::convert {

// With typical errors of this size: two around it, or only the smaller.
std::vector<quant::Type> probe_types(double bits_per_weight, bool two);

// Kullback-Leibler divergence from the original model, nats per token, mean over scored tokens.
class DivergenceMeter {
 public:
  // Runs the original model. The file must outlive this. Throws Error unless a text model. Memory: scored logits and,
  // twice, all token rows.
  DivergenceMeter(const gguf::File& file, MeasuredText text, core::MakeExecutor make_executor, int threads);
  DivergenceMeter(const DivergenceMeter&) = delete; // groups_ refers to text_
  DivergenceMeter& operator=(const DivergenceMeter&) = delete;

  using OnProgress = std::function<void(int64_t done, int64_t total)>;   // exceptions propagate
  using GivePrepared = std::function<const Prepared*(std::string_view)>; // see write(), in the probe's or plan's type
  // Divergence per loss of plain encoding. By source; nullopt: not wanted or not read by a layer. Runs all layers from
  // each tensor's on.
  std::vector<std::optional<double>> sensitivities(const Requantization& plan, const std::vector<bool>& wanted,
                                                   quant::Type probe, const gguf::Imatrix* imatrix,
                                                   const EncodeRows& encode, const GivePrepared& prepared,
                                                   const OnProgress& progress) const;

  // Keeps one layer in memory.
  measure::Estimate of(const Requantization& plan, const gguf::Imatrix* imatrix, const EncodeRows& encode,
                       const GivePrepared& prepared, const OnProgress& progress) const;

  const MeasuredText& text() const { return text_; }
  const gguf::Imatrix& inputs() const { return inputs_; }

 private:
  std::vector<double> compare(LayerRun& last_layers, std::span<const float> input) const;

  const gguf::File& file_;
  const MeasuredText text_;
  const LayerGroups groups_;
  gguf::Imatrix inputs_;
  std::vector<float> logits_; // [scores][vocab], original
};

} // namespace ridge::convert
