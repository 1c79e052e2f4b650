// Reference implementation of draft heads.
#pragma once

#include "engine/loading/fit.h"
#include "engine/sequences/session.h"
#include "engine/speculation/head_drafter.h"
#include "engine/speculation/speculation.h"
#include "support/executor_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace ridge::tests {

inline core::ExecutorConfig heads_config(int64_t context = 160) {
  core::ExecutorConfig config;
  config.context = context;
  config.max_batch = 24;
  config.max_outputs = 16;
  config.exact = true;
  config.threads = 1;
  config.k_type = config.v_type = core::KvType::f32;
  return config;
}

// Row k of head j depends on token k and row k - 1 of head j - 1 or the model; predicts token k + 1.
class HeadGuesses {
 public:
  HeadGuesses(const engine::LoadedModel& model, MakeExecutor make)
      : make_(std::move(make)), model_(model.program), first_(model.heads[0].first_token) {
    for (const engine::LoadedHead& head : model.heads) heads_.push_back(head.program);
  }

  // `pictures` of the text; may be null.
  std::vector<int32_t> behind(std::vector<int32_t> text, int64_t count,
                              const engine::TextPictures* pictures = nullptr) const {
    std::vector<float> rows = run(model_, std::span(text).first(text.size() - 1), {}, pictures, 0).rows;
    std::vector<int32_t> guesses;
    while (std::ssize(guesses) < count) {
      const size_t place = guesses.size(), head = std::min(place, heads_.size() - 1);
      rows.insert(rows.begin(), width(), 0.0f);
      const Result result = run(heads_[head], std::span(text).subspan(first_),
                                std::span(rows).subspan(first_ * width()), pictures, first_);
      guesses.push_back(result.likeliest);
      text.push_back(result.likeliest);
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(width()));
      if (head == place && place + 1 < heads_.size())
        rows = result.rows;
      else // the last head repeats
        rows.insert(rows.end(), result.rows.end() - static_cast<std::ptrdiff_t>(width()), result.rows.end());
    }
    return guesses;
  }

 private:
  struct Result {
    std::vector<float> rows;
    int32_t likeliest = -1;
  };
  size_t width() const { return static_cast<size_t>(model_.values[model_.hidden].width); }

  // `text` begins at token `first` of the one that has the pictures.
  Result run(const core::Program& program, std::span<const int32_t> text, std::span<const float> input,
             const engine::TextPictures* pictures, size_t first) const {
    const auto executor = make_(program, heads_config());
    Result result;
    for (size_t at = 0; at < text.size();) {
      Steps steps;
      std::vector<float> picture_rows;
      std::vector<int32_t> axes;
      for (; at < text.size() && steps.tokens.size() < 16; ++at) {
        const auto token = static_cast<int64_t>(first + at);
        steps.tokens.push_back(text[at]);
        if (pictures) std::ranges::copy(pictures->axes(token), std::back_inserter(axes));
        if (const auto* place = pictures ? pictures->at(token) : nullptr) {
          steps.tokens.back() = -1 - static_cast<int32_t>(std::ssize(picture_rows) / program.row_width);
          const float* row = place->tile->rows.get() + (token - place->first) * place->tile->width;
          picture_rows.insert(picture_rows.end(), row, row + program.row_width);
        }
        steps.positions.push_back(static_cast<int32_t>(at));
        steps.streams.push_back(0);
        steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size() - 1));
      }
      core::Batch batch = steps.batch();
      batch.rows = picture_rows;
      batch.axes = axes;
      batch.input = input.first(input.empty() ? 0 : steps.tokens.size() * width());
      input = input.subspan(batch.input.size());
      executor->forward(batch);
      const std::span<const float> rows = executor->hidden(), logits = executor->logits(std::ssize(steps.tokens) - 1);
      REQUIRE(rows.size() == steps.tokens.size() * width());
      result.rows.insert(result.rows.end(), rows.begin(), rows.end());
      result.likeliest = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    }
    return result;
  }

  const MakeExecutor make_;
  const core::Program model_;
  const size_t first_;
  std::vector<core::Program> heads_;
};

// A drafter whose drafts a derived class compares with their definition.
template <typename D>
class WatchedDrafter : public engine::Drafter {
 public:
  explicit WatchedDrafter(const engine::LoadedModel& model) : drafter_(model) {}

  void begin(std::span<const int32_t> tokens) override { drafter_.begin(tokens); }
  int prepare_draft(std::span<const int32_t> tokens) override {
    text_.assign(tokens.begin(), tokens.end());
    return drafter_.prepare_draft(tokens);
  }
  int64_t most_at_once() const override { return drafter_.most_at_once(); }
  bool reads_rows() const override { return drafter_.reads_rows(); }
  bool select(int32_t stream, const engine::TextPictures* pictures) override {
    pictures_ = pictures;
    return drafter_.select(stream, pictures);
  }
  int64_t resume(std::span<const int32_t> prompt) override { return drafter_.resume(prompt); }
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) override {
    drafter_.evaluated(tokens, rows);
  }

 protected:
  D drafter_;
  std::vector<int32_t> text_;
  const engine::TextPictures* pictures_ = nullptr;
};

class WatchedHeads final : public WatchedDrafter<engine::HeadDrafter> {
 public:
  WatchedHeads(const engine::LoadedModel& model, MakeExecutor make) : WatchedDrafter(model), expected_(model, make) {}

  std::vector<int32_t> draft(int64_t most) override {
    std::vector<int32_t> guesses = drafter_.draft(most);
    CAPTURE(text_.size());
    CHECK(guesses == expected_.behind(text_, most, pictures_));
    return guesses;
  }

 private:
  const HeadGuesses expected_;
};

// Texts of at most `longest` tokens that go back and on at random, with rows that come in pieces; some never come, and
// count as 0. `compare` gets the drafter and a new one that got the same rows, and a source of random numbers.
template <typename D, typename Compare>
void check_any_stops(const engine::LoadedModel& model, uint64_t seed, int32_t vocab, size_t longest,
                     const Compare& compare) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  const int64_t width = model.program.values[model.program.hidden].width;
  D drafter(model);
  std::vector<int32_t> text;
  std::vector<float> rows;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const int64_t same = text.empty() ? 0 : below(std::ssize(text));
    const int32_t other = text.empty() ? 0 : (text[same] + 1) % vocab;
    text.resize(same);
    text.push_back(other);
    for (int64_t i = below(round % 2 ? 110 : 12); i > 0 && text.size() < longest; --i)
      text.push_back(static_cast<int32_t>(below(vocab)));
    const int64_t size = std::ssize(text), known = drafter.resume(text);
    REQUIRE(known <= same);
    int64_t position = known + (below(2) ? below(size - known) : 0);
    rows.resize(known * width);
    rows.resize(position * width);
    while (rows.size() < static_cast<size_t>((size - 1) * width))
      rows.push_back(static_cast<float>(below(2000) - 1000) / 1000);
    while (position < size - 1) {
      const int64_t end = position + 1 + below(size - 1 - position);
      drafter.evaluated(std::span(text).first(end),
                        std::span(rows).subspan(position * width, (end - position) * width));
      position = end;
    }
    if (below(3) == 0) continue;
    D fresh(model);
    fresh.select(1, nullptr);
    fresh.evaluated(std::span(text).first(size - 1), rows);
    for (D* each : {&fresh, &drafter}) CHECK(each->prepare_draft(text) == 0);
    compare(drafter, fresh, size, below);
  }
}

// They refer to the model, which must not move.
inline void start(engine::LoadedModel& model, const MakeExecutor& make, int64_t streams = 1, int64_t context = 160) {
  core::ExecutorConfig config = heads_config(context);
  config.streams = streams;
  model.executor = make(model.program, config);
  for (engine::LoadedHead& head : model.heads) {
    if (!engine::guesses_blocks(head)) config.max_outputs = 1;
    head.executor = make(head.program, config);
  }
}

inline engine::LoadedModel open_with_heads(gguf::File file, const MakeExecutor& make, int64_t streams = 1,
                                           int64_t context = 160) {
  api::ModelOptions options;
  options.speculation = "mtp";
  engine::LoadedModel model = engine::open_generating(std::move(file), options);
  start(model, make, streams, context);
  return model;
}

inline engine::LoadedModel open_with_eagle(gguf::File file, gguf::File head, const MakeExecutor& make,
                                           int64_t streams = 1, int64_t context = 160,
                                           engine::Pictures pictures = engine::Pictures::no) {
  std::vector<engine::LoadedHead> heads;
  heads.push_back(engine::eagle_head(std::make_shared<const gguf::File>(std::move(head)), file, pictures));
  engine::LoadedModel model = engine::open_with_heads(std::move(file), std::move(heads), pictures);
  start(model, make, streams, context);
  return model;
}

inline engine::LoadedModel open_with_dflash(gguf::File file, gguf::File head, const MakeExecutor& make,
                                            int64_t streams = 1, int64_t context = 160) {
  std::vector<engine::LoadedHead> heads;
  heads.push_back(engine::dflash_head(std::make_shared<const gguf::File>(std::move(head)), file));
  engine::LoadedModel model = engine::open_with_heads(std::move(file), std::move(heads));
  start(model, make, streams, context);
  return model;
}

} // namespace ridge::tests
