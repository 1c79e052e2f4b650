#include "convert/tuning/network.h"

#include "convert/tuning/products.h"
#include "quant/registry.h"

#include <algorithm>
#include <utility>

namespace ridge::convert::tuning {

using core::OpKind;
using core::WeightId;

std::string Network::obstacle(const core::Program& program) {
  for (const core::Op& op : program.ops) {
    bool runs = false;
    switch (op.kind) {
    case OpKind::embed: runs = op.weights.size() == 1; break;
    case OpKind::rms_norm:
    case OpKind::linear:
    case OpKind::kv_store:
    case OpKind::add:
    case OpKind::gather: runs = true; break;
    case OpKind::rope: {
      const core::RopeTable& table =
          program.rope_tables[static_cast<size_t>(std::get<core::RopeParams>(op.params).table)];
      runs = table.axes.empty() && table.span == 1;
      break;
    }
    case OpKind::attention: {
      const auto& params = std::get<core::AttentionParams>(op.params);
      runs = op.weights.empty() && params.causal && !params.in_blocks && params.max_bias == 0 && params.reach == 0;
      break;
    }
    case OpKind::glu:
      runs = has_slope(std::get<core::ActivationParams>(op.params)) &&
             program.values[static_cast<size_t>(op.inputs[0])].width ==
                 program.values[static_cast<size_t>(op.inputs[1])].width;
      break;
    case OpKind::activate: runs = op.weights.empty() && has_slope(std::get<core::ActivationParams>(op.params)); break;
    default: break;
    }
    if (!runs) return op.name;
  }
  const auto output = std::ranges::find(program.ops.rbegin(), program.ops.rend(), OpKind::linear, &core::Op::kind);
  if (output == program.ops.rend()) return "no output matrix";
  // What follows it reads only its product (logits_of()).
  std::vector<core::ValueId> made = output->outputs;
  for (auto op = output.base(); op != program.ops.end(); ++op) {
    for (const core::ValueId input : op->inputs)
      if (std::ranges::find(made, input) == made.end()) return op->name;
    made.insert(made.end(), op->outputs.begin(), op->outputs.end());
  }
  return program.input >= 0 || program.output >= 0 ? "a part of a model" : "";
}

namespace {

void clear(std::vector<float>& values, int64_t count) {
  values.resize(static_cast<size_t>(count));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) values[i] = 0;
}

size_t last_linear(const core::Program& program) {
  size_t at = program.ops.size() - 1;
  while (program.ops[at].kind != OpKind::linear) --at;
  return at;
}

} // namespace

Network::Network(const core::Program& program, int64_t text_tokens)
    : program_(program), text_tokens_(text_tokens), weights_(program.weights.size()), values_(program.values.size()),
      gradients_(program.values.size()), cached_(program.kv_layers.size()), output_(last_linear(program)) {
  for (const core::Op& op : program.ops)
    for (const WeightId id : op.weights) {
      const core::Weight& weight = program.weights[static_cast<size_t>(id)];
      std::vector<float>& decoded = this->weight(id);
      if (!decoded.empty()) continue;
      const quant::FormatInfo& format = *quant::find_format(weight.type);
      decoded.resize(static_cast<size_t>(weight.rows * weight.cols));
#pragma omp parallel for schedule(static)
      for (int64_t r = 0; r < weight.rows; ++r) format.decode(weight.row(r), weight.cols, &decoded[r * weight.cols]);
    }
}

std::span<const float> Network::forward(std::span<const int32_t> tokens) {
  tokens_ = std::ssize(tokens);
  for (const core::Op& op : program_.ops) run(op, tokens);
  return value(program_.logits);
}

std::span<const float> Network::logits_of(std::span<const float> rows) {
  const core::ValueId input = program_.ops[output_].inputs[0];
  tokens_ = std::ssize(rows) / width(input);
  values_[static_cast<size_t>(input)].assign(rows.begin(), rows.end());
  for (size_t i = output_; i < program_.ops.size(); ++i) run(program_.ops[i], {});
  return value(program_.logits);
}

void Network::keep_output() {
  std::vector<bool> used(weights_.size());
  for (size_t i = output_; i < program_.ops.size(); ++i)
    for (const WeightId id : program_.ops[i].weights) used[static_cast<size_t>(id)] = true;
  for (size_t id = 0; id < used.size(); ++id)
    if (!used[id]) std::vector<float>().swap(weights_[id]);
  for (auto& value : values_) std::vector<float>().swap(value);
}

void Network::run(const core::Op& op, std::span<const int32_t> tokens) {
  if (op.kind == OpKind::kv_store) {
    cached_[static_cast<size_t>(std::get<core::KvParams>(op.params).layer)] = {op.inputs[0], op.inputs[1]};
    return;
  }
  const int64_t out_width = width(op.outputs[0]);
  std::vector<float>& out = values_[static_cast<size_t>(op.outputs[0])];
  if (op.kind == OpKind::rope) // it adds
    clear(out, tokens_ * out_width);
  else
    out.resize(static_cast<size_t>(tokens_ * out_width));
  switch (op.kind) {
  case OpKind::embed: {
    const auto& params = std::get<core::EmbedParams>(op.params);
    const std::vector<float>& table = weight(op.weights[0]);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < tokens_; ++t) {
      const int64_t row = params.of_positions ? t % text_tokens_ : tokens[static_cast<size_t>(t)];
      for (int64_t i = 0; i < out_width; ++i) out[t * out_width + i] = params.scale * table[row * out_width + i];
    }
    return;
  }
  case OpKind::rms_norm:
    return norm(std::get<core::NormParams>(op.params), value(op.inputs[0]), out_width, weight(op.weights[0]), out);
  case OpKind::linear: {
    const int64_t cols = width(op.inputs[0]);
    const auto multiply = op.weights.size() > 1 ? add_product : set_product;
    if (op.weights.size() > 1)
      for (int64_t t = 0; t < tokens_; ++t) std::ranges::copy(weight(op.weights[1]), out.begin() + t * out_width);
    return multiply(tokens_, out_width, cols, {value(op.inputs[0]).data(), cols, 1},
                    {weight(op.weights[0]).data(), 1, cols}, out.data(), 0);
  }
  case OpKind::rope: {
    const auto& params = std::get<core::RopeParams>(op.params);
    return rope(params, program_.rope_tables[static_cast<size_t>(params.table)], text_tokens_, 1, value(op.inputs[0]),
                out);
  }
  case OpKind::attention: return attention(op).run(out);
  case OpKind::glu: {
    const auto& params = std::get<core::ActivationParams>(op.params);
    const std::vector<float>&gate = value(op.inputs[0]), &x = value(op.inputs[1]);
    activate(params, gate, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(out); ++i) out[i] *= x[i];
    return;
  }
  case OpKind::activate: return activate(std::get<core::ActivationParams>(op.params), value(op.inputs[0]), out);
  case OpKind::add: {
    const float scale = std::get<core::AddParams>(op.params).scale;
    const std::vector<float>&a = value(op.inputs[0]), &b = value(op.inputs[1]);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(out); ++i) out[i] = a[i] + scale * b[i];
    return;
  }
  default: out = value(op.inputs[0]); // gather: of all tokens
  }
}

const Network::Cached& Network::cached_of(const core::Op& attention) const {
  return cached_[static_cast<size_t>(std::get<core::AttentionParams>(attention.params).layer)];
}

Attention Network::attention(const core::Op& op) const {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const Cached& cached = cached_of(op);
  return {params,          program_.kv_layers[static_cast<size_t>(params.layer)],
          text_tokens_,    value(op.inputs[0]),
          value(cached.k), value(cached.v)};
}

std::vector<float>& Network::gradient(core::ValueId id) {
  std::vector<float>& gradient = gradients_[static_cast<size_t>(id)];
  if (!gradient.empty()) return gradient;
  const auto size = static_cast<size_t>(tokens_ * width(id));
  const auto fits = std::ranges::find_if(spare_, [&](const auto& old) { return old.capacity() >= size; });
  if (fits != spare_.end()) {
    gradient = std::move(*fits);
    spare_.erase(fits);
  }
  clear(gradient, tokens_ * width(id));
  return gradient;
}

void Network::backward(std::vector<float> of_logits, const std::vector<bool>& wanted, const OnGradient& each) {
  gradients_[static_cast<size_t>(program_.logits)] = std::move(of_logits);
  for (size_t i = program_.ops.size(); i-- > 0;) {
    const core::Op& op = program_.ops[i];
    if (op.outputs.empty() || gradients_[static_cast<size_t>(op.outputs[0])].empty()) continue;
    run_back(op, wanted, each);
    std::vector<float>& done = gradients_[static_cast<size_t>(op.outputs[0])];
    if (op.outputs[0] == program_.logits) {
      values_[static_cast<size_t>(program_.logits)] = std::exchange(done, {});
      continue;
    }
    spare_.push_back(std::exchange(done, {}));
    std::ranges::sort(spare_, {}, [](const auto& old) { return old.capacity(); });
  }
  for (auto& of_unread : gradients_) of_unread.clear();
}

void Network::run_back(const core::Op& op, const std::vector<bool>& wanted, const OnGradient& each) {
  const std::vector<float>& of_out = gradients_[static_cast<size_t>(op.outputs[0])];
  switch (op.kind) {
  case OpKind::embed: return;
  case OpKind::rms_norm: {
    const std::vector<float>& w = weight(op.weights[0]);
    std::vector<float> of_w(w.size());
    norm_back(std::get<core::NormParams>(op.params), value(op.inputs[0]), width(op.inputs[0]), w, of_out,
              gradient(op.inputs[0]), of_w);
    if (wanted[static_cast<size_t>(op.weights[0])]) each(op.weights[0], of_w);
    return;
  }
  case OpKind::linear: {
    const int64_t cols = width(op.inputs[0]), rows = width(op.outputs[0]);
    const WeightId id = op.weights[0];
    add_product(tokens_, cols, rows, {of_out.data(), rows, 1}, {weight(id).data(), cols, 1},
                gradient(op.inputs[0]).data());
    if (!wanted[static_cast<size_t>(id)]) return;
    of_weight_.resize(static_cast<size_t>(rows * cols));
    set_product(rows, cols, tokens_, {of_out.data(), 1, rows}, {value(op.inputs[0]).data(), cols, 1},
                of_weight_.data());
    return each(id, of_weight_);
  }
  case OpKind::rope: {
    const auto& params = std::get<core::RopeParams>(op.params);
    return rope(params, program_.rope_tables[static_cast<size_t>(params.table)], text_tokens_, -1, of_out,
                gradient(op.inputs[0]));
  }
  case OpKind::attention: {
    const Cached& cached = cached_of(op);
    return attention(op).run_back(of_out, gradient(op.inputs[0]), gradient(cached.k), gradient(cached.v));
  }
  case OpKind::glu: {
    const auto& params = std::get<core::ActivationParams>(op.params);
    const std::vector<float>&gate = value(op.inputs[0]), &x = value(op.inputs[1]);
    std::vector<float>&of_gate = gradient(op.inputs[0]), &of_x = gradient(op.inputs[1]);
    activated_.resize(gate.size()), slope_.resize(gate.size());
    activate(params, gate, activated_, slope_);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(of_out); ++i) {
      of_gate[i] += of_out[i] * x[i] * slope_[i];
      of_x[i] += of_out[i] * activated_[i];
    }
    return;
  }
  case OpKind::activate: {
    std::vector<float>& of_x = gradient(op.inputs[0]);
    activated_.resize(of_x.size()), slope_.resize(of_x.size());
    activate(std::get<core::ActivationParams>(op.params), value(op.inputs[0]), activated_, slope_);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(of_x); ++i) of_x[i] += of_out[i] * slope_[i];
    return;
  }
  default: { // add, gather
    std::vector<float>& of_a = gradient(op.inputs[0]);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(of_a); ++i) of_a[i] += of_out[i];
    if (op.kind != OpKind::add) return;
    const float scale = std::get<core::AddParams>(op.params).scale;
    std::vector<float>& of_b = gradient(op.inputs[1]);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(of_b); ++i) of_b[i] += scale * of_out[i];
  }
  }
}

} // namespace ridge::convert::tuning
