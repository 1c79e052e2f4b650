// Calibrated quantization by layer: AWQ scales, GPTQ error feedback and rounding by descent, for ordinary types.
//
// Each layer is a Program. Its input is the quantized previous layer's output for all calibration tokens. Matrices with
// a common input form a group. Groups are quantized in order of use, each after a run up to its input through the
// already quantized matrices, so later matrices compensate earlier errors.
//
// Experts count the rows that reach them (convert/expert_hessians.h). Embedding and output matrices and types without a
// code per weight (quant/feedback/gptq.h) use the plain method, the latter with importance from the text.
#pragma once

#include "convert/layer_runs.h"
#include "convert/requantize.h"
#include "core/executor.h"
#include "core/stages/split.h"
#include "quant/feedback/hessian.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::convert {

using PreparedTensors = std::map<std::string, Prepared, std::less<>>;

// A journal of encoded layers, then of states of tuning, beside the output, so that a killed calibrated quantization
// can resume. Records have checksums; everything after the last valid record is dropped.
class LayerJournal {
 public:
  // Reuses a journal with an equal `request`, a hash of everything that affects the tensors; else replaces it. Throws
  // Error if not writable.
  LayerJournal(std::string path, uint64_t request);

  const std::string& path() const { return path_; }
  int32_t records() const { return static_cast<int32_t>(records_.size()); }
  // Throws Error if unreadable.
  PreparedTensors read(int32_t number);
  // False on failure (disk full); earlier records stay readable.
  bool append(const PreparedTensors& tensors);
  void remove();

 private:
  struct Record {
    int64_t at, bytes;
  };
  bool find_records(uint64_t request);

  std::string path_;
  std::fstream file_;
  std::vector<Record> records_;
  int64_t end_ = 0;
};

struct CalibrationMethod {
  bool scales = false;
  bool feedback = false;
  bool rounding = false; // after feedback or importance, whichever is better (quant/feedback/rounding.h)
  bool alone = false;    // tensors make up for no errors of others

  // Outputs are fitted to those of the unquantized model instead of those for the quantized layers' inputs.
  bool follows_original() const { return rounding && !scales && !alone; }
};

std::unique_ptr<quant::Hessian> make_cpu_hessian(int64_t cols);

class CalibratedQuantizer {
 public:
  // chunks: token IDs of equal length. plan and program (of plan.file) must outlive this.
  CalibratedQuantizer(const Requantization& plan, const core::Program& program, CalibrationMethod method,
                      const std::vector<std::vector<int32_t>>& chunks, core::MakeExecutor make_executor, int threads,
                      quant::MakeHessian make_hessian = make_cpu_hessian, EncodeRows encode = encode_on_cpu);
  ~CalibratedQuantizer();

  // Call before the first tensor(). Reuses the journal's layers and appends new ones. `note` reports an unwritable
  // journal; work continues without it.
  void use_journal(LayerJournal& journal, std::function<void(const std::string& line)> note);

  // Call before the first tensor(). After the last layer, the whole model tunes what its tensors store in floats
  // (convert/tuning/tuning.h), if it is small and dense; all tensors then stay in memory. The last of the texts
  // measure it: best such that rounding has not seen. `note` tells what came of it.
  void use_tuning(std::vector<std::vector<int32_t>> texts, std::function<void(int64_t done, int64_t total)> progress,
                  std::function<void(const std::string& line)> note);

  // Valid until the next call; nullptr if not quantized here. Quantizes all layers up to the tensor's. Memory: a
  // Hessian, a matrix twice in f32, a layer's packed matrices, hidden rows of all tokens.
  const Prepared* tensor(std::string_view name);

 private:
  struct Layer;
  void quantize_layer(int32_t layer);
  void make_tensors(Layer& layer, int32_t index);
  void store(const PreparedTensors& tensors);
  std::vector<float> embed(bool quantized) const;
  std::string obstacle_to_tuning() const;
  void tune_tensors();

  const Requantization& plan_;
  const core::Program& program_;
  const CalibrationMethod method_;
  const core::MakeExecutor make_executor_;
  const quant::MakeHessian make_hessian_;
  const EncodeRows encode_;
  const int threads_;
  const MeasuredText text_;
  int32_t layers_ = 0, next_layer_ = 0;
  std::vector<float> hidden_;   // [calibration tokens][width]: input of next_layer_
  std::vector<float> original_; // the unquantized model's, if it is followed
  PreparedTensors ready_;
  LayerJournal* journal_ = nullptr;
  std::function<void(const std::string& line)> note_;
  std::string given_;
  std::vector<std::vector<int32_t>> tuning_texts_;
  std::function<void(int64_t done, int64_t total)> tuning_progress_;
  bool tunes_ = false;
};

} // namespace ridge::convert
