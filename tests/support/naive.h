// The meaning of a Program in the plainest terms: every op in double precision over decoded weights, the whole history
// of a stream computed anew. What the executors are compared with.
#pragma once

#include "core/executor.h"
#include "core/half.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

namespace ridge::tests {

class Naive {
 public:
  Naive(const core::Program& program, core::KvType k_type, core::KvType v_type)
      : program_(program), k_type_(k_type), v_type_(v_type) {}

  // Continues the streams; returns the logits of batch.outputs, one after the other.
  std::vector<float> forward(const core::Batch& batch) {
    std::vector<Matrix> values(program_.values.size());
    for (const core::Op& op : program_.ops) run(op, batch, values);
    std::vector<float> logits;
    for (const Row& row : values[program_.logits]) logits.insert(logits.end(), row.begin(), row.end());
    return logits;
  }

 private:
  using Row = std::vector<double>;
  using Matrix = std::vector<Row>;

  Row weight_row(core::WeightId id, int64_t row) {
    const core::Weight& w = program_.weights[id];
    std::vector<float> out(w.cols);
    quant::find_format(w.type)->decode(w.data + row * w.row_bytes, w.cols, out.data());
    return Row(out.begin(), out.end());
  }
  Row multiply(core::WeightId id, int64_t first_row, const double* x) {
    const core::Weight& w = program_.weights[id];
    Row out(w.rows);
    Matrix& decoded = decoded_[id];
    decoded.resize(w.rows * w.count);
    for (int64_t r = 0; r < w.rows; ++r) {
      Row& row = decoded[first_row + r];
      if (row.empty()) row = weight_row(id, first_row + r);
      for (int64_t c = 0; c < w.cols; ++c) out[r] += row[c] * x[c];
    }
    return out;
  }
  static double as_half(double value) { return core::f32_from_f16(core::f16_from_f32(static_cast<float>(value))); }
  static Row stored(Row row, core::KvType type) {
    if (type == core::KvType::f16)
      for (double& e : row) e = as_half(e);
    if (type == core::KvType::q8_0)
      for (size_t first = 0; first < row.size(); first += 32) {
        double largest = 0;
        for (size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::abs(row[i]));
        for (size_t i = first; i < first + 32 && largest > 0; ++i)
          row[i] = std::nearbyint(row[i] / largest * 127) * as_half(largest / 127);
      }
    return row;
  }

  void run(const core::Op& op, const core::Batch& batch, std::vector<Matrix>& values) {
    using core::OpKind;
    Matrix* out = op.outputs.empty() ? nullptr : &values[op.outputs[0]];
    const size_t rows = op.inputs.empty() ? batch.tokens.size() : values[op.inputs[0]].size();
    const auto in = [&](size_t i, size_t row) -> const Row& { return values[op.inputs[i]][row]; };
    const auto stream = [&](size_t t) { return batch.streams.empty() ? 0 : batch.streams[t]; };
    if (op.kind == OpKind::gather) {
      for (int32_t t : batch.outputs) out->push_back(in(0, t));
      return;
    }
    if (op.kind == OpKind::kv_store) {
      for (size_t t = 0; t < rows; ++t) {
        auto& history = cache_[{std::get<core::KvParams>(op.params).layer, stream(t)}];
        history.resize(batch.positions[t]);
        history.push_back({stored(in(0, t), k_type_), stored(in(1, t), v_type_)});
      }
      return;
    }
    for (size_t t = 0; t < rows; ++t) {
      Row y;
      switch (op.kind) {
      case OpKind::embed: y = weight_row(op.weights[0], batch.tokens[t]); break;
      case OpKind::rms_norm: {
        const auto& p = std::get<core::NormParams>(op.params);
        const Row w = weight_row(op.weights[0], 0);
        y = in(0, t);
        for (size_t g = 0; g < y.size(); g += p.group) {
          double sum = 0;
          for (int64_t i = 0; i < p.group; ++i) sum += y[g + i] * y[g + i];
          for (int64_t i = 0; i < p.group; ++i)
            y[g + i] *= w[i] / std::sqrt(sum / static_cast<double>(p.group) + p.epsilon);
        }
        break;
      }
      case OpKind::permute: {
        const size_t group = std::get<core::PermuteParams>(op.params).group;
        std::vector<int32_t> order(program_.weights[op.weights[0]].cols);
        std::memcpy(order.data(), program_.weights[op.weights[0]].data, 4 * order.size());
        for (size_t first = 0; first < in(0, t).size(); first += group)
          for (const int32_t from : order) y.push_back(in(0, t)[first + from]);
        break;
      }
      case OpKind::linear: {
        y = multiply(op.weights[0], 0, in(0, t).data());
        if (op.weights.size() > 1) {
          const Row bias = weight_row(op.weights[1], 0);
          for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
        }
        break;
      }
      case OpKind::rope: {
        const auto& p = std::get<core::RopeParams>(op.params);
        const core::RopeTable& table = program_.rope_tables[p.table];
        const size_t pairs = table.inverse_frequency.size();
        y = in(0, t);
        for (int64_t h = 0; h < p.heads; ++h)
          for (size_t i = 0; i < pairs; ++i) {
            const bool split = table.style == core::RopeStyle::split;
            double& a = y[h * p.head_dim + (split ? i : 2 * i)];
            double& b = y[h * p.head_dim + (split ? i + pairs : 2 * i + 1)];
            const double angle = batch.positions[t] * static_cast<double>(table.inverse_frequency[i]);
            const double c = std::cos(angle) * table.magnitude, s = std::sin(angle) * table.magnitude;
            const double x0 = a, x1 = b;
            a = x0 * c - x1 * s;
            b = x0 * s + x1 * c;
          }
        break;
      }
      case OpKind::attention: {
        const auto& p = std::get<core::AttentionParams>(op.params);
        const core::KvLayer& kv = program_.kv_layers[p.layer];
        const auto& history = cache_.at({p.layer, stream(t)});
        for (int64_t h = 0; h < p.heads; ++h) {
          const int64_t kv_head = h / (p.heads / kv.heads);
          Row score;
          for (int32_t pos = 0; pos <= batch.positions[t]; ++pos) {
            double dot = 0;
            for (int64_t d = 0; d < kv.k_dim; ++d)
              dot += in(0, t)[h * kv.k_dim + d] * history[pos].first[kv_head * kv.k_dim + d];
            score.push_back(dot * p.scale);
          }
          const double largest = *std::max_element(score.begin(), score.end());
          double sum = 0;
          for (double& s : score) sum += s = std::exp(s - largest);
          Row head(kv.v_dim);
          for (size_t pos = 0; pos < score.size(); ++pos)
            for (int64_t d = 0; d < kv.v_dim; ++d)
              head[d] += score[pos] / sum * history[pos].second[kv_head * kv.v_dim + d];
          y.insert(y.end(), head.begin(), head.end());
        }
        break;
      }
      case OpKind::swiglu:
        y = in(0, t);
        for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] / (1 + std::exp(-y[i])) * in(1, t)[i];
        break;
      case OpKind::add:
        y = in(0, t);
        for (size_t i = 0; i < y.size(); ++i) y[i] += in(1, t)[i];
        break;
      case OpKind::route: {
        const auto& p = std::get<core::RouteParams>(op.params);
        const Row& x = in(0, t);
        std::vector<int> order(x.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
        double all = 0, chosen = 0;
        for (double e : x) all += std::exp(e - x[order[0]]);
        Row shares;
        for (int64_t s = 0; s < p.used; ++s) {
          y.push_back(order[s]);
          shares.push_back(std::exp(x[order[s]] - x[order[0]]));
          chosen += shares.back();
        }
        for (double& s : shares) s /= p.normalize ? chosen : all;
        values[op.outputs[1]].push_back(shares);
        break;
      }
      case OpKind::expert_linear: {
        const core::Weight& w = program_.weights[op.weights[0]];
        const bool shared = static_cast<int64_t>(in(0, t).size()) == w.cols;
        for (size_t s = 0; s < in(1, t).size(); ++s) {
          const Row part = multiply(op.weights[0], static_cast<int64_t>(in(1, t)[s]) * w.rows,
                                    in(0, t).data() + (shared ? 0 : s * w.cols));
          y.insert(y.end(), part.begin(), part.end());
        }
        break;
      }
      case OpKind::expert_sum:
        y.resize(program_.values[op.outputs[0]].width);
        for (size_t s = 0; s < in(1, t).size(); ++s)
          for (size_t i = 0; i < y.size(); ++i) y[i] += in(1, t)[s] * in(0, t)[s * y.size() + i];
        break;
      default: break;
      }
      out->push_back(std::move(y));
    }
  }

  const core::Program& program_;
  const core::KvType k_type_, v_type_;
  std::map<std::pair<int32_t, int32_t>, std::vector<std::pair<Row, Row>>> cache_; // layer, stream -> k, v by position
  std::map<core::WeightId, Matrix> decoded_;                                      // rows as they were needed
};

} // namespace ridge::tests
