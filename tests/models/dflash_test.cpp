// DFlash heads.
#include "core/error.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/dflash.h"
#include "models/eagle.h"
#include "models/model.h"
#include "models/synthetic.h"

#include "message_of.h"
#include "support/drafts/dflash_naive.h"

#include <doctest/doctest.h>

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DflashPair;
using tests::message_of;

namespace {

std::string refusal_of_block(const DflashPair& of_model, const DflashPair& of_head) {
  const gguf::File model = of_model.model(), head = of_head.head();
  return message_of([&] {
    models::build_drafted(model, head);
    models::build_dflash_head(head, model);
  });
}

} // namespace

TEST_CASE("DFlash heads of every kind have the logits of their definition, their context coming piece by piece") {
  tests::check_dflash(make_cpu_executor);
}

TEST_CASE("a DFlash head's Program computes what its ops mean, and none of its tokens sees a whole text") {
  const DflashPair pair = DflashPair::kinds()[2];
  const gguf::File model = pair.model(), head = pair.head();
  const core::Program program = models::build_dflash_head(head, model);
  CHECK(core::layer_count(program) == 3);
  CHECK(program.row_width == 65);
  CHECK(!core::sees_ahead(program));
  CHECK(models::block_of(head).tokens == 8);
  CHECK(models::block_of(head).mask == 47);
  const auto executor = make_cpu_executor(program, tests::exact_config());
  tests::Naive naive(program, core::KvType::f32, core::KvType::f32);
  std::vector<float> rows;
  for (int i = 0; i < 3 * 65; ++i) rows.push_back(i % 65 == 64 ? 1.0f : static_cast<float>(i * 37 % 19 - 9) / 8);
  tests::Steps steps;
  steps.tokens = {-1, -2, -3, 5, 47, 47};
  steps.positions = {0, 1, 2, 3, 4, 5};
  steps.streams.assign(6, 0);
  steps.outputs = {4, 5};
  const std::vector<int32_t> ends = {0, 0, 0, 6, 6, 6};
  core::Batch batch = steps.batch();
  batch.rows = rows;
  batch.block_ends = ends;
  executor->forward(batch);
  std::vector<float> logits;
  for (int64_t i = 0; i < 2; ++i) logits.insert(logits.end(), executor->logits(i).begin(), executor->logits(i).end());
  CHECK(tests::nmse(logits, naive.forward(batch)) < 1e-9);
}

TEST_CASE("a DFlash head of another model is refused with one line") {
  DflashPair other;
  other.model_layers = 3;
  CHECK(refusal_of_block(other, {}) ==
        "dflash.gguf: reads the input of layer 4, but model.gguf has 3 layers: it is a draft head for another model");
  other = {};
  other.model_width = 32;
  CHECK(
      refusal_of_block(other, {}) ==
      "dflash.gguf: reads rows of 64 elements, but those of model.gguf have 32: it is a draft head for another model");
  other = {};
  other.own_table = true;
  other.vocab = 50;
  CHECK(refusal_of_block({}, other) ==
        "dflash.gguf: has a vocabulary of 50 tokens, but model.gguf one of 48: a draft head needs the same vocabulary");
  other = {};
  other.mask = 48;
  CHECK(refusal_of_block({}, other) ==
        "dflash.gguf: the mask is token 48, but model.gguf has 48 tokens: it is a draft head for another model");
  other = {};
  other.block = 1;
  CHECK(refusal_of_block({}, other) == "dflash.gguf: dflash.block_size is 1, expected 2 to 1024");
  for (const char* tensor : {"blk.0.attn_conv.weight", "markov_w1.weight"}) { // DFlash 2, DSpark
    other = {};
    other.further = tensor;
    CHECK(refusal_of_block({}, other) ==
          fmt::format("dflash.gguf: tensor {} is not used by dflash models: its purpose is not supported yet", tensor));
  }
  CHECK(message_of([&] { models::build_program(DflashPair().head()); }) ==
        "dflash.gguf: this is a draft head; give it together with its model: -m MODEL --draft-model dflash.gguf");
}

TEST_CASE("shapes have a DFlash head, whatever their layers") {
  for (const char* shape : {"qwen2.5-0.5b:Q4_0", "qwen3-0.6b:Q4_K"}) {
    CAPTURE(shape);
    const gguf::File model = gguf::File::from_bytes(models::synthetic_model(shape), "model.gguf"),
                     head = gguf::File::from_bytes(models::synthetic_dflash_head(shape), "dflash.gguf");
    const core::Program program = models::build_dflash_head(head, model);
    CHECK(core::layer_count(program) == 5);
    CHECK(models::build_drafted(model, head).hidden >= 0);
  }
}
