// Which activations have 16 bits.
#include "kernels/cpu/executor/lowering.h"
#include "models/model.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

using namespace ridge;

TEST_CASE("lowering: inputs of the products that make queries, keys and values are found") {
  const tests::TemporaryFolder folder;
  for (const char* architecture : {"llama", "qwen2"}) {
    CAPTURE(architecture);
    tests::TinyModel tiny{.layers = 3};
    tiny.architecture = architecture;
    tiny.write(folder / "tiny.gguf");
    const gguf::File file = gguf::File::open(folder / "tiny.gguf");
    const core::Program program = models::build_program(file);
    const std::set<core::ValueId> found = kernels::cpu::attention_inputs(program);
    CHECK(found.size() == 3);
    int products = 0;
    for (const core::Op& op : program.ops) {
      if (op.kind != core::OpKind::linear) continue;
      const std::string& name = program.weights[op.weights[0]].name;
      CAPTURE(name);
      const bool of_attention =
          name.find("attn_") != std::string::npos && name.find("attn_output") == std::string::npos;
      CHECK(found.contains(op.inputs[0]) == of_attention);
      products += of_attention;
    }
    CHECK(products >= 3);
  }
}
