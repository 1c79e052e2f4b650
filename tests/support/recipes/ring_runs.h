// Ring buffers against whole caches, after several wraps.
#pragma once

#include "core/rings.h"
#include "support/recipes/recipe_runs.h"

namespace ridge::tests {

// At least 32 rows; windows are 4 to 16.
inline core::ExecutorConfig ring_config(core::ExecutorConfig config) {
  config.context = 200;
  config.max_batch = 8;
  config.max_outputs = 8;
  config.rewind_tokens = 8;
  return config;
}

inline bool has_rings(const core::Program& program, const core::ExecutorConfig& config) {
  return std::ranges::any_of(core::cache_rows(program, config), &core::CacheRows::is_ring);
}

inline std::vector<int32_t> long_text(const Recipe& recipe, size_t count) {
  const std::vector<int32_t> ids = recipe.ids();
  std::vector<int32_t> text(count);
  for (size_t i = 0; i < count; ++i) text[i] = ids[(i * 5 + i / ids.size()) % ids.size()];
  return text;
}

class RingRuns {
 public:
  RingRuns(const MakeExecutor& make, const core::Program& program, const core::ExecutorConfig& config,
           std::span<const int32_t> text, double bound)
      : make_(make), program_(program), config_(config), text_(text), bound_(bound) {
    core::ExecutorConfig whole = config;
    whole.rewind_tokens = whole.context;
    CHECK_FALSE(has_rings(program, whole));
    whole_ = in_pieces(make, program, whole, text, 7);
  }

  void check_pieces(std::initializer_list<size_t> sizes) {
    for (const size_t size : sizes) CHECK(nmse(in_pieces(make_, program_, config_, text_, size), whole_) <= bound_);
  }

  // Short rewinds work; longer ones need a saved state.
  void check_going_back() {
    const auto executor = make_(program_, config_);
    const size_t count = text_.size(), there = count / 2;
    std::vector<float> state(executor->saved_floats()), logits, dropped;
    run_pieces(*executor, text_, 0, there, 8, logits);
    executor->save_state(0, state, static_cast<int64_t>(there));
    run_pieces(*executor, text_, there, count, 5, dropped);
    CHECK_FALSE(executor->can_resume_at(0, static_cast<int64_t>(there)));
    CHECK_THROWS_AS(run_pieces(*executor, text_, there, there + 1, 1, dropped), Error);
    if (program_.states.empty()) {
      const size_t back = count - static_cast<size_t>(config_.rewind_tokens);
      REQUIRE(executor->can_resume_at(0, static_cast<int64_t>(back)));
      std::vector<float> again;
      run_pieces(*executor, text_, back, count, 3, again);
      CHECK(nmse(again, rows_from(back)) <= bound_);
    }
    executor->load_state(0, state, static_cast<int64_t>(there));
    run_pieces(*executor, text_, there, count, 8, logits);
    CHECK(nmse(logits, whole_) <= bound_);
    run_pieces(*executor, text_, 0, 8, 8, again_from_start_);
    CHECK(nmse(again_from_start_, {whole_.begin(), whole_.begin() + std::ssize(again_from_start_)}) <= bound_);
  }

  // Checks restored blocks, also after the source continued within its rewind limit.
  void check_restored() {
    core::ExecutorConfig config = config_;
    config.streams = 2;
    const auto first = make_(program_, config), second = make_(program_, config);
    const size_t count = text_.size(), there = count * 3 / 4;
    const size_t ahead = program_.states.empty() ? static_cast<size_t>(config.rewind_tokens) : 0;
    std::vector<float> dropped;
    run_pieces(*first, text_, 0, there + ahead, 8, dropped);
    std::vector<float> rest, of_restored;
    const SavedStream saved(*first, program_, static_cast<int64_t>(there));
    run_pieces(*second, text_, 0, 60, 8, dropped, 1);
    saved.load(*second, 1);
    run_pieces(*first, text_, there, count, 8, rest);
    run_pieces(*second, text_, there, count, 8, of_restored, 1);
    CHECK(rest == of_restored);
    CHECK(nmse(rest, rows_from(there)) <= bound_);
  }

  // Streams continue from another's cache and a saved state.
  void check_copies() {
    core::ExecutorConfig config = config_;
    config.streams = 3;
    const auto executor = make_(program_, config);
    const size_t count = text_.size(), there = count / 2 + 1;
    std::vector<float> state(executor->saved_floats()), dropped;
    run_pieces(*executor, text_, 0, there, 8, dropped);
    executor->copy_cache(0, 2, static_cast<int64_t>(there));
    executor->save_state(0, state, static_cast<int64_t>(there));
    CHECK(executor->can_resume_at(2, static_cast<int64_t>(there)) == program_.states.empty());
    if (!program_.states.empty()) executor->load_state(2, state, static_cast<int64_t>(there));
    run_pieces(*executor, text_, there, count, 8, dropped);
    check_rest(*executor, 2, there);
    executor->copy_cache(0, 1, static_cast<int64_t>(there));
    CHECK_FALSE(executor->can_resume_at(1, static_cast<int64_t>(there)));
    executor->load_state(1, state, static_cast<int64_t>(there));
    check_rest(*executor, 1, there);
  }

 private:
  std::vector<float> rows_from(size_t token) const {
    const size_t row = whole_.size() / text_.size();
    return {whole_.begin() + static_cast<std::ptrdiff_t>(token * row), whole_.end()};
  }
  void check_rest(core::Executor& executor, int32_t stream, size_t from) {
    std::vector<float> logits;
    run_pieces(executor, text_, from, text_.size(), 6, logits, stream);
    CHECK(nmse(logits, rows_from(from)) <= bound_);
  }

  const MakeExecutor& make_;
  const core::Program& program_;
  const core::ExecutorConfig config_;
  const std::span<const int32_t> text_;
  const double bound_;
  std::vector<float> whole_, again_from_start_;
};

// Returns whether the recipe has windows.
inline bool check_rings(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config = ring_config(exact_config());
  if (!has_rings(program, config)) return false;
  const std::vector<int32_t> text = long_text(recipe, 110);
  for (const core::KvType type : {core::KvType::f32, core::KvType::f16, core::KvType::q8_0}) {
    CAPTURE(static_cast<int>(type));
    if (!has_cache_of(program, type)) continue;
    config.k_type = config.v_type = type;
    // Rounding may flip gates and codes; measured maxima: 4e-6 and 1.1e-4.
    const bool full = type == core::KvType::f32;
    RingRuns runs(make, program, config, text, full ? 1e-5 : 1e-3);
    if (full) {
      runs.check_pieces({1, 5});
      runs.check_going_back();
    } else {
      runs.check_pieces({8});
      runs.check_restored();
    }
    runs.check_copies();
  }
  return true;
}

} // namespace ridge::tests
