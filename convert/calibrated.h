// Quantizing with a calibration text, layer by layer: AWQ scales and GPTQ's error feedback, into ordinary types.
//
// A layer runs as a Program of its own. Its input is the output of the layer before it, for all calibration tokens. The
// matrices of a layer are quantized in the order in which they are used. Matrices that share an input are a group: the
// layer's ops run up to that input, through the matrices that are already quantized, and then the group is quantized.
// At the end the whole quantized layer runs, and its output is the next layer's input. So every matrix is fitted to the
// errors of the matrices before it.
//
// Three kinds are quantized as by the plain method: the embedding and output matrices; matrices of experts; and types
// that have no code of their own for each weight (quant/gptq.h). The latter two get importance from this text, but
// neither scales nor feedback.
#pragma once

#include "convert/layer_journal.h"
#include "convert/layer_runs.h"
#include "convert/requantize.h"
#include "core/executor.h"
#include "core/split.h"
#include "quant/hessian.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::convert {

struct CalibrationMethod {
  bool scales = false;   // AWQ
  bool feedback = false; // GPTQ
};

std::unique_ptr<quant::Hessian> make_cpu_hessian(int64_t cols);

class CalibratedQuantizer {
 public:
  // chunks: token ids, all of one length. plan and program (of plan.file) must outlive this.
  CalibratedQuantizer(const Requantization& plan, const core::Program& program, CalibrationMethod method,
                      const std::vector<std::vector<int32_t>>& chunks, core::MakeExecutor make_executor, int threads,
                      quant::MakeHessian make_hessian = make_cpu_hessian, EncodeRows encode = encode_on_cpu);
  ~CalibratedQuantizer();

  // Before the first tensor: layers that the journal has are taken from it, and those that it has not are added.
  // `note` hears of a journal that cannot be written to any more; the work goes on without it.
  void keep_in(LayerJournal& journal, std::function<void(const std::string& line)> note);

  // The bytes of a tensor that is quantized here; nullptr for others. Quantizes all layers up to the tensor's own. The
  // pointer is valid until the next call. Memory: a Hessian, a matrix in f32 twice, the packed matrices of one layer,
  // and the hidden rows of all calibration tokens.
  const Prepared* tensor(std::string_view name);

 private:
  struct Layer;
  void quantize_layer(int32_t layer);
  void make_tensors(Layer& layer, int32_t index);

  const Requantization& plan_;
  const core::Program& program_;
  const CalibrationMethod method_;
  const core::MakeExecutor make_executor_;
  const quant::MakeHessian make_hessian_;
  const EncodeRows encode_; // of matrices without feedback
  const int threads_;
  const MeasuredText text_; // no scores are wanted
  int32_t layers_ = 0, next_layer_ = 0;
  std::vector<float> hidden_; // [tokens of the text][width]: the input of next_layer_
  PreparedTensors ready_;
  LayerJournal* journal_ = nullptr;
  std::function<void(const std::string& line)> note_;
  std::string given_; // the tensor that was asked for last
};

} // namespace ridge::convert
