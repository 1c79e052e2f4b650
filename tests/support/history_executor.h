// A cheap executor whose next token depends on all before, which reveals wrong caches, positions and streams.
#pragma once

#include "core/error.h"
#include "core/executor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ridge::tests {

class History final : public core::Executor {
 public:
  struct Settings {
    int64_t streams = 4, context = 64, max_batch = 16;
    bool recurrent = false;    // rewinds only by load_state()
    int64_t rewind_tokens = 0; // rewind limit without load_state(); 0: none
    bool decodes = false;
    int32_t vocab = 101;
    int64_t outputs = 0;
    bool has_rows = false;
  };
  static int32_t next_of(uint64_t state, int32_t vocab) { return static_cast<int32_t>((state >> 33) % vocab); }
  static uint64_t after(uint64_t state, int32_t token) {
    return (state + token + 1) * 6364136223846793005u + 1442695040888963407u;
  }

  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kRowWidth = 2;
  static std::array<float, kRowWidth> row_of(uint64_t state, int64_t position) {
    return {static_cast<float>(position), static_cast<float>(state >> 41)};
  }

  explicit History(const Settings& settings)
      : settings_(settings), streams_(settings.streams), reaches_(settings.streams) {
    config_.context = settings.context;
    config_.streams = settings.streams;
    config_.max_batch = settings.max_batch;
    config_.max_outputs = settings.outputs > 0 ? settings.outputs : settings.streams;
    if (settings.rewind_tokens > 0) config_.rewind_tokens = settings.rewind_tokens;
    program.vocab = settings.vocab;
    if (settings.recurrent) program.states.push_back({"state", 2});
    if (settings.has_rows) program.values.push_back({.name = "rows", .width = kRowWidth}), program.hidden = 0;
  }

  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    if (choosing.chain == core::Chain::resume) return resume(batch, choosing.guesses);
    if (before_step) before_step();
    if (broken) throw Error("the device is gone");
    core::check_batch(program, config_, batch);
    decoding_ = -1;
    unread_.clear();
    results_.clear();
    rows_.clear();
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      const int32_t stream = stream_of(batch, i);
      evaluate(stream, batch.tokens[i], batch.positions[i]);
      if (std::ranges::binary_search(batch.outputs, static_cast<int32_t>(i)))
        results_.push_back(next_of(streams_[stream].back(), settings_.vocab));
    }
    read_rows_ = rows_;
    evaluated += std::ssize(batch.tokens);
    largest = std::max<int64_t>(largest, std::ssize(batch.tokens));
    if (!choosing.samplers.empty()) choose(batch, choosing);
  }
  std::span<const int32_t> wait() override {
    if (unread_.empty()) return {};
    read_ = std::move(unread_.front());
    unread_.pop_front();
    if (decoding_ >= 0) chosen += std::ssize(read_.tokens), read_rows_ = read_.rows;
    return read_.tokens;
  }
  bool can_choose(const core::SamplerParams&) const override { return settings_.decodes; }
  bool can_chain(const core::SamplerParams&) const override { return settings_.decodes; }
  std::span<const float> logits(int64_t i) override {
    logits_.assign(settings_.vocab, 0.0f);
    logits_[results_.at(i)] = 10;
    return logits_;
  }
  std::span<const float> hidden() override { return read_rows_; }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    if (tokens > std::ssize(streams_[from])) throw std::logic_error("a copy of what is not there");
    streams_[to].assign(streams_[from].begin(), streams_[from].begin() + tokens);
    reaches_[to] = settings_.recurrent ? Reach{kNowhere} : reaches_[from];
    copied += tokens;
  }
  std::string block_layout() const override { return "history"; }
  int64_t block_bytes() const override { return kBlock * static_cast<int64_t>(sizeof(uint64_t)); }
  void expect_blocks(int64_t count) override {
    if (blocks_break) throw std::bad_alloc();
    blocks_expected = count;
  }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    if (copies_break) throw Error("no memory for copies");
    std::vector<uint64_t> rows = streams_[stream];
    rows.resize((first + std::ssize(blocks)) * kBlock);
    for (std::byte* block : blocks) std::memcpy(block, &rows[first++ * kBlock], block_bytes());
    saved += std::ssize(blocks);
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    if (copies_break) throw Error("no memory for copies");
    if (first * kBlock > std::ssize(streams_[stream])) throw std::logic_error("blocks behind a gap");
    streams_[stream].resize((first + std::ssize(blocks)) * kBlock);
    for (const std::byte* block : blocks) std::memcpy(&streams_[stream][first++ * kBlock], block, block_bytes());
    reaches_[stream] = {kNowhere};
    loaded += std::ssize(blocks);
  }
  void mark_state(int32_t stream) override { mark_ = {stream, streams_[stream]}; }
  void restore_mark() override { streams_[mark_.first] = mark_.second; }
  bool can_resume_at(int32_t stream, int64_t position) const override {
    if (position == 0 || saved_floats() == 0) return true;
    const Reach& reach = reaches_[stream];
    if (settings_.recurrent && position != std::ssize(streams_[stream])) return false;
    return position >= reach.given &&
           (settings_.recurrent || position >= reach.end - settings_.rewind_tokens - settings_.max_batch);
  }
  int64_t saved_floats() const override { return settings_.recurrent || settings_.rewind_tokens > 0 ? 2 : 0; }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    if (!can_resume_at(stream, position)) throw std::logic_error("a copy of what is not there");
    std::memcpy(state.data(), &streams_[stream][position - 1], sizeof(uint64_t));
    ++states_saved;
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    streams_[stream].resize(position);
    std::memcpy(&streams_[stream].back(), state.data(), sizeof(uint64_t));
    reaches_[stream] = {position, position};
  }
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return "history"; }
  double memory_bytes() const override { return 0; }

  core::Program program;
  std::atomic<int64_t> evaluated = 0, largest = 0, chosen = 0, chosen_together = 0, copied = 0, saved = 0, loaded = 0,
                       states_saved = 0, blocks_expected = 0;
  std::atomic<bool> broken = false, copies_break = false, blocks_break = false;
  std::function<void()> before_step;

 private:
  static int32_t stream_of(const core::Batch& batch, size_t token) {
    return batch.streams.empty() ? 0 : batch.streams[token];
  }
  void choose(const core::Batch& batch, const core::Choosing& choosing) {
    if (choosing.samplers.size() != results_.size()) throw std::logic_error("as many samplers as outputs");
    unread_.push_back({results_, rows_});
    if (choosing.chain == core::Chain::begin) {
      decoding_ = stream_of(batch, 0);
      return;
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!choosing.samplers[i]) unread_.back().tokens[i] = 0;
      chosen_together += choosing.samplers[i] != nullptr;
    }
  }
  void resume(const core::Batch& batch, int64_t guesses) {
    const bool follows = batch.tokens[0] == core::kChosenToken;
    if (decoding_ < 0 || follows == unread_.empty() || stream_of(batch, 0) != decoding_)
      throw std::logic_error("a chain resumes out of turn");
    const std::vector<int32_t> tokens =
        follows ? std::vector{unread_.back().tokens.back()} : std::vector(batch.tokens.begin(), batch.tokens.end());
    const int64_t known = std::ssize(tokens) - guesses;
    std::vector<int32_t> behind;
    rows_.clear();
    for (int64_t i = 0; i < std::ssize(tokens); ++i) {
      evaluate(decoding_, tokens[i], batch.positions[i]);
      const bool refuted = i >= known && (std::ssize(behind) != i - known + 1 || behind.back() != tokens[i]);
      if (i >= known - 1 && !refuted) behind.push_back(next_of(streams_[decoding_].back(), settings_.vocab));
    }
    unread_.push_back({behind, rows_});
    if (follows) return;
    evaluated += std::ssize(tokens);
    largest = std::max<int64_t>(largest, std::ssize(tokens));
  }
  void evaluate(int32_t number, int32_t token, int32_t position) {
    std::vector<uint64_t>& stream = streams_[number];
    if (position > std::ssize(stream)) throw std::logic_error("a gap in the cache");
    if (!can_resume_at(number, position)) throw std::logic_error("a state or a window went back by itself");
    if (position == 0) reaches_[number] = {};
    reaches_[number].end = std::max<int64_t>(reaches_[number].end, position + 1);
    stream.resize(position);
    stream.push_back(after(stream.empty() ? 0 : stream.back(), token));
    if (!settings_.has_rows) return;
    const auto row = row_of(stream.back(), position);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }

  static constexpr int64_t kNowhere = int64_t{1} << 60;
  struct Reach {                // where a stream can continue, besides 0
    int64_t given = 0, end = 0; // first possible position; end of the evaluated tokens
  };

  const Settings settings_;
  core::ExecutorConfig config_;
  std::vector<std::vector<uint64_t>> streams_;
  std::vector<Reach> reaches_;
  std::vector<int32_t> results_;
  std::vector<float> logits_, rows_, read_rows_;
  int32_t decoding_ = -1; // stream of a chain
  struct Chosen {
    std::vector<int32_t> tokens;
    std::vector<float> rows; // of the batch
  };
  std::deque<Chosen> unread_;
  Chosen read_;
  std::pair<int32_t, std::vector<uint64_t>> mark_;
};

} // namespace ridge::tests
