// Checks executors with the reference's recipes.
#pragma once

#include "models/architecture.h"
#include "models/model.h"
#include "support/executor_runs.h"
#include "support/recipes/recipe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace ridge::tests {

template <typename Wanted>
std::vector<std::string> recipes_where(Wanted wanted) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(reference_dir() + "/recipes")) {
    if (entry.path().extension() != ".json") continue;
    const Recipe recipe(entry.path().stem().string());
    const std::string architecture = recipe.document["metadata"][0][2];
    if (models::find_architecture(architecture) && wanted(recipe)) names.push_back(recipe.name);
  }
  std::ranges::sort(names);
  return names;
}

// `whole`: those of non-causal models, evaluated in one batch.
inline std::vector<std::string> known_recipes(const std::string& output = "logits", bool whole = false) {
  return recipes_where([&](const Recipe& recipe) {
    return recipe.document["output"] == output && recipe.document.value("whole", false) == whole &&
           !recipe.has_tensor("dec.");
  });
}

// The share that this run checks.
inline std::vector<std::string> share_of(std::vector<std::string> names, int64_t usual) {
  Share share(usual);
  std::erase_if(names, [&](const std::string&) { return !share.takes_next(); });
  return names;
}

// Whether head widths are whole blocks of the cache type.
inline bool has_cache_of(const core::Program& program, core::KvType type) {
  return !core::has_blocks(type) || std::ranges::all_of(program.kv_layers, [](const core::KvLayer& layer) {
    return layer.k_dim % core::kKvBlock == 0 && layer.v_dim % core::kKvBlock == 0;
  });
}

inline void run_pieces(core::Executor& executor, std::span<const int32_t> ids, size_t first, size_t last, size_t size,
                       std::vector<float>& logits, int32_t stream = 0) {
  for (size_t at = first; at < last; at += size) {
    Steps steps;
    for (size_t i = at; i < std::min(last, at + size); ++i) {
      steps.tokens.push_back(ids[i]);
      steps.positions.push_back(static_cast<int32_t>(i));
      steps.streams.push_back(stream);
      steps.outputs.push_back(static_cast<int32_t>(i - at));
    }
    const std::vector<float> some = run(executor, steps);
    logits.insert(logits.end(), some.begin(), some.end());
  }
}

inline std::vector<float> in_pieces(const MakeExecutor& make, const core::Program& program,
                                    const core::ExecutorConfig& config, std::span<const int32_t> ids, size_t size) {
  std::vector<float> logits;
  run_pieces(*make(program, config), ids, 0, ids.size(), size, logits);
  return logits;
}

// The second half is repeated from a saved state.
inline std::vector<float> after_going_back(const MakeExecutor& make, const core::Program& program,
                                           const core::ExecutorConfig& config, std::span<const int32_t> ids) {
  const auto executor = make(program, config);
  const size_t half = ids.size() / 2;
  std::vector<float> state(executor->saved_floats()), logits, dropped;
  run_pieces(*executor, ids, 0, half, half, logits);
  executor->save_state(0, state, static_cast<int64_t>(half));
  run_pieces(*executor, ids, half, ids.size(), 5, dropped);
  executor->load_state(0, state, static_cast<int64_t>(half));
  run_pieces(*executor, ids, half, ids.size(), ids.size(), logits);
  return logits;
}

// Whether rounding may change which experts or gates are selected.
inline bool chooses(const core::Program& program) {
  return std::ranges::any_of(program.ops, [](const core::Op& op) {
    const auto* activation = std::get_if<core::ActivationParams>(&op.params);
    return op.kind == core::OpKind::route || (activation && activation->kind == core::Activation::relu);
  });
}

// All matrices that `type` can encode, except routers.
inline std::set<std::string> matrices(const core::Program& program, quant::Type type) {
  std::set<std::string> names, others;
  for (const core::Op& op : program.ops) {
    const bool routes = std::ranges::any_of(program.ops, [&](const core::Op& reader) {
      return reader.kind == core::OpKind::route && std::ranges::count(op.outputs, reader.inputs[0]) > 0;
    });
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const core::Weight& weight = program.weights[op.weights[i]];
      const core::WeightRole role = core::info_of(op.kind).weights.roles[i];
      const bool matrix = role == core::WeightRole::matrix || role == core::WeightRole::experts;
      const bool fits = weight.cols % quant::format(type).block_weights == 0;
      (matrix && fits && !routes ? names : others).insert(weight.name);
    }
  }
  for (const std::string& name : others) names.erase(name);
  return names;
}

// Bounds on NMSE. Rounding may select other experts for a token, whose logits are then far off: hence bounds for the
// closest three quarters of tokens, and for all.
struct FastBounds {
  double dense, most_with_experts, all_with_experts;
};

inline double nmse_of_most(std::span<const float> rows, std::span<const float> reference, size_t width) {
  std::vector<double> each;
  for (size_t i = 0; i < rows.size(); i += width)
    each.push_back(nmse(rows.subspan(i, width), reference.subspan(i, width)));
  if (std::ranges::any_of(each, [](double value) { return std::isnan(value); })) return NAN;
  std::ranges::sort(each);
  each.resize(std::max<size_t>(1, each.size() * 3 / 4));
  return std::reduce(each.begin(), each.end()) / static_cast<double>(each.size());
}

// Fast against exact mode; size 0: all tokens.
inline void check_fast(const MakeExecutor& make, const std::string& name, std::initializer_list<quant::Type> types,
                       std::initializer_list<size_t> sizes, FastBounds bounds) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File original = recipe.open();
  const core::Program wide = models::build_program(original);
  const std::vector<int32_t> ids = recipe.ids();
  for (const quant::Type type : types) {
    const std::set<std::string> encoded = matrices(wide, type);
    if (encoded.empty()) continue;
    CAPTURE(quant::format(type).name);
    const gguf::File file = recipe.open_as(type, encoded);
    const core::Program program = models::build_program(file);
    const std::vector<float> exact = in_pieces(make, program, exact_config(), ids, ids.size());
    for (const size_t size : sizes) {
      const std::vector<float> fast = in_pieces(make, program, fast_config(), ids, size > 0 ? size : ids.size());
      CHECK(nmse(fast, exact) <= (chooses(program) ? bounds.all_with_experts : bounds.dense));
      if (chooses(program)) CHECK(nmse_of_most(fast, exact, exact.size() / ids.size()) <= bounds.most_with_experts);
    }
  }
}

// Against f32. Measured maxima: 2.3e-2 with experts, 8e-2 with selected positions, 2.8e-3 with sharpened scores.
inline void check_caches(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> ids = recipe.ids();
  const std::vector<float> exact = in_pieces(make, program, exact_config(), ids, ids.size());
  const bool positions =
      std::ranges::any_of(program.ops, [](const core::Op& op) { return op.kind == core::OpKind::index_choice; });
  const double bound = positions ? 0.2 : chooses(program) ? 5e-2 : core::amplifies_errors(program) ? 1e-2 : 1e-3;
  for (const core::KvType type : {core::KvType::f16, core::KvType::q8_0}) {
    if (program.kv_layers.empty() || !has_cache_of(program, type)) continue;
    CAPTURE(static_cast<int>(type));
    core::ExecutorConfig config = exact_config();
    config.k_type = config.v_type = type;
    CHECK(nmse(in_pieces(make, program, config, ids, 7), exact) <= bound);
  }
}

// `again`: in pieces and after a rewind.
inline void check_recipe(const MakeExecutor& make, const std::string& name, bool again = true) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> ids = recipe.ids();
  const double spread = recipe.document["spread"];
  const core::ExecutorConfig config = exact_config();
  const std::vector<float> whole = in_pieces(make, program, config, ids, ids.size());
  CHECK(nmse(whole, recipe.golden()) <= std::max(1e-6, 100 * spread));
  if (!again) return;
  const double bound = spread > 1e-10 ? 1e-6 : 1e-9;
  CHECK(nmse(in_pieces(make, program, config, ids, 1), whole) <= bound);
  CHECK(nmse(in_pieces(make, program, config, ids, 7), whole) <= bound);
  CHECK(nmse(after_going_back(make, program, config, ids), whole) <= bound);
}

// Copies half of another stream's cache.
inline void check_copied_cache(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> ids = recipe.ids();
  const size_t half = ids.size() / 2 + 1;
  for (const core::KvType type : {core::KvType::f32, core::KvType::f16, core::KvType::q8_0, core::KvType::q5_1}) {
    CAPTURE(type);
    if (!has_cache_of(program, type)) continue;
    core::ExecutorConfig config = exact_config();
    config.k_type = config.v_type = type;
    config.streams = 3;
    const auto executor = make(program, config);
    std::vector<float> dropped;
    run_pieces(*executor, ids, 0, half, half, dropped);
    executor->copy_cache(0, 2, static_cast<int64_t>(half));
    std::vector<float> state(executor->saved_floats());
    executor->save_state(0, state, static_cast<int64_t>(half));
    if (!state.empty()) executor->load_state(2, state, static_cast<int64_t>(half));
    std::vector<float> rest, of_copy;
    run_pieces(*executor, ids, half, ids.size(), ids.size(), rest);
    run_pieces(*executor, ids, half, ids.size(), ids.size(), of_copy, 2);
    CHECK(rest == of_copy);
  }
}

class SavedStream {
 public:
  SavedStream(core::Executor& executor, const core::Program& program, int64_t tokens)
      : tokens_(tokens), state_(executor.saved_floats()) {
    std::vector<std::byte*> bytes;
    for (int64_t at = 0; at < tokens; at += core::block_positions(program)) {
      blocks_.push_back(executor.make_block());
      bytes.push_back(blocks_.back().get());
    }
    executor.save_blocks(0, 0, bytes);
    executor.save_state(0, state_, tokens);
  }
  void load(core::Executor& executor, int32_t stream) const {
    std::vector<const std::byte*> bytes;
    for (const auto& block : blocks_) bytes.push_back(block.get());
    executor.load_blocks(stream, 0, bytes);
    if (!state_.empty()) executor.load_state(stream, state_, tokens_);
  }

 private:
  const int64_t tokens_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::vector<float> state_;
};

// Continues bit-identically in another executor.
inline void check_restored_blocks(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> ids = recipe.ids();
  const size_t part = ids.size() * 3 / 4;
  for (const core::KvType type : {core::KvType::f32, core::KvType::f16, core::KvType::q8_0, core::KvType::q5_1}) {
    CAPTURE(type);
    if (!has_cache_of(program, type)) continue;
    core::ExecutorConfig config = exact_config();
    config.context = std::ssize(ids) + 1;
    config.k_type = config.v_type = type;
    config.streams = 2;
    const auto first = make(program, config), second = make(program, config);
    std::vector<float> dropped;
    run_pieces(*first, ids, 0, part, part, dropped);
    const SavedStream saved(*first, program, static_cast<int64_t>(part));
    saved.load(*second, 1);
    std::vector<float> rest, of_restored;
    run_pieces(*first, ids, part, ids.size(), ids.size(), rest);
    run_pieces(*second, ids, part, ids.size(), ids.size(), of_restored, 1);
    CHECK(rest == of_restored);
  }
}

// Against the reference; approximate in fast mode.
inline void check_embedding_recipe(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const std::vector<int32_t> ids = recipe.ids();
  const auto hidden_states = [&](const gguf::File& file, const core::ExecutorConfig& config) {
    const core::Program program = models::build_program(file, models::Ending::hidden);
    CHECK(program.embeds);
    return in_pieces(make, program, config, ids, ids.size());
  };
  CHECK(nmse(hidden_states(recipe.open(), exact_config()), recipe.golden_embeddings()) <= 1e-6);
  std::set<std::string> matrices;
  for (const auto& tensor : recipe.document["tensors"])
    if (const auto of = tensor[0].get<std::string>(); of.ends_with("weight") && tensor[1].size() > 1 &&
                                                      of.find("rel_b") == std::string::npos &&
                                                      of.find("gate_inp") == std::string::npos)
      matrices.insert(of);
  const gguf::File packed = recipe.open_as(quant::Type::Q8_0, matrices);
  CHECK(nmse(hidden_states(packed, fast_config()), hidden_states(packed, exact_config())) <= 3e-3);
}

} // namespace ridge::tests
