#include "kernels/cpu/executor/host_experts.h"

#include "core/clock.h"
#include "kernels/cpu/executor/helpers.h"
#include "kernels/cpu/executor/lowering.h"
#include "kernels/cpu/executor/threads.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace ridge::kernels::cpu {
namespace {

constexpr double kAwakeSeconds = 1e-3; // longer than the host needs between two steps
constexpr int64_t kLeastPieceBytes = 16384, kPiecesPerThread = 4;

// Threads that spin for phases of independent items between wake() and sleep().
class Crew {
 public:
  Crew(int threads, std::vector<int> processors, std::function<void(int64_t item)> run)
      : processors_(std::move(processors)), run_(std::move(run)), bound_(threads),
        helpers_(threads - 1, news_, [this](int thread) { return help(thread); }) {}

  void wake() {
    awake_ = true;
    helpers_.open();
    ++news_;
    news_.notify_all();
  }
  void sleep() {
    awake_ = false;
    helpers_.close();
  }
  // Returns when all items are done.
  void run(int64_t items) {
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(static_cast<uint64_t>(items) << 32, std::memory_order_release);
    take_items();
    while (done_.load(std::memory_order_acquire) < items) hwy::Pause();
  }

 private:
  // items << 32 | next item: in one word, so that a late thread never takes an item of another phase.
  static bool has_items(uint64_t ticket) { return static_cast<uint32_t>(ticket) < ticket >> 32; }

  bool take_items() {
    int64_t done = 0;
    while (has_items(ticket_.load(std::memory_order_relaxed))) {
      const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
      if (!has_items(ticket)) break;
      run_(static_cast<uint32_t>(ticket));
      ++done;
    }
    if (done > 0) done_.fetch_add(done, std::memory_order_acq_rel);
    return done > 0;
  }
  uint32_t help(int thread) {
    if (!processors_.empty() && !std::exchange(bound_[thread].done, true)) run_on(processors_);
    const uint32_t seen = news_.load(std::memory_order_acquire);
    while (awake_.load(std::memory_order_acquire))
      if (!take_items()) hwy::Pause();
    return seen;
  }
  struct alignas(64) Bound {
    bool done = false;
  };
  const std::vector<int> processors_;
  const std::function<void(int64_t)> run_;
  std::vector<Bound> bound_;
  std::atomic<bool> awake_{false};
  std::atomic<uint32_t> news_{0};
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  Helpers helpers_; // last: its threads use the rest
};

class CpuExperts final : public core::HostExperts {
 public:
  CpuExperts(const core::Program& program, const std::vector<core::ExpertLayer>& layers, int threads,
             const HostExpertOptions& options)
      : program_(program), processors_(options.processors), threads_(threads), wide_(options.wide),
        crew_(threads, options.processors, [this](int64_t item) { run_item(item); }) {
    for (const core::ExpertLayer& layer : layers) add_layer(layer);
    allocate();
  }
  ~CpuExperts() override {
    stopped_ = true;
    ++news_;
    news_.notify_all();
  }

  int threads() const override { return threads_; }

  double measure(int experts) override {
    constexpr int kRuns = 9;
    std::vector<float> x(most_width_), out(experts * most_width_);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    std::vector<double> seconds(kRuns);
    crew_.wake();
    for (int run = 0; run < kRuns; ++run) {
      const size_t layer = run * 7 % layers_.size();
      Message message{layer, {}, {}, x.data(), out.data()};
      const auto all = static_cast<int32_t>(program_.weights[layers_[layer].gate.weight].count);
      for (int i = 0; i < experts; ++i) {
        message.expert.push_back((run * experts * 5 + i) % all);
        message.row.push_back(0);
      }
      const double start = core::seconds_now();
      compute(message);
      seconds[run] = core::seconds_now() - start;
    }
    crew_.sleep();
    std::ranges::nth_element(seconds, seconds.begin() + kRuns / 2);
    return seconds[kRuns / 2];
  }

  void serve(const core::ExpertMailbox& box) override {
    box_ = box;
    reader_ = std::jthread([this] { read_mail(); });
  }

  void expect(uint64_t messages) override {
    expected_.store(messages, std::memory_order_release);
    ++news_;
    news_.notify_all();
  }

 private:
  struct Matrix {
    core::WeightId weight;
    Linear linear;
    std::vector<float> bias;
  };
  struct Layer {
    Matrix gate, up, down;
    core::ActivationParams glu;
    std::vector<float> norm;
    float epsilon;
  };
  struct Message {
    size_t layer;
    std::vector<int32_t> expert, row;
    const float* x;
    float* out;
  };
  struct Group { // entries of one expert
    int32_t expert;
    size_t first, count;
  };

  std::vector<float> decoded(core::WeightId id) const {
    if (id < 0) return {};
    const core::Weight& vector = program_.weights[id];
    std::vector<float> values(vector.cols);
    format_of(vector).decode(vector.data, vector.cols, values.data());
    return values;
  }
  Matrix matrix(core::WeightId id, core::WeightId bias) {
    const core::Weight& weight = program_.weights[id];
    const auto [kernels, added] = kernels_.try_emplace(weight.type);
    if (added) kernels->second = format_kernels(weight.type);
    Matrix made{id, make_linear(weight, kernels->second), decoded(bias)};
    made.linear.wide = wide_;
    return made;
  }
  void add_layer(const core::ExpertLayer& layer) {
    layers_.push_back({matrix(layer.gate, layer.gate_bias), matrix(layer.up, layer.up_bias),
                       matrix(layer.down, layer.down_bias), layer.glu, decoded(layer.norm), layer.epsilon});
    most_width_ = std::max({most_width_, layers_.back().gate.linear.cols, layers_.back().down.linear.rows});
    most_hidden_ = std::max(most_hidden_, layers_.back().gate.linear.rows);
  }
  void allocate() {
    constexpr int64_t kEntries = core::kMostMailedExperts;
    const auto floats = [](int64_t count) {
      return Memory(count * static_cast<int64_t>(sizeof(float)), "activations");
    };
    normed_ = floats(core::kMostMailedRows * most_width_);
    gate_ = floats(kEntries * most_hidden_);
    up_ = floats(kEntries * most_hidden_);
    hidden_ = floats(kEntries * most_hidden_);
    x_codes_ = Memory(core::kMostMailedRows * code_bytes(most_width_), "activations");
    hidden_codes_ = Memory(kEntries * code_bytes(most_hidden_), "activations");
    numbers_.resize(kEntries);
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }
  int64_t code_bytes(int64_t cols) const { return QuantizedRow::bytes(round_up(cols, kChunk), wide_); }

  // Pieces of an expert's rows.
  int64_t pieces_of(int64_t rows, int64_t bytes) const {
    const int64_t most = std::clamp<int64_t>(bytes / kLeastPieceBytes, 1, rows);
    return std::min(most, ceil_div(kPiecesPerThread * threads_, std::ssize(groups_)));
  }

  void compute(const Message& message) {
    layer_ = &layers_[message.layer];
    out_ = message.out;
    const int64_t width = layer_->gate.linear.cols;
    const float* x = message.x;
    const int32_t rows = *std::ranges::max_element(message.row) + 1;
    const VectorKernels& vectors = vector_kernels();
    if (!layer_->norm.empty()) {
      for (int64_t r = 0; r < rows; ++r)
        vectors.rms_norm(message.x + r * width, layer_->norm.data(), width, layer_->epsilon,
                         normed_.as<float>() + r * width);
      x = normed_.as<float>();
    }
    x_ = x;
    for (int64_t r = 0; layer_->gate.linear.kernels->dot_codes && r < rows; ++r)
      quantize(x + r * width, width, x_codes_.data() + r * code_bytes(width));
    group(message);
    const Linear &gate = layer_->gate.linear, &down = layer_->down.linear;
    pieces_ = pieces_of(gate.rows, 2 * gate.rows * gate.row_bytes);
    for (size_t i = 0; i < groups_.size(); ++i) undone_[i].store(pieces_, std::memory_order_relaxed);
    begins_ = true;
    crew_.run(pieces_ * std::ssize(groups_));
    pieces_ = pieces_of(down.rows, down.rows * down.row_bytes);
    begins_ = false;
    crew_.run(pieces_ * std::ssize(groups_));
  }

  // Sorts entries by expert.
  void group(const Message& message) {
    const auto count = static_cast<int32_t>(message.expert.size());
    order_.assign(numbers_.begin(), numbers_.begin() + count);
    std::ranges::stable_sort(order_, {}, [&](int32_t i) { return message.expert[i]; });
    rows_.clear();
    groups_.clear();
    for (const int32_t i : order_) {
      rows_.push_back(message.row[i]);
      if (groups_.empty() || groups_.back().expert != message.expert[i])
        groups_.push_back({message.expert[i], rows_.size() - 1, 0});
      ++groups_.back().count;
    }
  }

  void quantize(const float* x, int64_t cols, std::byte* to) const {
    vector_kernels().quantize(x, cols, {to, round_up(cols, kChunk), wide_});
  }

  void run_item(int64_t item) {
    const Group& group = groups_[item / pieces_];
    const std::span entries = std::span(order_).subspan(group.first, group.count);
    const int64_t piece = item % pieces_;
    if (!begins_) {
      const int64_t rows = layer_->down.linear.rows, first = piece * rows / pieces_;
      return multiply(layer_->down, group.expert, hidden_.as<float>(), hidden_codes_.data(), entries, entries, first,
                      (piece + 1) * rows / pieces_ - first, out_);
    }
    const int64_t rows = layer_->gate.linear.rows, first = piece * rows / pieces_,
                  count = (piece + 1) * rows / pieces_ - first;
    const std::span in = std::span(rows_).subspan(group.first, group.count);
    float *gate = gate_.as<float>(), *up = up_.as<float>(), *hidden = hidden_.as<float>();
    multiply(layer_->gate, group.expert, x_, x_codes_.data(), in, entries, first, count, gate);
    multiply(layer_->up, group.expert, x_, x_codes_.data(), in, entries, first, count, up);
    for (const int32_t i : entries) {
      const int64_t at = i * rows + first;
      vector_kernels().glu(layer_->glu, gate + at, up + at, count, hidden + at);
    }
    if (undone_[item / pieces_].fetch_sub(1, std::memory_order_acq_rel) > 1 || !layer_->down.linear.kernels->dot_codes)
      return;
    for (const int32_t i : entries) quantize(hidden + i * rows, rows, hidden_codes_.data() + i * code_bytes(rows));
  }

  void multiply(const Matrix& matrix, int32_t expert, const float* x, std::byte* codes, std::span<const int32_t> in,
                std::span<const int32_t> out, int64_t first, int64_t count, float* to) const {
    Linear linear = matrix.linear;
    linear.matrix = program_.weights[matrix.weight].row(expert * linear.rows);
    if (!matrix.bias.empty()) linear.bias = matrix.bias.data() + expert * linear.rows;
    linear.x = x;
    if (linear.kernels->dot_codes) linear.quantized = codes;
    linear.out = to;
    run_dots(linear, in, out, first, count);
  }

  void read_mail() {
    if (!processors_.empty()) run_on(processors_);
    core::ExpertMail& mail = *box_.mail;
    const std::atomic_ref sent(mail.sent);
    uint64_t handled = 0;
    const auto has_mail = [&] { return sent.load(std::memory_order_acquire) >> core::kMailCountBits != handled; };
    for (;;) {
      const uint32_t seen = news_.load();
      if (stopped_) return;
      if (handled >= expected_) {
        news_.wait(seen);
        continue;
      }
      crew_.wake();
      for (double last = core::seconds_now(); !stopped_ && core::seconds_now() - last < kAwakeSeconds;) {
        if (!has_mail()) {
          hwy::Pause();
          continue;
        }
        const uint64_t now = sent.load(std::memory_order_acquire);
        handled = now >> core::kMailCountBits;
        if (const auto count = static_cast<int64_t>(now % (1 << core::kMailCountBits)); count > 0) answer(count);
        std::atomic_ref(mail.answered).store(handled, std::memory_order_release);
        last = core::seconds_now();
      }
      crew_.sleep();
      while (!stopped_ && handled < expected_ && !has_mail()) // the GPU does something else
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void answer(int64_t count) {
    const core::ExpertMail& mail = *box_.mail;
    message_ = {static_cast<size_t>(mail.layer),
                {mail.expert, mail.expert + count},
                {mail.row, mail.row + count},
                box_.x,
                box_.results};
    compute(message_);
  }

  const core::Program& program_;
  const std::vector<int> processors_;
  const int threads_;
  const bool wide_;
  std::map<uint32_t, FormatKernels> kernels_;
  std::vector<Layer> layers_;
  int64_t most_width_ = 0, most_hidden_ = 0;
  Memory normed_, gate_, up_, hidden_, x_codes_, hidden_codes_;
  std::vector<int32_t> numbers_;

  // What crew_ computes.
  const Layer* layer_ = nullptr;
  const float* x_ = nullptr;
  float* out_ = nullptr;
  bool begins_ = false; // gate and up; else down
  int64_t pieces_ = 1;  // per expert
  std::vector<Group> groups_;
  std::array<std::atomic<int64_t>, core::kMostMailedExperts> undone_ = {}; // by group, pieces of gate and up
  std::vector<int32_t> order_, rows_;                                      // entries by expert, their rows of x
  Crew crew_;

  core::ExpertMailbox box_ = {};
  Message message_ = {};
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> expected_{0};
  std::atomic<uint32_t> news_{0};
  std::jthread reader_; // last: uses the rest
};

} // namespace

std::unique_ptr<core::HostExperts> make_host_experts(const core::Program& program,
                                                     std::vector<core::ExpertLayer> layers,
                                                     const HostExpertOptions& options) {
  int threads = options.threads;
  if (threads <= 0) {
    threads = find_processors(options.processors.empty() ? usable_processors() : options.processors).threads();
    if (threads > 2) --threads;
  }
  return std::make_unique<CpuExperts>(program, layers, threads, options);
}

} // namespace ridge::kernels::cpu
