// Whole models through the CUDA executor against logits that another implementation computed in f32.
#include "kernels/cuda/executor.h"
#include "models/model.h"

#include "device.h"
#include "support/numerics.h"
#include "support/reference.h"

#include <numeric>

using namespace ridge;

namespace {

const std::vector<int32_t> kTinyIds = {1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9};
const std::vector<int32_t> kStoryIds = {1,   403, 407, 261, 378, 432, 317, 284, 316,
                                        261, 301, 415, 414, 428, 428, 309, 415, 426};

std::vector<float> logits_of(const core::Program& program, std::span<const int32_t> ids, bool exact, bool at_once) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = std::ssize(ids);
  config.exact = exact;
  if (exact) config.k_type = config.v_type = core::KvType::f32;
  const auto executor = kernels::cuda::make_cuda_executor(program, config);
  std::vector<int32_t> positions(ids.size()), outputs(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), 0);
  std::vector<float> logits;
  const size_t count = at_once ? ids.size() : 1;
  for (size_t at = 0; at < ids.size(); at += count) {
    executor->forward(
        {ids.subspan(at, count), std::span(positions).subspan(at, count), {}, std::span(outputs).first(count)});
    for (size_t i = 0; i < count; ++i) {
      const auto row = executor->logits(static_cast<int64_t>(i));
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

} // namespace

TEST_CASE("CUDA: logits agree with the reference, in exact and in fast mode") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  struct Case {
    std::string name;
    std::span<const int32_t> ids;
  };
  std::vector<Case> cases = {{"models/stories260K", kStoryIds}};
  for (const char* name :
       {"llama-experts", "llama-gqa-tied-freqs", "llama-linear", "llama-yarn", "qwen2", "qwen3", "qwen3moe"})
    cases.push_back({std::string("archs/") + name, kTinyIds});
  for (const char* type : {"F16", "IQ4_XS", "MXFP4", "Q2_K", "Q4_0", "Q4_K", "Q6_K", "Q8_0"})
    cases.push_back({std::string("types/tiny-") + type, kTinyIds});
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const gguf::File file = gguf::File::open(tests::reference_dir() + "/" + c.name + ".gguf");
    const core::Program program = models::build_program(file);
    const auto golden = tests::read_array<float>(tests::reference_dir() + "/" + c.name + ".logits.f32");
    for (const bool at_once : {true, false}) {
      const double exact = tests::nmse(logits_of(program, c.ids, true, at_once), golden);
      const double fast = tests::nmse(logits_of(program, c.ids, false, at_once), golden);
      MESSAGE(c.name, at_once ? " at once" : " one by one", ": NMSE exact ", exact, ", fast ", fast);
      CHECK(exact <= 1e-8);
      CHECK(fast <= 3.5e-4);
    }
  }
}
