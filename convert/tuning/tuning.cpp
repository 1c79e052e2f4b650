#include "convert/tuning/tuning.h"

#include "convert/tuning/network.h"
#include "convert/tuning/products.h"
#include "quant/feedback/block_factors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <omp.h>
#include <random>
#include <span>

namespace ridge::convert::tuning {
namespace {

using quant::BlockFactors;

constexpr int kRounds = 4;              // over all texts
constexpr size_t kTextsAtOnce = 2;      // per step
constexpr int64_t kSharedWeights = 256; // with a common change, at least
// A step's size over the relative error of the tensor's weights: coarser codes leave more to be gained.
constexpr double kRate = 0.007;

// A tensor's changes as factors of what it stores: of an F32 tensor's elements, or of blocks' scales and offsets.
class Changes {
 public:
  explicit Changes(const Tensor& tensor)
      : tensor_(tensor), access_(tensor.type == quant::Type::F32 ? nullptr : BlockFactors::of(tensor.type)),
        original_(*tensor.bytes) {
    const quant::FormatInfo& format = quant::format(tensor.type);
    block_ = access_ ? format.block_weights : 1;
    shared_ = access_ ? std::max<int64_t>(1, kSharedWeights / block_) : 1;
    per_row_ = (tensor.cols / block_ + shared_ - 1) / shared_;
    kinds_ = access_ && access_->has_offset ? 2 : 1;
    row_bytes_ = format.row_bytes(tensor.cols);
    const auto count = static_cast<size_t>(tensor.rows * per_row_ * kinds_);
    factor_.assign(count, 1.0f);
    for (auto* values : {&slope_, &mean_, &square_}) values->assign(count, 0.0f);
  }

  const Tensor& tensor() const { return tensor_; }
  bool is_vector() const { return !access_; }
  double rate = 0;

  void decode(int64_t row, float* out) const {
    quant::format(tensor_.type).decode(tensor_.bytes->data() + row * row_bytes_, tensor_.cols, out);
  }

  // decoded: the row as it is now.
  void add_slope(int64_t row, const float* decoded, const float* of_weights) {
    std::vector<float> scaled;
    if (kinds_ == 2) {
      scaled.resize(static_cast<size_t>(tensor_.cols));
      std::vector<std::byte> bytes(tensor_.bytes->begin() + row * row_bytes_,
                                   tensor_.bytes->begin() + (row + 1) * row_bytes_);
      for (int64_t b = 0; b < tensor_.cols / block_; ++b) {
        std::byte* block = &bytes[static_cast<size_t>(b * quant::format(tensor_.type).block_bytes)];
        access_->set(block, {access_->get(block).scale, 0});
      }
      quant::format(tensor_.type).decode(bytes.data(), tensor_.cols, scaled.data());
    }
    for (int64_t part = 0; part < per_row_; ++part) {
      const int64_t first = part * shared_ * block_, n = std::min(shared_ * block_, tensor_.cols - first);
      float* slope = &slope_[static_cast<size_t>((row * per_row_ + part) * kinds_)];
      const float of_all = dot(of_weights + first, decoded + first, n);
      const float of_scale = kinds_ == 2 ? dot(of_weights + first, &scaled[first], n) : of_all;
      slope[0] += of_scale;
      if (kinds_ == 2) slope[1] += of_all - of_scale;
    }
  }

  // A step of Adam, and the tensor with the new factors.
  void step(double share_left, int64_t number) {
    constexpr float kKeepMean = 0.9f, kKeepSquare = 0.95f;
    const auto of_mean = static_cast<float>(1 / (1 - std::pow(kKeepMean, number))),
               of_square = static_cast<float>(1 / (1 - std::pow(kKeepSquare, number))),
               step = static_cast<float>(rate * share_left);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < std::ssize(factor_); ++i) {
      mean_[i] = kKeepMean * mean_[i] + (1 - kKeepMean) * slope_[i];
      square_[i] = kKeepSquare * square_[i] + (1 - kKeepSquare) * slope_[i] * slope_[i];
      if (square_[i] > 0) factor_[i] -= step * of_mean * mean_[i] / std::sqrt(of_square * square_[i]);
      slope_[i] = 0;
    }
    apply();
  }
  void undo() { *tensor_.bytes = original_; }

  std::array<std::span<float>, 3> state() { return {factor_, mean_, square_}; }

  void apply() {
    if (is_vector()) {
      for (size_t i = 0; i < factor_.size(); ++i) {
        float value = 0;
        std::memcpy(&value, &original_[4 * i], 4);
        value *= factor_[i];
        std::memcpy(&(*tensor_.bytes)[4 * i], &value, 4);
      }
      return;
    }
    const int64_t blocks = tensor_.cols / block_, block_bytes = quant::format(tensor_.type).block_bytes;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_.rows; ++row)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = row * row_bytes_ + b * block_bytes;
        const float* factor = &factor_[static_cast<size_t>((row * per_row_ + b / shared_) * kinds_)];
        const BlockFactors before = access_->get(&original_[static_cast<size_t>(at)]);
        const BlockFactors after = {before.scale * factor[0], before.offset * factor[kinds_ - 1]};
        if (std::isfinite(after.scale) && std::isfinite(after.offset))
          access_->set(&(*tensor_.bytes)[static_cast<size_t>(at)], after);
      }
  }

 private:
  const Tensor& tensor_;
  const BlockFactors::Access* access_;
  const std::vector<std::byte> original_;
  int64_t block_, shared_, per_row_, kinds_, row_bytes_;
  std::vector<float> factor_, slope_, mean_, square_; // [row][shared blocks][kinds_]
};

// Both models, the quantized one with the tensors as they are now.
class Pair {
 public:
  Pair(const core::Program& program, std::vector<Changes>& changes, const std::vector<std::vector<int32_t>>& texts,
       const std::function<void()>& after_text)
      : program_(program), changes_(changes), texts_(texts), original_(program, std::ssize(texts[0])),
        quantized_(program, std::ssize(texts[0])), wanted_(program.weights.size()), of_(program.weights.size()) {
    for (size_t id = 0; id < program.weights.size(); ++id) {
      if (original_.weight(static_cast<core::WeightId>(id)).empty()) continue;
      for (Changes& of : changes) {
        const Tensor& tensor = of.tensor();
        const std::byte* data = program.weights[id].data;
        if (data >= tensor.original && data < tensor.original + tensor.rows * tensor.original_row_bytes) of_[id] = &of;
      }
      wanted_[id] = of_[id] != nullptr;
    }
    read_tensors();
    for (Changes& of : changes) {
      double error = 0, size = 0;
      for (size_t id = 0; id < of_.size(); ++id) {
        if (of_[id] != &of || of.is_vector()) continue;
        const std::vector<float>&a = original_.weight(static_cast<core::WeightId>(id)),
              &b = quantized_.weight(static_cast<core::WeightId>(id));
        for (size_t i = 0; i < a.size(); ++i)
          error += static_cast<double>(a[i] - b[i]) * (a[i] - b[i]), size += static_cast<double>(a[i]) * a[i];
      }
      of.rate = size > 0 ? kRate * std::sqrt(error / size) : 0;
    }
    double rates = 0, matrices = 0;
    for (const Changes& of : changes)
      if (!of.is_vector()) rates += of.rate, ++matrices;
    for (Changes& of : changes)
      if (of.is_vector() && matrices > 0) of.rate = rates / matrices;
    for (const auto& text : texts) {
      original_.forward(text);
      const std::span<const float> rows = original_.rows_of_output();
      original_rows_.emplace_back(rows.begin(), rows.end());
      after_text();
    }
    original_.keep_output();
  }

  void read_tensors() {
    for (size_t id = 0; id < of_.size(); ++id) {
      if (!of_[id]) continue;
      std::vector<float>& to = quantized_.weight(static_cast<core::WeightId>(id));
      const core::Weight& weight = program_.weights[id];
#pragma omp parallel for schedule(static)
      for (int64_t r = 0; r < weight.rows; ++r) of_[id]->decode(tensor_row(id, r), &to[r * weight.cols]);
    }
  }

  // Mean divergence of some texts; `learns`: and its slopes.
  double divergence(std::span<const size_t> some, bool learns) {
    std::vector<int32_t> tokens;
    for (const size_t text : some) tokens.insert(tokens.end(), texts_[text].begin(), texts_[text].end());
    const int64_t count = std::ssize(tokens), vocab = program_.values[static_cast<size_t>(program_.logits)].width;
    std::vector<float> rows;
    for (const size_t text : some) rows.insert(rows.end(), original_rows_[text].begin(), original_rows_[text].end());
    const std::span<const float> wanted = original_.logits_of(rows);
    quantized_.forward(tokens);
    std::vector<float> got = quantized_.take_logits(); // becomes their gradient
    std::vector<double> of_token(tokens.size());
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < count; ++t)
      of_token[static_cast<size_t>(t)] = compare(
          wanted.subspan(t * vocab, vocab), std::span(got).subspan(t * vocab, vocab), 1 / static_cast<float>(count));
    if (learns)
      quantized_.backward(std::move(got), wanted_, [&](core::WeightId id, std::span<const float> gradient) {
        const int64_t rows = program_.weights[static_cast<size_t>(id)].rows,
                      cols = program_.weights[static_cast<size_t>(id)].cols;
#pragma omp parallel for schedule(static)
        for (int64_t r = 0; r < rows; ++r)
          of_[static_cast<size_t>(id)]->add_slope(tensor_row(static_cast<size_t>(id), r),
                                                  &quantized_.weight(id)[r * cols], &gradient[r * cols]);
      });
    return std::accumulate(of_token.begin(), of_token.end(), 0.0) / static_cast<double>(count);
  }

 private:
  int64_t tensor_row(size_t id, int64_t row) const {
    return (program_.weights[id].row(row) - of_[id]->tensor().original) / of_[id]->tensor().original_row_bytes;
  }

  static double log_sum(std::span<const float> logits) {
    const float largest = *std::ranges::max_element(logits);
    double sum = 0;
    std::array<float, kPart> e;
    for (size_t first = 0; first < logits.size(); first += kPart) {
      const size_t n = std::min(kPart, logits.size() - first);
      std::ranges::copy(logits.subspan(first, n), e.begin());
      sum += exponentials(e.data(), static_cast<int64_t>(n), -largest);
    }
    return largest + std::log(sum);
  }

  // Divergence of b from a; b becomes its slope times `factor`.
  static double compare(std::span<const float> a, std::span<float> b, float factor) {
    const auto log_a = static_cast<float>(log_sum(a)), log_b = static_cast<float>(log_sum(b));
    double sum = 0;
    std::array<float, kPart> p, q, ratio;
    for (size_t first = 0; first < a.size(); first += kPart) {
      const size_t n = std::min(kPart, a.size() - first);
      for (size_t i = 0; i < n; ++i) {
        p[i] = a[first + i] - log_a, q[i] = b[first + i] - log_b;
        ratio[i] = p[i] - q[i];
      }
      exponentials(p.data(), static_cast<int64_t>(n));
      exponentials(q.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) {
        sum += static_cast<double>(p[i]) * ratio[i];
        b[first + i] = factor * (q[i] - p[i]);
      }
    }
    return sum;
  }

  static constexpr size_t kPart = 512;
  const core::Program& program_;
  std::vector<Changes>& changes_;
  const std::vector<std::vector<int32_t>>& texts_;
  Network original_, quantized_;
  std::vector<std::vector<float>> original_rows_; // by text, of the output matrix
  std::vector<bool> wanted_;
  std::vector<Changes*> of_; // by WeightId
};

constexpr int64_t kSaves = 8;

// While it lives, one thread if a step has less than some 20 ms of work.
class Threads {
 public:
  Threads(const std::vector<Tensor>& tensors, int64_t tokens) {
    int64_t weights = 0;
    for (const Tensor& tensor : tensors) weights += tensor.rows * tensor.cols;
    if (weights * tokens < int64_t{1} << 28) omp_set_num_threads(1);
  }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

struct Progress {
  int64_t done = 0; // steps
  double before = 0;
};

std::vector<std::byte> state_of(const Progress& progress, std::vector<Changes>& changes) {
  std::vector<std::byte> state(sizeof progress);
  std::memcpy(state.data(), &progress, sizeof progress);
  for (Changes& of : changes)
    for (const std::span<float> values : of.state()) {
      const auto bytes = std::as_bytes(values);
      state.insert(state.end(), bytes.begin(), bytes.end());
    }
  return state;
}

Progress take_state(std::span<const std::byte> state, std::vector<Changes>& changes) {
  size_t bytes = sizeof(Progress);
  for (Changes& of : changes)
    for (const std::span<float> values : of.state()) bytes += values.size_bytes();
  Progress progress;
  if (state.size() != bytes) return progress;
  std::memcpy(&progress, state.data(), sizeof progress);
  state = state.subspan(sizeof progress);
  for (Changes& of : changes) {
    for (const std::span<float> values : of.state()) {
      std::memcpy(values.data(), state.data(), values.size_bytes());
      state = state.subspan(values.size_bytes());
    }
    of.apply();
  }
  return progress;
}

} // namespace

Outcome tune(const core::Program& program, const std::vector<Tensor>& tensors,
             const std::vector<std::vector<int32_t>>& texts,
             const std::function<void(int64_t done, int64_t total)>& progress, const Checkpoints& checkpoints) {
  const Threads threads(tensors, std::ssize(texts[0]) * static_cast<int64_t>(kTextsAtOnce));
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1); // one draw per text and round
  const size_t kept_back = std::max<size_t>(1, texts.size() / 8), learned = texts.size() - kept_back;
  const auto per_round = static_cast<int64_t>((learned + kTextsAtOnce - 1) / kTextsAtOnce), total = kRounds * per_round;
  Progress now;
  const auto tell = [&] {
    if (progress) progress(now.done, total);
  };
  std::vector<Changes> changes;
  changes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) changes.emplace_back(tensor);
  Pair pair(program, changes, texts, tell);
  const auto check = [&] {
    double sum = 0;
    for (size_t i = learned; i < order.size(); ++i) {
      sum += pair.divergence({&order[i], 1}, false);
      tell();
    }
    return sum / static_cast<double>(kept_back);
  };
  now = take_state(checkpoints.last, changes);
  if (now.done == 0) now.before = check();
  pair.read_tensors();
  int64_t step = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = learned; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (size_t at = 0; at < learned; at += kTextsAtOnce) {
      if (++step <= now.done) continue;
      pair.divergence(std::span(order).subspan(at, std::min(kTextsAtOnce, learned - at)), true);
      const double left = 1 - static_cast<double>(now.done) / static_cast<double>(total);
      now.done = step;
      for (Changes& of : changes) of.step(left, step);
      pair.read_tensors();
      if (checkpoints.save && step * kSaves / total != (step - 1) * kSaves / total)
        checkpoints.save(state_of(now, changes));
      tell();
    }
  }
  Outcome outcome{.before = now.before, .after = check()};
  outcome.kept = outcome.after < outcome.before;
  if (!outcome.kept)
    for (Changes& of : changes) of.undo();
  return outcome;
}

} // namespace ridge::convert::tuning
