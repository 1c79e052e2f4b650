// A layer while it is quantized with a calibration text; of CalibratedQuantizer alone.
#pragma once

#include "convert/calibrated.h"

#include <optional>

namespace ridge::convert {

// One layer as a Program, and the decisions about its tensors.
struct CalibratedQuantizer::Layer {
  CalibratedQuantizer& owner;
  core::Program program; // the layer's ops
  core::ValueId output;
  std::map<std::string, Scaling> scaling;            // by tensor
  std::map<std::string, std::vector<float>> vectors; // norms and biases that scales went into, by tensor and part

  // Where a weight that has some rows of a tensor has them.
  struct Slice {
    int64_t first = 0, stride = 0; // of its runs, in rows
    bool copied = false;           // in another order, which its copy only knows
  };
  std::map<core::WeightId, Slice> slices;

  // Matrices that share an input: indices of their ops.
  struct Group {
    std::vector<size_t> ops;
  };
  std::vector<Group> groups;

  Layer(CalibratedQuantizer& owner, int32_t layer);
  const WeightSource* source_of(core::WeightId id) const;
  std::optional<quant::Type> target_of(core::WeightId id) const; // nullopt: it keeps its type
  const core::Op* writer_of(core::ValueId id) const;

  // The first `ops` ops, to the rows of `result`.
  LayerRun run_to(size_t ops, core::ValueId result, bool observe = false) const;
  // The inputs of a group's matrices.
  void run_inputs(const Group& group, const std::function<void(std::span<const float> rows)>& each);
  void find_scales();
  int64_t tensor_row(core::WeightId id, int64_t row) const;
  void scale_vector(core::WeightId id, std::span<const float> factors);
  void scale_rows(const core::Op& op, std::span<const float> factors);
  void use_bias(const core::Op& op, std::span<const float> whole);
  void repoint(const std::string& tensor, quant::Type type, const std::byte* bytes);
  void quantize();
  void take(PreparedTensors tensors);
};

} // namespace ridge::convert
