// Whole models through the CPU executor against logits that another implementation computed in f32.
#include "kernels/cpu/executor.h"
#include "models/model.h"

#include "support/numerics.h"
#include "support/reference.h"

#include <numeric>

using namespace ridge;

namespace {

const std::vector<int32_t> kTinyIds = {1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9};
const std::vector<int32_t> kStoryIds = {1,   403, 407, 261, 378, 432, 317, 284, 316,
                                        261, 301, 415, 414, 428, 428, 309, 415, 426};

enum class Feeding { at_once, one_by_one };

std::vector<float> logits_of(const std::string& path, std::span<const int32_t> ids, bool exact, Feeding feeding) {
  const gguf::File file = gguf::File::open(path);
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = std::ssize(ids);
  config.exact = exact;
  if (exact) config.k_type = config.v_type = core::KvType::f32;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  std::vector<int32_t> positions(ids.size()), outputs(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), 0);
  std::vector<float> logits;
  const size_t count = feeding == Feeding::at_once ? ids.size() : 1;
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

struct Case {
  std::string name;
  std::span<const int32_t> ids;
};

std::vector<Case> reference_cases() {
  std::vector<Case> cases = {{"models/stories260K", kStoryIds}};
  for (const char* name :
       {"llama-experts", "llama-gqa-tied-freqs", "llama-linear", "llama-yarn", "qwen2", "qwen3", "qwen3moe"})
    cases.push_back({std::string("archs/") + name, kTinyIds});
  for (const char* type : {"F16", "IQ4_XS", "MXFP4", "Q2_K", "Q4_0", "Q4_K", "Q6_K", "Q8_0"})
    cases.push_back({std::string("types/tiny-") + type, kTinyIds});
  return cases;
}

} // namespace

TEST_CASE("exact logits agree with the reference") {
  REQUIRE_REFERENCE();
  for (const Case& c : reference_cases()) {
    CAPTURE(c.name);
    const auto golden = tests::read_array<float>(tests::reference_dir() + "/" + c.name + ".logits.f32");
    for (const Feeding feeding : {Feeding::at_once, Feeding::one_by_one})
      CHECK(tests::nmse(logits_of(tests::reference_dir() + "/" + c.name + ".gguf", c.ids, true, feeding), golden) <=
            1e-8);
  }
}

TEST_CASE("fast logits stay within what 8-bit activations cost") {
  REQUIRE_REFERENCE();
  for (const Case& c : reference_cases()) {
    CAPTURE(c.name);
    const auto golden = tests::read_array<float>(tests::reference_dir() + "/" + c.name + ".logits.f32");
    for (const Feeding feeding : {Feeding::at_once, Feeding::one_by_one}) {
      const double error =
          tests::nmse(logits_of(tests::reference_dir() + "/" + c.name + ".gguf", c.ids, false, feeding), golden);
      const std::string way = feeding == Feeding::at_once ? " at once" : " one by one";
      MESSAGE(c.name, way, ": NMSE ", error);
      CHECK(error <= 3.5e-4);
    }
  }
}
