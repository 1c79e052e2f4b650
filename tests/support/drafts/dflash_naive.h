// A DFlash head by its definition, in double precision: keys and values of the context are made of the model's rows
// apart from those of the block.
#pragma once

#include "models/dflash.h"
#include "models/eagle.h"
#include "models/model.h"
#include "support/drafts/dflash_pair.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace ridge::tests {

class NaiveDflash {
 public:
  using Row = std::vector<double>;

  NaiveDflash(const DflashPair& pair, const gguf::File& model, const gguf::File& head)
      : pair_(pair), model_(model), head_(head) {}

  // Logits [masks][vocabulary] behind `text`, whose last token has no row.
  std::vector<float> logits(std::span<const int32_t> text, int64_t masks) const {
    const std::vector<Row> context = context_rows(text.first(text.size() - 1));
    std::vector<Row> x;
    const gguf::File& owner = pair_.own_table ? head_ : model_;
    for (int64_t i = 0; i <= masks; ++i) {
      const int64_t token = i == 0 ? text.back() : pair_.mask;
      const float* row = data(owner, "token_embd.weight") + token * pair_.width;
      x.emplace_back(row, row + pair_.width);
    }
    for (int64_t il = 0; il < pair_.head_layers; ++il) apply_layer(x, context, il);
    std::vector<float> all;
    for (int64_t i = 1; i <= masks; ++i) {
      const Row logits = times(pair_.own_output ? head_ : model_, "output.weight", norm(x[i], "output_norm.weight"));
      std::vector<float> row(pair_.vocab, -1e30f);
      for (size_t k = 0; k < logits.size(); ++k)
        row[pair_.own_vocab > 0 ? k * pair_.vocabulary_stride : k] = static_cast<float>(logits[k]);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  static constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 16;
  static constexpr double kEpsilon = 1e-5;

  static const float* data(const gguf::File& file, const std::string& name) {
    return reinterpret_cast<const float*>(file.find_tensor(name)->data.data());
  }
  static Row times(const gguf::File& file, const std::string& name, const Row& x) {
    const auto cols = static_cast<int64_t>(x.size()), rows = file.find_tensor(name)->dims[1];
    Row y(rows);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) y[r] += static_cast<double>(data(file, name)[r * cols + c]) * x[c];
    return y;
  }
  Row times(const std::string& name, const Row& x) const { return times(head_, name, x); }
  // Norms each `group` of elements alone; 0: the whole row.
  Row norm(Row x, const std::string& name, size_t group = 0) const {
    if (group == 0) group = x.size();
    for (size_t at = 0; at < x.size(); at += group) {
      double squares = 0;
      for (size_t i = 0; i < group; ++i) squares += x[at + i] * x[at + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(group) + kEpsilon);
      for (size_t i = 0; i < group; ++i) x[at + i] *= scale * data(head_, name)[i];
    }
    return x;
  }
  static Row rotated(Row x, int64_t position) {
    for (size_t at = 0; at < x.size(); at += kDim)
      for (int64_t i = 0; i < kDim / 2; ++i) {
        const double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kDim);
        double &a = x[at + i], &b = x[at + i + kDim / 2];
        const double first = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = first;
      }
    return x;
  }

  // The model's inputs of the layers, joined and normed.
  std::vector<Row> context_rows(std::span<const int32_t> text) const {
    if (text.empty()) return {};
    const core::Program program = models::build_program(model_);
    Naive naive(program, core::KvType::f32, core::KvType::f32);
    Steps steps;
    for (const int32_t token : text) {
      steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
      steps.positions.push_back(static_cast<int32_t>(steps.tokens.size()));
      steps.streams.push_back(0);
      steps.tokens.push_back(token);
    }
    naive.forward(steps.batch());
    std::vector<Row> joined(text.size());
    for (const uint32_t layer : pair_.layers) {
      const std::string reader = layer < pair_.model_layers ? fmt::format("blk.{}.attn_norm", layer) : "output_norm";
      const auto op = std::ranges::find(program.ops, reader, &core::Op::name);
      REQUIRE(op != program.ops.end());
      const Naive::Matrix& rows = naive.value(op->inputs[0]);
      for (size_t i = 0; i < text.size(); ++i) joined[i].insert(joined[i].end(), rows[i].begin(), rows[i].end());
    }
    for (Row& row : joined) row = norm(times("fc.weight", row), "enc.output_norm.weight");
    return joined;
  }

  void apply_layer(std::vector<Row>& x, const std::vector<Row>& context, int64_t il) const {
    const std::string blk = fmt::format("blk.{}.", il);
    const auto first = static_cast<int64_t>(context.size());
    std::vector<Row> k, v, q;
    const auto keep = [&](const Row& row) {
      const auto position = static_cast<int64_t>(k.size());
      k.push_back(rotated(norm(times(blk + "attn_k.weight", row), blk + "attn_k_norm.weight", kDim), position));
      v.push_back(times(blk + "attn_v.weight", row));
    };
    for (const Row& row : context) keep(row);
    for (const Row& residual : x) {
      const Row row = norm(residual, blk + "attn_norm.weight");
      q.push_back(rotated(norm(times(blk + "attn_q.weight", row), blk + "attn_q_norm.weight", kDim),
                          static_cast<int64_t>(k.size())));
      keep(row);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t position = first + static_cast<int64_t>(i);
      const int64_t window = il == 0 ? pair_.window : 0;
      const int64_t from = window > 0 ? std::max(int64_t{0}, position + 1 - window) : 0;
      const int64_t to = pair_.causal ? position + 1 : static_cast<int64_t>(k.size());
      Row attended(kHeads * kDim);
      for (int64_t head = 0; head < kHeads; ++head) {
        const int64_t kv = head / (kHeads / kKvHeads) * kDim, at = head * kDim;
        Row scores;
        double sum = pair_.sinks ? std::exp(static_cast<double>(data(head_, blk + "attn_sinks.weight")[head])) : 0;
        for (int64_t p = from; p < to; ++p) {
          double score = 0;
          for (int64_t d = 0; d < kDim; ++d) score += q[i][at + d] * k[p][kv + d];
          scores.push_back(std::exp(score / std::sqrt(static_cast<double>(kDim))));
          sum += scores.back();
        }
        for (int64_t p = from; p < to; ++p)
          for (int64_t d = 0; d < kDim; ++d) attended[at + d] += scores[p - from] / sum * v[p][kv + d];
      }
      const Row mixed = times(blk + "attn_output.weight", attended);
      for (size_t c = 0; c < x[i].size(); ++c) x[i][c] += mixed[c];
      const Row row = norm(x[i], blk + "ffn_norm.weight"), up = times(blk + "ffn_up.weight", row);
      Row gate = times(blk + "ffn_gate.weight", row);
      for (size_t c = 0; c < gate.size(); ++c) gate[c] *= up[c] / (1 + std::exp(-gate[c]));
      const Row made = times(blk + "ffn_down.weight", gate);
      for (size_t c = 0; c < x[i].size(); ++c) x[i][c] += made[c];
    }
  }

  const DflashPair& pair_;
  const gguf::File &model_, &head_;
};

// What the head's Program gives behind each text that ends in `ends`, its rows coming in batches between.
inline void check_dflash(const MakeExecutor& make) {
  for (const DflashPair& pair : DflashPair::kinds()) {
    CAPTURE(pair.layers.size());
    CAPTURE(pair.causal);
    const gguf::File model = pair.model(), head = pair.head();
    const core::Program drafted = models::build_drafted(model, head), program = models::build_dflash_head(head, model);
    const NaiveDflash naive(pair, model, head);
    std::vector<int32_t> text;
    for (int32_t i = 0; i < 30; ++i) text.push_back((i * i * 7 + 3 * i + 5) % 47);
    const auto model_executor = make(drafted, exact_config()), executor = make(program, exact_config());
    const int64_t width = drafted.values[drafted.hidden].width;
    int64_t known = 0;
    for (const int64_t end : {1, 2, 9, 10, 24, 30}) { // the last token has no row yet
      CAPTURE(end);
      const int64_t count = end - 1 - known, masks = end % 2 == 0 ? pair.block - 1 : 2;
      Steps steps;
      std::vector<float> rows;
      std::vector<int32_t> ends;
      if (count > 0) {
        Steps read;
        for (int64_t i = known; i < end - 1; ++i) {
          read.tokens.push_back(text[i]);
          read.positions.push_back(static_cast<int32_t>(i));
          read.streams.push_back(0);
        }
        read.outputs = {static_cast<int32_t>(count) - 1};
        model_executor->forward(read.batch());
        for (int64_t i = 0; i < count; ++i) {
          const auto row = model_executor->hidden().subspan(i * width, width);
          rows.insert(rows.end(), row.begin(), row.end());
          rows.push_back(1);
          steps.tokens.push_back(static_cast<int32_t>(-1 - i));
          ends.push_back(0);
        }
      }
      for (int64_t i = 0; i <= masks; ++i) {
        if (i > 0) steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
        steps.tokens.push_back(i == 0 ? text[end - 1] : static_cast<int32_t>(pair.mask));
        ends.push_back(static_cast<int32_t>(end + masks));
      }
      for (size_t i = 0; i < steps.tokens.size(); ++i) {
        steps.positions.push_back(static_cast<int32_t>(known + static_cast<int64_t>(i)));
        steps.streams.push_back(0);
      }
      core::Batch batch = steps.batch();
      batch.rows = rows;
      batch.block_ends = ends;
      executor->forward(batch);
      std::vector<float> logits, wanted = naive.logits(std::span(text).first(end), masks);
      for (int64_t i = 0; i < masks; ++i) {
        const auto row = executor->logits(i);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      REQUIRE(logits.size() == wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        CHECK((wanted[i] < -1e29f) == (logits[i] < -1e29f));
        if (wanted[i] < -1e29f) wanted[i] = logits[i] = 0;
      }
      CHECK(nmse(logits, wanted) < 1e-9);
      known = end - 1;
    }
  }
}

} // namespace ridge::tests
