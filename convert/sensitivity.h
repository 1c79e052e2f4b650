// How much quantizing changes what a model says, measured on this model.
//
// Sensitivities: one tensor after the other is encoded in a coarse type, and the layers from it on run over a text. How
// far the logits then are from those of the model as it is, per loss of the tensor (convert/type_search.h), is its
// sensitivity. The divergence grows with the square of small errors, as the loss does, and errors of different tensors
// hardly know of each other. So the divergence of a mix of types is about the sum of sensitivity times loss.
#pragma once

#include "convert/layer_runs.h"
#include "convert/requantize.h"
#include "measure/divergence.h"

#include <functional>
#include <optional>
#include <vector>

namespace ridge::convert {

// A coarse type, whose errors are of the size that so many bits per weight leave.
quant::Type probe_type(double bits_per_weight);

// Divergences are Kullback-Leibler's, of the quantized model's logits from those of the model as it is, in nats per
// token, means over the scored tokens.
class DivergenceMeter {
 public:
  // Runs the model as it is. The file must outlive this. Throws Error for what is no model that writes text. Memory:
  // the scored tokens' logits, and the rows of all tokens twice.
  DivergenceMeter(const gguf::File& file, MeasuredText text, core::MakeExecutor make_executor, int threads);
  DivergenceMeter(const DivergenceMeter&) = delete; // groups_ refers to text_
  DivergenceMeter& operator=(const DivergenceMeter&) = delete;

  using OnProgress = std::function<void(int64_t done, int64_t total)>; // what it throws comes out
  // The sensitivity of each source of the plan; nothing for those that are not wanted or that no layer reads. Every
  // tensor takes a run of all layers from its own on.
  std::vector<std::optional<double>> sensitivities(const Requantization& plan, const std::vector<bool>& wanted,
                                                   quant::Type probe, const gguf::Imatrix* imatrix,
                                                   const EncodeRows& encode, const OnProgress& progress) const;

  // The divergence of the model in the plan's types. `prepared`: as in write(). Encodes layer by layer and keeps none.
  measure::Estimate of(const Requantization& plan, const gguf::Imatrix* imatrix, const EncodeRows& encode,
                       const std::function<const Prepared*(std::string_view)>& prepared,
                       const OnProgress& progress) const;

  const MeasuredText& text() const { return text_; }
  const gguf::Imatrix& inputs() const { return inputs_; } // of all matrices

 private:
  std::vector<double> compare(LayerRun& last_layers, std::span<const float> input) const; // a number per score

  const gguf::File& file_;
  const MeasuredText text_;
  const LayerGroups groups_;
  gguf::Imatrix inputs_;
  std::vector<float> logits_; // [scores][vocab], of the model as it is
};

} // namespace ridge::convert
