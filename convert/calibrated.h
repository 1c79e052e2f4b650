// Quantizing with a calibration text, layer by layer: AWQ scales and GPTQ's error feedback, into ordinary types.
//
// A layer runs as a Program of its own, whose input is what the layer before it gave for all calibration tokens. To see
// what goes into a matrix, its ops are run up to there. Its matrices are quantized in the order in which they are used,
// each group of matrices with one input after that input has been computed from the matrices quantized before it; then
// the whole layer runs as quantized, and its output is the next layer's input. So every matrix sees the errors of those
// before it.
//
// What stays as with the plain method: the embedding and output matrices; matrices of experts, which get importance
// from this text but neither scales nor feedback; types without a code of their own for each weight (quant/gptq.h),
// likewise.
#pragma once

#include "convert/requantize.h"
#include "core/executor.h"
#include "core/program.h"
#include "quant/hessian.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::convert {

struct CalibrationMethod {
  bool scales = false;   // AWQ
  bool feedback = false; // GPTQ
};

using MakeExecutor =
    std::function<std::unique_ptr<core::Executor>(const core::Program& program, const core::ExecutorConfig& config)>;

std::unique_ptr<quant::Hessian> make_cpu_hessian(int64_t cols);

class CalibratedQuantizer {
 public:
  // chunks: token ids; all of them the same length. plan and program (of plan.file) must outlive this.
  CalibratedQuantizer(const Requantization& plan, const core::Program& program, CalibrationMethod method,
                      const std::vector<std::vector<int32_t>>& chunks, MakeExecutor make_executor, int threads,
                      quant::MakeHessian make_hessian = make_cpu_hessian, EncodeRows encode = encode_on_cpu);
  ~CalibratedQuantizer();

  // The bytes of a tensor that the calibration decides about, nullptr for others. Quantizes the layers up to its own;
  // what was returned before may be gone. Memory: a Hessian, a matrix in f32 twice, the packed matrices of one layer,
  // and the hidden rows of all calibration tokens.
  const Prepared* tensor(std::string_view name);

 private:
  struct Layer;
  void quantize_layer(int32_t layer);

  const Requantization& plan_;
  const core::Program& program_;
  const CalibrationMethod method_;
  const MakeExecutor make_executor_;
  const quant::MakeHessian make_hessian_;
  const EncodeRows encode_; // of what gets no feedback
  const int threads_;
  int64_t chunk_tokens_, chunks_;
  int32_t layers_ = 0, next_layer_ = 0;
  std::vector<float> hidden_; // [chunks * chunk_tokens][width]: what goes into next_layer_
  std::map<std::string, Prepared, std::less<>> ready_;
  std::string given_; // the tensor that was asked for last
};

} // namespace ridge::convert
