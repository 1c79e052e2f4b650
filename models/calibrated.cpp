#include "models/calibrated.h"

#include "core/error.h"
#include "models/calibration.h"
#include "quant/awq.h"
#include "quant/gptq.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr double kDamping = 0.01;        // of the Hessian's mean diagonal, as is usual
constexpr int64_t kScaleSampleRows = 64; // of each matrix, for the search of scales

bool is_matrix(const core::Op& op) { return op.kind == OpKind::linear || op.kind == OpKind::expert_linear; }

// Hessians of chosen inputs, and importance of all.
class LayerObserver final : public core::InputObserver {
 public:
  explicit LayerObserver(const core::Program& program) : program_(program), sums_(program, false) {}

  // Before the executor is made: the input of ops[index] is wanted whole.
  void want(size_t index) {
    const int64_t cols = program_.weights[program_.ops[index].weights[0]].cols;
    inputs_.push_back({index, {}, quant::Hessian(cols)});
  }
  void observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) override {
    sums_.observe(op, matrix, rows);
    for (Input& input : inputs_)
      if (&op == &program_.ops[input.op]) {
        const int64_t cols = input.hessian.cols();
        input.rows.resize(rows.size() * static_cast<size_t>(cols));
        for (size_t i = 0; i < rows.size(); ++i)
          std::copy_n(rows[i], cols, input.rows.begin() + static_cast<int64_t>(i) * cols);
      }
  }
  void after_forward() {
    for (Input& input : inputs_) input.hessian.add(input.rows);
  }
  const quant::Hessian& hessian(size_t i) const { return inputs_[i].hessian; } // in the order of want()
  gguf::Imatrix importance() const { return sums_.result(); }

 private:
  struct Input {
    size_t op;
    std::vector<float> rows; // of the forward() under way
    quant::Hessian hessian;
  };
  const core::Program& program_;
  ImatrixCollector sums_;
  std::vector<Input> inputs_;
};

} // namespace

// One layer as a Program, and what is decided about its tensors.
struct CalibratedQuantizer::Layer {
  CalibratedQuantizer& owner;
  core::Program program; // embed of the hidden rows, then the layer's ops
  ValueId input, output;
  WeightId table;
  std::map<WeightId, Scaling> scaling;
  std::map<WeightId, std::vector<float>> vectors; // norms and biases that scales went into

  // Matrices with one input: indices of their ops.
  struct Group {
    std::vector<size_t> ops;
  };
  std::vector<Group> groups;

  Layer(CalibratedQuantizer& owner, int32_t layer);
  const WeightSource* source_of(WeightId id) const;
  std::optional<quant::Type> target_of(WeightId id) const; // nothing: it stays as it is
  const core::Op* writer_of(ValueId id) const;

  // Runs all calibration tokens through the first `ops` ops. `advance`: the result replaces owner.hidden_.
  void run(size_t ops, LayerObserver* observer, core::Program& part, bool advance);
  void find_scales();
  void scale_vector(WeightId id, std::span<const float> factors);
  void quantize();
};

CalibratedQuantizer::Layer::Layer(CalibratedQuantizer& owner, int32_t layer) : owner(owner), program(owner.program_) {
  std::erase_if(program.ops, [&](const core::Op& op) { return op.layer != layer; });
  std::vector<bool> written(program.values.size());
  input = -1;
  for (const core::Op& op : program.ops) {
    for (const ValueId id : op.inputs) {
      if (written[id] || id == input) continue;
      if (input >= 0)
        throw_error("{}: layer {} reads more than the layer before it; --method plain works", owner.plan_.file->path(),
                    layer);
      input = id;
    }
    for (const ValueId id : op.outputs) written[id] = true;
  }
  output = program.ops.back().outputs.at(0);
  const int64_t width = program.values[input].width;
  program.vocab = width; // logits of this Program are rows of the hidden width, and its tokens are rows of the table
  table = static_cast<WeightId>(program.weights.size());
  program.weights.push_back({"hidden rows", static_cast<uint32_t>(quant::Type::F32), width, width, 1,
                             width * static_cast<int64_t>(sizeof(float)), nullptr});
  program.ops.insert(program.ops.begin(), {OpKind::embed, layer, "hidden rows", {}, {input}, {table}, {}});

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

void CalibratedQuantizer::Layer::run(size_t ops, LayerObserver* observer, core::Program& part, bool advance) {
  const int64_t width = part.vocab, batch = std::min(owner.chunk_tokens_, width);
  core::ExecutorConfig config;
  config.context = owner.chunk_tokens_;
  config.max_batch = config.max_outputs = batch;
  config.threads = owner.threads_;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  config.observer = observer;
  // Something must be gathered: the result, or, where only inputs are observed, what is at hand.
  const ValueId result = ops == part.ops.size() ? output : input;
  part.ops.resize(ops);
  part.logits = result;
  if (!part.values[result].gathered) {
    part.values.push_back({"result", width, core::ValueKind::f32, true});
    part.logits = static_cast<ValueId>(part.values.size() - 1);
    part.ops.push_back({OpKind::gather, -1, "result", {result}, {part.logits}, {}, {}});
  }
  const auto executor = owner.make_executor_(part, config);
  std::vector<int32_t> tokens(static_cast<size_t>(batch)), positions(tokens.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int64_t chunk = 0; chunk < owner.chunks_; ++chunk)
    for (int64_t at = 0; at < owner.chunk_tokens_; at += batch) {
      const int64_t count = std::min(batch, owner.chunk_tokens_ - at);
      float* rows = owner.hidden_.data() + (chunk * owner.chunk_tokens_ + at) * width;
      part.weights[table].data = reinterpret_cast<const std::byte*>(rows);
      const auto some = std::span(tokens).first(static_cast<size_t>(count));
      positions.resize(some.size());
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(at));
      executor->forward({some, positions, {}, some});
      if (observer) observer->after_forward();
      for (int64_t i = 0; advance && i < count; ++i) std::ranges::copy(executor->logits(i), rows + i * width);
    }
}

void CalibratedQuantizer::Layer::scale_vector(WeightId id, std::span<const float> factors) {
  core::Weight& weight = program.weights[id];
  std::vector<float>& values = vectors[id];
  values.resize(static_cast<size_t>(weight.cols));
  source_of(id)->decode(0, 1, values.data());
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
  weight.data = reinterpret_cast<const std::byte*>(values.data());
  const auto bytes = std::as_bytes(std::span(values));
  owner.ready_[weight.name] = {{bytes.begin(), bytes.end()}, {}};
}

// Scales for the inputs of each group that something before it can take up: a norm, or the rows of one matrix. All from
// the layer as it was; scales that are not yet in quantized matrices change nothing.
void CalibratedQuantizer::Layer::find_scales() {
  struct Candidate {
    const Group* group;
    WeightId vector = -1;           // norm to divide, or
    const core::Op* rows = nullptr; // matrix whose rows are divided
    std::vector<int64_t> row_of;    // input column → row of that matrix; empty: the same
  };
  std::vector<Candidate> candidates;
  core::Program part = program;
  LayerObserver observer(part);
  for (const Group& group : groups) {
    const ValueId value = program.ops[group.ops[0]].inputs[0];
    const auto is_plain = [&](const core::Op& op) { // its matrix can take the scales up
      return op.kind == OpKind::linear && target_of(op.weights[0]);
    };
    bool fits = std::ranges::all_of(program.ops, [&](const core::Op& op) {
      return std::ranges::find(op.inputs, value) == op.inputs.end() || is_plain(op);
    });
    const core::Op* writer = writer_of(value);
    Candidate candidate{&group};
    if (writer->kind == OpKind::rms_norm) {
      fits &= std::get<core::NormParams>(writer->params).group == program.values[value].width;
      candidate.vector = writer->weights[0];
    } else if (writer->kind == OpKind::swiglu) {
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
    if (!fits || (candidate.rows && !is_plain(*candidate.rows))) continue;
    observer.want(group.ops[0]);
    candidates.push_back(std::move(candidate));
  }
  if (candidates.empty()) return;
  run(part.ops.size(), &observer, part, false);

  for (size_t c = 0; c < candidates.size(); ++c) {
    const Candidate& candidate = candidates[c];
    std::vector<quant::AwqMatrix> matrices;
    for (const size_t i : candidate.group->ops) {
      const WeightId id = program.ops[i].weights[0];
      const WeightSource& source = *source_of(id);
      const int64_t rows = std::min(kScaleSampleRows, source.rows()), cols = source.cols();
      quant::AwqMatrix& matrix = matrices.emplace_back(quant::AwqMatrix{*target_of(id), {}});
      matrix.weights.resize(static_cast<size_t>(rows * cols));
      for (int64_t r = 0; r < rows; ++r)
        source.decode((2 * r + 1) * source.rows() / (2 * rows), 1, matrix.weights.data() + r * cols);
    }
    const quant::AwqScales found = quant::search_scales(matrices, observer.hessian(c), candidate.row_of);
    if (found.scale.empty()) continue;
    for (const size_t i : candidate.group->ops) scaling[program.ops[i].weights[0]].cols = found.scale;
    std::vector<float> inverse(found.scale.size());
    if (!candidate.row_of.empty())
      inverse.resize(static_cast<size_t>(program.values[candidate.rows->outputs[0]].width));
    for (size_t j = 0; j < found.scale.size(); ++j)
      inverse[candidate.row_of.empty() ? j : static_cast<size_t>(candidate.row_of[j])] = 1 / found.scale[j];
    if (candidate.vector >= 0) {
      scale_vector(candidate.vector, inverse);
    } else {
      scaling[candidate.rows->weights[0]].rows = inverse;
      if (candidate.rows->weights.size() > 1) scale_vector(candidate.rows->weights[1], inverse);
    }
  }
}

void CalibratedQuantizer::Layer::quantize() {
  for (const Group& group : groups) {
    const core::Op& first = program.ops[group.ops[0]];
    const bool any =
        std::ranges::any_of(group.ops, [&](size_t i) { return target_of(program.ops[i].weights[0]).has_value(); });
    if (!any) continue;
    core::Program part = program;
    LayerObserver observer(part);
    const bool feedback = owner.method_.feedback && first.kind == OpKind::linear;
    if (feedback) observer.want(group.ops[0]);
    run(group.ops.back() + 1, &observer, part, false);
    const gguf::Imatrix importance = observer.importance();
    std::optional<quant::Hessian::Factor> factor;
    for (const size_t i : group.ops) {
      const WeightId id = program.ops[i].weights[0];
      const auto type = target_of(id);
      if (!type) continue;
      core::Weight& weight = program.weights[id];
      const bool fed = feedback && program.ops[i].kind == OpKind::linear && quant::can_encode_with_feedback(*type);
      if (fed && !factor) factor = observer.hessian(0).factor(kDamping);
      const EncodeRows encode_fed = [&](const Rows& rows, quant::Type t, std::span<const float>, std::byte* out) {
        quant::encode_with_feedback(t, rows.weights, rows.rows, rows.cols, *factor, out);
      };
      Prepared& made = owner.ready_[weight.name];
      made.error = encode_tensor(
          *source_of(id), *type, importance_of(&importance, *source_of(id)), fed ? encode_fed : encode_on_cpu,
          [&](std::span<const std::byte> bytes) { made.bytes.insert(made.bytes.end(), bytes.begin(), bytes.end()); },
          scaling[id]);
      weight.type = static_cast<uint32_t>(*type);
      weight.row_bytes = quant::format(*type).row_bytes(weight.cols);
      weight.data = made.bytes.data();
    }
  }
}

CalibratedQuantizer::CalibratedQuantizer(const Requantization& plan, const core::Program& program,
                                         CalibrationMethod method, const std::vector<std::vector<int32_t>>& chunks,
                                         MakeExecutor make_executor, int threads)
    : plan_(plan), program_(program), method_(method), make_executor_(std::move(make_executor)), threads_(threads),
      chunk_tokens_(std::ssize(chunks.at(0))), chunks_(std::ssize(chunks)) {
  for (const core::Op& op : program.ops) layers_ = std::max(layers_, op.layer + 1);
  // The embeddings as they will be in the file.
  const core::Weight& table = program.weights[program.ops.at(0).weights[0]];
  const auto source = std::ranges::find(plan.sources, table.name, &WeightSource::name);
  const quant::FormatInfo& target = *plan.types[static_cast<size_t>(source - plan.sources.begin())].format();
  const int64_t width = table.cols;
  hidden_.resize(static_cast<size_t>(chunks_ * chunk_tokens_ * width));
  std::vector<std::byte> packed(static_cast<size_t>(target.row_bytes(width)));
  float* row = hidden_.data();
  for (const auto& chunk : chunks)
    for (const int32_t token : chunk) {
      source->decode(token, 1, row);
      if (target.packed && source->type() != target.type) {
        quant::encode_rows(target.type, row, 1, width, {}, packed.data());
        target.decode(packed.data(), width, row);
      }
      row += width;
    }
}

CalibratedQuantizer::~CalibratedQuantizer() = default;

void CalibratedQuantizer::quantize_layer(int32_t index) {
  Layer layer(*this, index);
  if (method_.scales) layer.find_scales();
  layer.quantize();
  if (index + 1 < layers_) {
    core::Program whole = layer.program;
    layer.run(whole.ops.size(), nullptr, whole, true);
  }
}

const Prepared* CalibratedQuantizer::tensor(std::string_view name) {
  ready_.erase(given_);
  given_ = name;
  int32_t layer = -1;
  for (const core::Op& op : program_.ops)
    for (const WeightId id : op.weights)
      if (program_.weights[id].name == name && op.layer >= 0) layer = op.layer;
  while (next_layer_ <= layer) quantize_layer(next_layer_++);
  const auto found = ready_.find(name);
  return found == ready_.end() ? nullptr : &found->second;
}

} // namespace ridge::models
