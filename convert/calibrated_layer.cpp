#include "convert/calibrated_layer.h"

#include "convert/calibration.h"
#include "core/error.h"
#include "quant/feedback/awq.h"
#include "quant/feedback/gptq.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge::convert {

using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr int64_t kScaleSampleRows = 64;

class MeanSquares {
 public:
  explicit MeanSquares(int64_t cols) : sums_(static_cast<size_t>(cols)) {}
  void add(std::span<const float> rows) {
    const size_t cols = sums_.size();
    for (size_t i = 0; i < rows.size(); i += cols)
      for (size_t j = 0; j < cols; ++j) sums_[j] += static_cast<double>(rows[i + j]) * rows[i + j];
    count_ += static_cast<double>(rows.size() / cols);
  }
  std::vector<float> result() const {
    std::vector<float> mean;
    for (const double sum : sums_) mean.push_back(static_cast<float>(sum / count_));
    return mean;
  }

 private:
  std::vector<double> sums_;
  double count_ = 0;
};

} // namespace

CalibratedQuantizer::Layer::Layer(CalibratedQuantizer& owner, int32_t layer) : owner(owner), program(owner.program_) {
  std::erase_if(program.ops, [&](const core::Op& op) { return op.layer != layer; });
  std::vector<bool> written(program.values.size());
  ValueId& input = program.input = -1;
  for (const core::Op& op : program.ops) {
    for (const ValueId id : op.inputs) {
      if (written[id] || id == input) continue;
      if (input >= 0)
        throw_error("{}: layer {} reads more than the previous layer; use --method plain", owner.plan_.file->path(),
                    layer);
      input = id;
    }
    for (const ValueId id : op.outputs) written[id] = true;
  }
  if (layer == 0 && program.values[input].width != program.values[owner.program_.ops.at(0).outputs[0]].width)
    throw_error("{}: several residual streams are not supported yet; use --method plain", owner.plan_.file->path());
  output = program.ops.back().outputs.at(0);
  original = program;
  for (const core::Op& op : program.ops)
    for (const WeightId id : op.weights) {
      const core::Weight& weight = program.weights[id];
      const WeightSource* source = source_of(id);
      if (!source || !source->has_weights()) continue;
      if (weight.owned) {
        slices[id] = {.copied = true};
      } else {
        slices[id] = {(weight.data - source->packed(0, 1).data()) / weight.row_bytes,
                      weight.run_stride / weight.row_bytes};
      }
    }
  std::map<ValueId, size_t> group_of;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!is_matrix(program.ops[i])) continue;
    const auto [at, added] = group_of.try_emplace(program.ops[i].inputs[0], groups.size());
    if (added) groups.emplace_back();
    groups[at->second].ops.push_back(i);
  }
}

const WeightSource* CalibratedQuantizer::Layer::source_of(WeightId id) const {
  const auto found = std::ranges::find(owner.plan_.sources, program.weights[id].name, &WeightSource::name);
  return found == owner.plan_.sources.end() ? nullptr : &*found;
}

std::optional<quant::Type> CalibratedQuantizer::Layer::target_of(WeightId id) const {
  const WeightSource* source = source_of(id);
  if (!source) return std::nullopt;
  const gguf::TensorType type = owner.plan_.types[static_cast<size_t>(source - owner.plan_.sources.data())];
  if (type == source->type()) return std::nullopt;
  return type.format()->type;
}

const core::Op* CalibratedQuantizer::Layer::writer_of(ValueId id) const {
  for (const core::Op& op : program.ops)
    if (std::ranges::find(op.outputs, id) != op.outputs.end()) return &op;
  return nullptr;
}

LayerRun CalibratedQuantizer::Layer::run_to(size_t ops, ValueId result, bool observe,
                                            core::InputObserver* observer) const {
  core::Program part = program;
  part.ops.resize(ops);
  part.output = result;
  return LayerRun(std::move(part), owner.text_, owner.make_executor_, owner.threads_, observe, observer);
}

int64_t CalibratedQuantizer::Layer::tensor_row(WeightId id, int64_t row) const {
  const core::Weight& weight = program.weights[id];
  const Slice& slice = slices.at(id);
  return slice.first + row / weight.rows_per_run() * slice.stride + row % weight.rows_per_run();
}

void CalibratedQuantizer::Layer::scale_vector(WeightId id, std::span<const float> factors) {
  core::Weight& weight = program.weights[id];
  std::vector<float>& values = vectors[weight.name];
  values.resize(static_cast<size_t>(weight.cols));
  source_of(id)->decode(0, 1, values.data());
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
  weight.data = reinterpret_cast<const std::byte*>(values.data());
  const auto bytes = std::as_bytes(std::span(values));
  owner.ready_[weight.name] = {{bytes.begin(), bytes.end()}, {}};
}

// Includes the biases. The matrix may be part of a tensor.
void CalibratedQuantizer::Layer::scale_rows(const core::Op& op, std::span<const float> factors) {
  const WeightId matrix = op.weights[0];
  std::vector<float>& rows = scaling[program.weights[matrix].name].rows;
  if (rows.empty()) rows.resize(static_cast<size_t>(source_of(matrix)->rows()), 1.0f);
  for (size_t r = 0; r < factors.size(); ++r)
    rows[static_cast<size_t>(tensor_row(matrix, static_cast<int64_t>(r)))] = factors[r];
  if (op.weights.size() < 2) return;

  const WeightSource& source = *source_of(op.weights[1]);
  std::vector<float> whole(static_cast<size_t>(source.weights()));
  source.decode(0, 1, whole.data());
  for (size_t r = 0; r < factors.size(); ++r)
    whole[static_cast<size_t>(tensor_row(matrix, static_cast<int64_t>(r)))] *= factors[r];
  use_bias(op, whole);
  const auto bytes = std::as_bytes(std::span(whole));
  owner.ready_[std::string(source.name())] = {{bytes.begin(), bytes.end()}, {}};
}

void CalibratedQuantizer::Layer::use_bias(const core::Op& op, std::span<const float> whole) {
  core::Weight& bias = program.weights[op.weights[1]];
  std::vector<float>& part = vectors[bias.name + bias.part];
  part.clear();
  for (int64_t r = 0; r < program.weights[op.weights[0]].rows; ++r)
    part.push_back(whole[static_cast<size_t>(tensor_row(op.weights[0], r))]);
  bias.data = reinterpret_cast<const std::byte*>(part.data());
}

// Redirects all weights of a tensor. Reordered copies keep their values, so later matrices are fitted to the
// unquantized rows.
void CalibratedQuantizer::Layer::repoint(const std::string& tensor, quant::Type type, const std::byte* bytes) {
  for (const auto& [id, slice] : slices) {
    core::Weight& weight = program.weights[id];
    if (weight.name != tensor || slice.copied) continue;
    weight.type = static_cast<uint32_t>(type);
    weight.row_bytes = quant::format(type).row_bytes(weight.cols);
    weight.data = bytes + slice.first * weight.row_bytes;
    weight.run_stride = slice.stride * weight.row_bytes;
  }
}

// Finds input scales per group; the previous op (a norm or matrix rows) gets their inverse.
void CalibratedQuantizer::Layer::find_scales() {
  struct Candidate {
    const Group* group;
    WeightId vector = -1;           // norm to divide,
    const core::Op* rows = nullptr; // or matrix with rows to divide
    std::vector<int64_t> row_of;    // input column → row; empty: identity
  };
  std::vector<Candidate> candidates;
  for (const Group& group : groups) {
    const ValueId value = program.ops[group.ops[0]].inputs[0];
    const auto is_plain = [&](const core::Op& op) { // its matrix can be scaled
      return op.kind == OpKind::linear && target_of(op.weights[0]);
    };
    const auto can_scale_rows = [&](const core::Op& op) { return !slices.at(op.weights[0]).copied; };
    bool fits = std::ranges::all_of(program.ops, [&](const core::Op& op) {
      return std::ranges::find(op.inputs, value) == op.inputs.end() || is_plain(op);
    });
    const core::Op* writer = writer_of(value);
    Candidate candidate{&group};
    if (writer->kind == OpKind::rms_norm) {
      fits &= std::get<core::NormParams>(writer->params).group == program.values[value].width;
      candidate.vector = writer->weights[0];
    } else if (writer->kind == OpKind::glu) {
      candidate.rows = writer_of(writer->inputs[1]);
    } else if (writer->kind == OpKind::attention) {
      const core::AttentionParams& params = std::get<core::AttentionParams>(writer->params);
      const core::KvLayer& kv = program.kv_layers[params.layer];
      for (const core::Op& op : program.ops)
        if (op.kind == OpKind::kv_store) candidate.rows = writer_of(op.inputs[1]);
      for (int64_t j = 0; j < params.heads * kv.v_dim; ++j)
        candidate.row_of.push_back(j / kv.v_dim / (params.heads / kv.heads) * kv.v_dim + j % kv.v_dim);
    } else {
      continue;
    }
    if (candidate.vector < 0 && (!candidate.rows || !is_plain(*candidate.rows) || !can_scale_rows(*candidate.rows)))
      continue;
    if (!fits) continue;
    candidates.push_back(std::move(candidate));
  }

  std::vector<std::vector<float>> scales;
  for (const Candidate& candidate : candidates) {
    std::vector<quant::AwqMatrix> matrices;
    std::set<std::string_view> sampled;
    for (const size_t i : candidate.group->ops) {
      const WeightId id = program.ops[i].weights[0];
      if (!sampled.insert(program.weights[id].name).second) continue;
      const WeightSource& source = *source_of(id);
      const int64_t rows = std::min(kScaleSampleRows, source.rows()), cols = source.cols();
      quant::AwqMatrix& matrix = matrices.emplace_back(quant::AwqMatrix{*target_of(id), {}});
      matrix.weights.resize(static_cast<size_t>(rows * cols));
      for (int64_t r = 0; r < rows; ++r)
        source.decode((2 * r + 1) * source.rows() / (2 * rows), 1, matrix.weights.data() + r * cols);
    }
    const auto hessian = owner.make_hessian_(program.values[program.ops[candidate.group->ops[0]].inputs[0]].width);
    run_inputs(*candidate.group, [&](std::span<const float> rows) { hessian->add(rows); });
    scales.push_back(quant::search_scales(matrices, *hessian, candidate.row_of).scale);
  }
  for (size_t c = 0; c < candidates.size(); ++c) { // after the search, which uses the unscaled layer's inputs
    const Candidate& candidate = candidates[c];
    const std::vector<float>& scale = scales[c];
    if (scale.empty()) continue;
    for (const size_t i : candidate.group->ops) scaling[program.weights[program.ops[i].weights[0]].name].cols = scale;
    std::vector<float> inverse(scale.size());
    if (!candidate.row_of.empty())
      inverse.resize(static_cast<size_t>(program.values[candidate.rows->outputs[0]].width));
    for (size_t j = 0; j < scale.size(); ++j)
      inverse[candidate.row_of.empty() ? j : static_cast<size_t>(candidate.row_of[j])] = 1 / scale[j];
    if (candidate.vector >= 0) {
      scale_vector(candidate.vector, inverse);
    } else {
      scale_rows(*candidate.rows, inverse);
    }
  }
}

void CalibratedQuantizer::Layer::quantize() {
  for (const Group& group : groups) {
    const auto any = [&](OpKind kind) {
      return std::ranges::any_of(group.ops, [&](size_t i) {
        return program.ops[i].kind == kind && target_of(program.ops[i].weights[0]).has_value();
      });
    };
    gguf::Imatrix of_experts;
    std::optional<ExpertHessians> expert_hessians;
    const bool feeds = owner.method_.feedback || owner.method_.rounding;
    if (any(OpKind::expert_linear)) {
      const size_t last = group.ops.back();
      if (feeds) make_expert_hessians(group, expert_hessians);
      LayerRun run = run_to(last + 1, program.ops[last].outputs[0], true);
      run(owner.hidden_, [](int64_t, std::span<const float>) {});
      of_experts = run.inputs();
    }
    std::vector<float> mean_squares;
    std::unique_ptr<quant::Hessian> hessian;
    HeldBack originals;
    if (const int64_t cols = program.values[program.ops[group.ops[0]].inputs[0]].width; !any(OpKind::linear)) {
      // for a group of experts, of_experts has the importance
    } else if (feeds) {
      hessian = owner.make_hessian_(cols);
      run_inputs(group, [&](std::span<const float> rows) { hessian->add(rows); });
      mean_squares = hessian->mean_squares();
      if (owner.method_.follows_original()) originals = add_originals(group, *hessian);
    } else {
      MeanSquares squares(cols);
      run_inputs(group, [&](std::span<const float> rows) { squares.add(rows); });
      mean_squares = squares.result();
    }
    for (const size_t i : group.ops) {
      const WeightId id = program.ops[i].weights[0];
      const auto type = target_of(id);
      if (!type) continue;
      const std::string& name = program.weights[id].name;
      const WeightSource& source = *source_of(id);
      const bool linear = program.ops[i].kind == OpKind::linear;
      const bool fed =
          (linear ? hessian != nullptr : expert_hessians && has_matrices(id)) && quant::can_encode_with_feedback(*type);
      int64_t matrix = 0; // encode_tensor goes through them in order
      const EncodeRows encode_fed = [&](const Rows& rows, quant::Type t, std::span<const float>, std::byte* out) {
        const auto encode = [&](quant::Hessian& of, const float* weights, int64_t count, std::byte* to) {
          if (owner.method_.rounding)
            of.round(t, weights, count, to);
          else
            of.encode(t, weights, count, to);
        };
        if (linear && owner.method_.follows_original())
          return encode(*hessian, originals.targets(*hessian, rows).data(), rows.rows, out);
        if (linear) return encode(*hessian, rows.weights, rows.rows, out);
        const int64_t per_matrix = source.rows() / program.weights[id].count;
        for (int64_t r = 0; r < rows.rows; r += per_matrix)
          encode(expert_hessians->of(matrix++), rows.weights + r * rows.cols, per_matrix,
                 out + r * quant::format(t).row_bytes(rows.cols));
      };
      Prepared& made = owner.ready_[name];
      if (!made.bytes.empty()) continue; // done with another part of the tensor
      made.error = encode_tensor(
          source, *type, linear ? std::vector<std::vector<float>>(1, mean_squares) : importance_of(&of_experts, source),
          fed ? encode_fed : owner.encode_,
          [&](std::span<const std::byte> bytes) { made.bytes.insert(made.bytes.end(), bytes.begin(), bytes.end()); },
          true, scaling[name], nullptr, fed ? INT64_MAX : kChunkWeights);
      repoint(name, *type, made.bytes.data());
    }
  }
}

// Reuses a previous quantize() and find_scales().
void CalibratedQuantizer::Layer::take(PreparedTensors tensors) {
  const auto floats = [](const Prepared& made) {
    return std::span(reinterpret_cast<const float*>(made.bytes.data()), made.bytes.size() / sizeof(float));
  };
  owner.ready_ = std::move(tensors);
  for (const core::Op& op : program.ops)
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const WeightId id = op.weights[i];
      const auto found = owner.ready_.find(program.weights[id].name);
      if (found == owner.ready_.end()) continue;
      const Prepared& made = found->second;
      if (const auto type = target_of(id))
        repoint(found->first, *type, made.bytes.data());
      else if (op.kind == OpKind::linear)
        use_bias(op, floats(made));
      else
        program.weights[id].data = made.bytes.data();
    }
}

} // namespace ridge::convert
