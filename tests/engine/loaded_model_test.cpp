#include "engine/loaded_model.h"

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
