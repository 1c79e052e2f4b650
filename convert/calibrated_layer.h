// One layer during calibrated quantization; private to CalibratedQuantizer.
#pragma once

#include "convert/calibrated.h"
#include "convert/expert_hessians.h"

#include <optional>

namespace ridge::convert {

inline bool is_matrix(const core::Op& op) {
  return op.kind == core::OpKind::linear || op.kind == core::OpKind::expert_linear;
}

struct CalibratedQuantizer::Layer {
  CalibratedQuantizer& owner;
  core::Program program, original; // being quantized, and as it was
  core::ValueId output;
  std::map<std::string, Scaling> scaling;
  std::map<std::string, std::vector<float>> vectors; // scaled norms and biases, by tensor and part

  // A weight's place in its tensor.
  struct Slice {
    int64_t first = 0, stride = 0;
    bool copied = false; // reordered: only the copy knows the rows
  };
  std::map<core::WeightId, Slice> slices;

  // Ops with a common input.
  struct Group {
    std::vector<size_t> ops;
    std::vector<float> token_factors; // of the inputs, see weigh_tokens(); empty: ones

    // Multiplies rows of the tokens from `first` on by their factors.
    void weigh(std::span<float> rows, int64_t first, int64_t width) const;
  };
  std::vector<Group> groups;

  Layer(CalibratedQuantizer& owner, int32_t layer);
  const WeightSource* source_of(core::WeightId id) const;
  std::optional<quant::Type> target_of(core::WeightId id) const; // nullopt: keeps its type
  const core::Op* writer_of(core::ValueId id) const;

  LayerRun run_to(size_t ops, core::ValueId result, bool observe = false,
                  core::InputObserver* observer = nullptr) const;
  struct Values;
  void weigh_tokens();
  void run_inputs(const Group& group, const std::function<void(std::span<const float> rows)>& each);
  std::optional<core::ValueId> joined_stream(const Group& group) const;
  // Rows from which Hessian::add_originals() learns nothing: they tell how far its targets hold for other text.
  struct HeldBack {
    std::vector<float> inputs, change, ahead; // [tokens][cols], twice, and [tokens][rows] or empty

    std::vector<float> targets(quant::Hessian& hessian, const Rows& rows) const;
  };
  HeldBack add_originals(const Group& group, quant::Hessian& hessian) const;
  bool has_matrices(core::WeightId experts) const;
  void make_expert_hessians(const Group& group, std::optional<ExpertHessians>& made) const;
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
