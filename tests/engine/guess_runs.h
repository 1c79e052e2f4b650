// Generation with and without drafts.
#pragma once

#include "engine/scripted_drafter.h"
#include "engine/sequences/session.h"
#include "support/http/requests.h"
#include "support/recipes/recipe_runs.h"

namespace ridge::tests {

inline std::vector<int32_t> generated(core::Executor& executor, const core::Program& program,
                                      std::span<const int32_t> prompt, const core::SamplerParams& params, int64_t count,
                                      std::unique_ptr<engine::Speculator> speculator = nullptr) {
  engine::Session session(executor, program, std::move(speculator));
  session.generate(request_of(prompt, count, params));
  return {session.tokens().begin(), session.tokens().end()};
}

inline void check_same(const std::vector<int32_t>& with_guesses, const std::vector<int32_t>& plain) {
  const auto first_other = std::ranges::mismatch(with_guesses, plain).in1 - with_guesses.begin();
  CAPTURE(first_other);
  CHECK(with_guesses == plain);
}

// Exact mode is independent of the batch, so drafts must not change the answer. Seven of ten guesses are right.
inline void check_guesses(const MakeExecutor& make, const gguf::File& file, std::span<const int32_t> prompt,
                          const core::SamplerParams& params, int64_t count, std::initializer_list<int64_t> lengths,
                          int64_t rewind_tokens = 256) {
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = std::ssize(prompt) + count;
  config.max_batch = 64;
  config.max_outputs = 16;
  config.rewind_tokens = rewind_tokens;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  const auto executor = make(program, config);
  const std::vector<int32_t> plain = generated(*executor, program, prompt, params, count);
  REQUIRE(plain.size() == prompt.size() + count);
  for (const int64_t length : lengths) {
    CAPTURE(length);
    auto drafter = std::make_unique<ScriptedDrafter>(plain, 0.7, static_cast<int32_t>(program.vocab), length);
    check_same(generated(*executor, program, prompt, params, count,
                         std::make_unique<engine::Speculator>(std::move(drafter), length)),
               plain);
  }
}

// Other keys, widths or more layers add no kind of KV cache.
inline std::vector<std::string> recipes_to_guess_for() {
  std::vector<std::string> names = known_recipes();
  std::erase_if(names, [](const std::string& name) {
    return name.find('+') != name.npos || name.find("-deep") != name.npos || name.find("-hd") != name.npos;
  });
  return names;
}

// Skips models that amplify rounding (`spread`).
inline void check_guesses(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  if (recipe.document["spread"].get<double>() > 1e-7) return;
  core::SamplerParams greedy, sampled;
  greedy.temp = 0;
  sampled.seed = 7;
  sampled.temp = 2;
  sampled.repeat_penalty = 1.2f;
  sampled.repeat_last_n = 16;
  std::vector<int32_t> prompt = recipe.ids();
  prompt.resize(9);
  const gguf::File file = recipe.open();
  check_guesses(make, file, prompt, greedy, 45, {1, 15});
  check_guesses(make, file, prompt, sampled, 45, {4});
}

} // namespace ridge::tests
