#include "engine/loading/loaded_model.h"

#include "support/numerics.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

using namespace ridge;

TEST_CASE("a model that goes back to the CPU, as from one -ngl to the next, has no share on the GPU") {
  const tests::TemporaryFolder folder;
  tests::TinyModel().write(folder / "tiny.gguf");
  engine::LoadedModel model = engine::open_model(gguf::File::open(folder / "tiny.gguf"));
  model.gpu_share = 1;
  core::ExecutorConfig config;
  config.context = 16;
  CHECK(engine::start_executor(model, config, "auto", {.gpu_layers = 0}) == engine::Device::cpu);
  CHECK(model.gpu_share == 0);
}

TEST_CASE("a model on several ranks of the CPU chooses as on one") {
  const tests::TemporaryFolder folder;
  tests::TinyModel().write(folder / "tiny.gguf");
  core::ExecutorConfig config;
  config.context = config.max_batch = 16;
  config.exact = true;
  const std::vector<int32_t> tokens = {1, 2, 3, 4}, positions = {0, 1, 2, 3}, outputs = {3};
  const auto logits = [&](int ranks) {
    engine::LoadedModel model = engine::open_model(gguf::File::open(folder / "tiny.gguf"));
    CHECK(engine::start_executor(model, config, "cpu", {.ranks = ranks}) == engine::Device::cpu);
    model.executor->forward({tokens, positions, {}, outputs});
    const std::span<const float> row = model.executor->logits(0);
    return std::vector<float>(row.begin(), row.end());
  };
  CHECK(tests::nmse(logits(2), logits(1)) < 1e-10);
}
