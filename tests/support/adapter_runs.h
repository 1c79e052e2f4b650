// Streams with different LoRA adapters.
#pragma once

#include "models/model.h"
#include "models/synthetic.h"
#include "support/adapters.h"
#include "support/executor_runs.h"

#include <vector>

namespace ridge::tests {

struct AdaptedModel {
  gguf::File file;
  std::vector<models::AdapterFile> adapters;
  core::Program plain, program;

  AdaptedModel(bool experts, std::mt19937_64& random) : file(model(experts)), plain(models::build_program(file)) {
    for (const int64_t rank : {3, 16}) {
      AdapterImage image(file.get_string("general.architecture"), 8);
      for (const gguf::Tensor& tensor : file.tensors())
        if (tensor.n_dims > 1 && tensor.name != models::kEmbeddingTable) image.add_pair(tensor, rank, random);
      adapters.emplace_back(image.file());
    }
    program = plain;
    const models::ScaledAdapter scaled[] = {{&adapters[0], 0.3f}, {&adapters[1], 0}};
    models::add_adapters(program, file, scaled);
  }
  static gguf::File model(bool experts) {
    models::Shape shape{"small", experts ? "qwen3moe" : "llama", 2, 128, 192, 4, 2, 32, 96, 1e4};
    if (experts) shape.experts = 8, shape.experts_used = 2;
    return gguf::File::from_bytes(models::random_image(models::metadata_of(shape), models::tensors_of(shape)), "m");
  }
};

// Streams with default scales, none, both, and one from position 4.
inline std::vector<std::vector<core::AdapterUse>> different_uses() {
  return {{{0.3f, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {{0.5f, 0}, {-0.25f, 0}}, {{0, 0}, {0.4f, 4}}};
}

inline void check_adapters(const MakeExecutor& make, const core::ExecutorConfig& wanted, double bound, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const bool experts : {false, true}) {
    CAPTURE(experts);
    const AdaptedModel model(experts, random);
    core::ExecutorConfig config = wanted;
    config.streams = 4;
    const auto executor = make(model.program, config), without = make(model.plain, config);
    Naive naive(model.program, config.k_type, config.v_type);
    const auto uses = different_uses();
    for (int32_t stream = 1; stream < 4; ++stream) executor->set_adapters(stream, uses[stream]);
    for (int32_t stream = 0; stream < 4; ++stream) naive.set_adapters(stream, uses[stream]);
    int32_t next = 0;
    for (const int32_t each : {3, 1, 4, 1}) {
      Steps steps;
      for (int32_t i = 0; i < each; ++i)
        for (int32_t stream = 0; stream < 4; ++stream) {
          steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
          steps.tokens.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(model.program.vocab)));
          steps.positions.push_back(next + i);
          steps.streams.push_back(stream);
        }
      next += each;
      const std::vector<float> logits = run(*executor, steps), plain = run(*without, steps);
      CHECK(nmse(logits, naive.forward(steps.batch())) <= bound);
      std::vector<float> base, of_plain;
      for (size_t i = 1; i < steps.tokens.size(); i += 4) {
        const auto row = [&](const std::vector<float>& all) {
          return std::span(all).subspan(i * model.program.vocab, model.program.vocab);
        };
        std::ranges::copy(row(logits), std::back_inserter(base));
        std::ranges::copy(row(plain), std::back_inserter(of_plain));
      }
      CHECK(nmse(base, of_plain) <= bound);
    }
  }
}

} // namespace ridge::tests
