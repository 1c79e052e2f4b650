// Encoder-decoder models; recipes give both Programs the same tokens.
#pragma once

#include "core/encoding/encoder_executor.h"
#include "support/recipes/recipe_runs.h"

namespace ridge::tests {

inline std::vector<std::string> encoder_recipes() {
  return recipes_where([](const Recipe& recipe) { return recipe.has_tensor("dec."); });
}

struct EncoderModel {
  explicit EncoderModel(const gguf::File& file)
      : encoder(models::build_program(file, models::Ending::encoded)), decoder(models::build_program(file)) {}

  std::unique_ptr<core::Executor> start(const MakeExecutor& make, core::ExecutorConfig config) const {
    config.context = config.max_batch = config.max_outputs = 128;
    config.streams = 2;
    return core::make_encoder_executor(encoder, make(encoder, core::encoder_config(config)), decoder,
                                       make(decoder, config));
  }

  core::Program encoder, decoder;
};

// Evaluates tokens from `first` in batches of `size`; returns logits from `start`.
inline std::vector<float> written(core::Executor& executor, std::span<const int32_t> tokens, size_t start, size_t size,
                                  size_t first = 0, int32_t stream = 0) {
  std::vector<float> logits;
  for (size_t at = first; at < tokens.size(); at += size) {
    Steps steps;
    for (size_t i = at; i < std::min(tokens.size(), at + size); ++i) {
      steps.tokens.push_back(tokens[i]);
      steps.positions.push_back(static_cast<int32_t>(i));
      steps.streams.push_back(stream);
      if (i >= start) steps.outputs.push_back(static_cast<int32_t>(i - at));
    }
    const std::vector<float> some = run(executor, steps);
    logits.insert(logits.end(), some.begin(), some.end());
  }
  return logits;
}

inline void check_encoder_recipe(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const EncoderModel model(file);
  std::vector<int32_t> tokens = recipe.ids();
  const size_t start = tokens.size(), end = 2 * start, vocab = model.decoder.vocab;
  tokens.insert(tokens.end(), tokens.begin(), tokens.end());
  REQUIRE(core::find_start(model.decoder, tokens) == static_cast<int64_t>(start));
  const auto executor = model.start(make, exact_config());
  const std::vector<float> whole = written(*executor, tokens, start, end);
  // Scores are not scaled by their width, so attention amplifies rounding.
  constexpr double kOfReference = 1e-5, kOfPieces = 1e-7;
  const double error = nmse(whole, recipe.golden());
  MESSAGE(name, ": NMSE ", error);
  CHECK(error <= kOfReference);
  for (const size_t size : {1, 7}) CHECK(nmse(written(*executor, tokens, start, size), whole) <= kOfPieces);

  // Rewinds to the start token and to five tokens after it, with another text between.
  const auto rest_of = [&](size_t from) { return std::span(whole).subspan((from - start) * vocab); };
  for (const size_t from : {start, start + 5}) {
    CHECK(executor->can_resume_at(0, static_cast<int64_t>(from)));
    CHECK(nmse(written(*executor, tokens, from, end, from), rest_of(from)) <= kOfPieces);
  }
  std::vector<int32_t> shorter = tokens;
  shorter.erase(shorter.begin() + 9, shorter.begin() + 20);
  CHECK(nmse(written(*executor, shorter, start - 11, end, 9), whole) > 1e-3);
  CHECK(nmse(written(*executor, tokens, start, 11, 9), whole) <= kOfPieces);

  // Another stream copies the cache and continues after all or a part of it.
  executor->copy_cache(0, 1, static_cast<int64_t>(end));
  for (const size_t from : {end - 3, start + 1})
    CHECK(nmse(written(*executor, tokens, from, 2, from, 1), rest_of(from)) <= kOfPieces);

  CHECK_THROWS_WITH_AS(written(*executor, tokens, 3, 8), "tokens read by the encoder have no logits", Error);
}

inline void check_fast_encoder(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  std::set<std::string> packed;
  for (const auto& tensor : recipe.document["tensors"])
    if (const auto of = tensor[0].get<std::string>(); tensor[1].size() > 1 && of.find("rel_b") == std::string::npos)
      packed.insert(of);
  const gguf::File file = recipe.open_as(quant::Type::Q8_0, packed);
  const EncoderModel model(file);
  std::vector<int32_t> tokens = recipe.ids();
  const size_t start = tokens.size();
  tokens.insert(tokens.end(), tokens.begin(), tokens.end());
  const std::vector<float> exact = written(*model.start(make, exact_config()), tokens, start, 2 * start);
  CHECK(nmse(written(*model.start(make, fast_config()), tokens, start, 13), exact) <= 1e-2);
}

} // namespace ridge::tests
