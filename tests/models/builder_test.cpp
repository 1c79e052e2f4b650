// Builder on hyperparameters and specs.
#include "models/blocks/blocks.h"

#include "message_of.h"
#include "model_image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace ridge;
using core::OpKind;
using models::AttentionSpec;
using models::Builder;
using tests::message_of;
using tests::ModelImage;

TEST_CASE("a model without attention is built from the hyperparameters that it has") {
  ModelImage image;
  image.metadata.set("general.architecture", "recurrent");
  image.metadata.set("recurrent.block_count", uint32_t{1});
  image.metadata.set("recurrent.embedding_length", uint32_t{64});
  image.tensors = {{"token_embd.weight", quant::Type::F16, {64, 32}},
                   {"blk.0.norm.weight", quant::Type::F32, {64}},
                   {"blk.0.mix.weight", quant::Type::F16, {64, 64}},
                   {"output_norm.weight", quant::Type::F32, {64}}};
  const gguf::File file = image.open();
  Builder b(file);
  const core::ValueId x = b.embed();
  const std::string blk = b.begin_layer(0);
  b.logits(b.gather(b.linear(b.rms_norm(x, blk + "norm"), blk + "mix", 64)));
  CHECK(message_of([&] { b.hparams().heads(0); }).find("recurrent.attention.head_count") != std::string::npos);
  CHECK(message_of([&] { b.hparams().ffn_width(0); }).find("recurrent.feed_forward_length") != std::string::npos);

  const core::Program program = std::move(b).finish();
  CHECK(program.kv_layers.empty());
  CHECK(program.vocab == 32);
  CHECK(program.ops[2].name == "blk.0.mix");
  CHECK(program.ops[2].layer == 0);
  CHECK(program.ops.back().layer == -1);
}

TEST_CASE("hyperparameters given as arrays are each layer's own") {
  ModelImage image(ModelImage::dense("llama"));
  image.metadata.set("llama.attention.head_count_kv", std::vector<uint32_t>{2, 4});
  image.metadata.set("llama.feed_forward_length", std::vector<uint32_t>{96, 128});
  for (gguf::TensorInfo& tensor : image.tensors) {
    if (tensor.name == "blk.1.attn_k.weight" || tensor.name == "blk.1.attn_v.weight") tensor.dims = {64, 64};
    if (tensor.name == "blk.1.ffn_gate.weight" || tensor.name == "blk.1.ffn_up.weight") tensor.dims = {64, 128};
    if (tensor.name == "blk.1.ffn_down.weight") tensor.dims = {128, 64};
  }
  const gguf::File file = image.open();
  const core::Program program = models::build_program(file);
  REQUIRE(program.kv_layers.size() == 2);
  CHECK(program.kv_layers[0].heads == 2);
  CHECK(program.kv_layers[1].heads == 4);

  image.metadata.set("llama.feed_forward_length", std::vector<uint32_t>{96});
  CHECK(image.refusal() == "small.gguf: llama.feed_forward_length: expected 2 integers, one per layer");
  image.metadata.set("llama.feed_forward_length", std::vector<uint32_t>{96, 0});
  CHECK(image.refusal().find("llama.feed_forward_length is 0, expected 1 to") != std::string::npos);
}

TEST_CASE("heads are as wide as those of the first layer that has any, where a file does not say") {
  ModelImage image;
  image.metadata.set("general.architecture", "hybrid");
  image.metadata.set("hybrid.block_count", uint32_t{3});
  image.metadata.set("hybrid.embedding_length", uint32_t{64});
  image.metadata.set("hybrid.attention.head_count", std::vector<uint32_t>{0, 4, 2});
  const gguf::File file = image.open();
  const models::Hparams h(file);
  CHECK(h.k_dim(1) == 16);
  CHECK(h.v_dim(2) == 16);
  CHECK_THROWS_AS(h.heads(0), Error);
}

TEST_CASE("two ways of rope in one model have a table each, and layers that agree share one") {
  ModelImage image(ModelImage::dense("llama"));
  std::erase_if(image.tensors, [](const auto& t) { return t.name.starts_with("blk.1.") || t.name.find("ffn") < 10; });
  std::erase_if(image.tensors, [](const auto& t) { return t.name == "blk.0.attn_norm.weight"; });
  const gguf::File file = image.open();
  Builder b(file);
  core::ValueId x = b.embed();
  using models::Rope;
  for (const AttentionSpec& spec : {AttentionSpec{.rope = Rope::adjacent}, AttentionSpec{.rope = Rope::split},
                                    AttentionSpec{.rope = Rope::split, .rope_dims = 8},
                                    AttentionSpec{.rope = Rope::adjacent}, AttentionSpec{.rope = Rope::none}})
    x = models::blocks::attention(b, x, 0, spec);
  b.logits(b.gather(x));
  const core::Program program = std::move(b).finish();

  std::vector<int32_t> tables;
  for (const core::Op& op : program.ops)
    if (op.kind == OpKind::rope) tables.push_back(std::get<core::RopeParams>(op.params).table);
  CHECK(tables == std::vector<int32_t>{0, 0, 1, 1, 2, 2, 0, 0});
  REQUIRE(program.rope_tables.size() == 3);
  CHECK(program.rope_tables[0].style == core::RopeStyle::adjacent);
  CHECK(program.rope_tables[1].style == core::RopeStyle::split);
  CHECK(program.rope_tables[1].inverse_frequency.size() == 8);
  CHECK(program.rope_tables[2].style == core::RopeStyle::split);
  CHECK(program.rope_tables[2].inverse_frequency.size() == 4);
  CHECK(program.kv_layers.size() == 5);
}

TEST_CASE("YaRN blends between whole pairs, and between fractions of them where the file says so") {
  const auto frequencies = [](bool truncate) {
    ModelImage image(ModelImage::dense("llama"));
    image.metadata.set("llama.rope.scaling.type", "yarn");
    image.metadata.set("llama.rope.scaling.factor", 8.0f);
    image.metadata.set("llama.rope.scaling.original_context_length", uint32_t{64});
    if (!truncate) image.metadata.set("llama.rope.scaling.yarn_truncate", false);
    const gguf::File file = image.open();
    const models::Hparams hparams(file);
    return models::make_rope_table(file, hparams, {.style = core::RopeStyle::split, .dims = 16}).inverse_frequency;
  };
  // One turn in 64 positions is pair 16 ln(64 / 2 pi) / (2 ln 10000) = 2.016.
  const auto whole = frequencies(true), fraction = frequencies(false);
  const auto plain = [](int pair) { return std::pow(1e4, -pair / 8.0); };
  CHECK(whole[0] == 1);
  CHECK(whole[2] == doctest::Approx(plain(2) * (1.0 / 3 + 2.0 / 3 / 8)));
  CHECK(fraction[1] == doctest::Approx(plain(1) * (1 - 7.0 / 8 / 2.016)).epsilon(1e-3));
  CHECK(fraction[3] == doctest::Approx(plain(3) / 8));
  CHECK(whole[3] == fraction[3]);
}

TEST_CASE("hyperparameters that change the computation and are not supported are refused by name and value") {
  const auto with = [](const models::Shape& shape, const std::string& name, gguf::OwnedValue value) {
    ModelImage image(shape);
    image.metadata.set(std::string(shape.architecture) + "." + name, std::move(value));
    return image.refusal();
  };
  const models::Shape llama = ModelImage::dense("llama"), moe = ModelImage::with_experts("qwen3moe");
  CHECK(with(moe, "expert_group_count", uint32_t{4}) ==
        "small.gguf: key 'qwen3moe.expert_group_used_count' is missing, expected an integer");
  CHECK(with(moe, "expert_gating_func", uint32_t{5}) ==
        "small.gguf: qwen3moe.expert_gating_func is 5: gates other than softmax, sigmoid and sqrt(softplus) are not "
        "supported yet");
  CHECK(with(moe, "expert_shared_count", uint32_t{1}) ==
        "small.gguf: qwen3moe.expert_shared_count is 1: shared experts are not supported yet");
  CHECK(with(llama, "attention.sliding_window", uint32_t{4096}) ==
        "small.gguf: llama.attention.sliding_window is 4096: sliding windows are not supported yet");
  CHECK(with(llama, "attn_logit_softcapping", 50.0f) ==
        "small.gguf: llama.attn_logit_softcapping is 50: soft caps of attention scores are not supported yet");
  CHECK(with(llama, "logit_scale", 0.25f) ==
        "small.gguf: llama.logit_scale is 0.25: a scale of logits is not supported yet");
  CHECK(with(llama, "use_parallel_residual", true) ==
        "small.gguf: llama.use_parallel_residual is 1: parallel attention and feed-forward are not supported yet");
  CHECK(with(llama, "rope.dimension_sections", std::vector<int32_t>{0, 8, 8, 0}) ==
        "small.gguf: llama.rope.dimension_sections is 8: rope in sections is not supported yet");

  for (const models::Shape& shape : {llama, moe, ModelImage::dense("qwen2"), ModelImage::dense("qwen3")})
    CHECK(ModelImage(shape).refusal() == "accepted");
  CHECK(with(moe, "expert_group_count", uint32_t{1}) == "accepted");
  CHECK(with(moe, "expert_gating_func", uint32_t{1}) == "accepted");
  CHECK(with(moe, "expert_weights_scale", 1.0f) == "accepted");
  CHECK(with(llama, "attention.sliding_window", uint32_t{131072}) == "accepted");
  CHECK(with(llama, "attention.causal", true) == "accepted");
  CHECK(with(llama, "logit_scale", 1.0f) == "accepted");
  CHECK(with(llama, "use_parallel_residual", false) == "accepted");
}

TEST_CASE("a tensor that no op would use is refused by name") {
  const auto with = [](const models::Shape& shape, const std::string& tensor) {
    ModelImage image(shape);
    image.tensors.push_back({tensor, quant::Type::F32, {8}});
    return image.refusal();
  };
  CHECK(with(ModelImage::with_experts("qwen3moe"), "blk.1.exp_probs_b.bias") ==
        "small.gguf: tensor blk.1.exp_probs_b.bias is not used by qwen3moe models: its purpose is not supported yet");
  CHECK(with(ModelImage::dense("llama"), "blk.0.attn_q_norm.weight").find("attn_q_norm") != std::string::npos);
  // zeros are refused
  CHECK(with(ModelImage::dense("llama"), "rope_freqs.weight").find("above 0") != std::string::npos);
  CHECK(with(ModelImage::dense("llama"), "blk.0.ffn_up.input_scale") == "accepted");
  CHECK(with(ModelImage::dense("qwen3"), "cls.output.weight") == "accepted");
}

TEST_CASE("a decoder's Program may end with the hidden state, and tokens may see later ones") {
  ModelImage image(ModelImage::dense("llama"));
  image.metadata.set("llama.attention.causal", false);
  const gguf::File file = image.open();
  const core::Program program = models::build_program(file, models::Ending::hidden);
  CHECK(program.embeds);
  CHECK(program.logits < 0);
  CHECK(program.values[program.result()].width == 64);
  CHECK(program.values[program.result()].gathered);
  CHECK(core::sees_ahead(program));
  CHECK(!core::sees_ahead(models::build_program(ModelImage(ModelImage::dense("qwen3")).open())));
}

TEST_CASE("windows, soft caps, sinks and caches of other layers reach the ops of each layer") {
  ModelImage image(ModelImage::dense("llama"));
  std::erase_if(image.tensors,
                [](const auto& t) { return t.name.find("ffn") < 10 || t.name.ends_with("attn_norm.weight"); });
  std::erase_if(image.tensors, [](const auto& t) { return t.name == "blk.1.attn_v.weight"; });
  image.tensors.push_back({"blk.0.attn_sinks.weight", quant::Type::F32, {4}});
  image.tensors.push_back({"blk.0.attn_gate.weight", quant::Type::F32, {64, 64}});
  image.metadata.set("llama.attn_logit_softcapping", 50.0f);
  const gguf::File file = image.open();
  Builder b(file);
  using models::Rope;
  core::ValueId x = b.embed();
  x = models::blocks::attention(
      b, x, 0,
      {.rope = Rope::split, .window = 7, .chunked = true, .soft_cap = 30.0, .sinks = true, .gate_matrix = true});
  CHECK(message_of([&] {
          models::blocks::attention(b, x, 1, {.soft_cap = 0.0, .kv_of = 5});
        }).find("layer 5 has no keys") != std::string::npos);
  CHECK(message_of([&] {
          models::blocks::attention(b, x, 1, {.kv_heads = 4, .soft_cap = 0.0, .kv_of = 0});
        }).find("different heads") != std::string::npos);
  CHECK(message_of([&] { models::blocks::attention(b, x, 1, {.soft_cap = -1.0}); }).find("expected a number above 0") !=
        std::string::npos);
  x = models::blocks::attention(b, x, 1, {.rope = Rope::split, .soft_cap = 0.0, .v_norm = true, .k_is_v = true});
  x = models::blocks::attention(b, x, 1, {.rope = Rope::split, .soft_cap = 0.0, .kv_of = 0});
  b.logits(b.gather(x));
  const core::Program program = std::move(b).finish();

  std::vector<core::Op> attention, stores;
  for (const core::Op& op : program.ops) {
    if (op.kind == OpKind::attention) attention.push_back(op);
    if (op.kind == OpKind::kv_store) stores.push_back(op);
  }
  REQUIRE(attention.size() == 3);
  const auto params = [&](size_t i) { return std::get<core::AttentionParams>(attention[i].params); };
  CHECK(params(0).window == 7);
  CHECK(params(0).chunked);
  CHECK(params(0).soft_cap == 30);
  CHECK(attention[0].weights.size() == 1);
  CHECK(params(1).window == 0);
  CHECK(params(1).layer == 1);
  CHECK(attention[1].weights.empty());
  CHECK(params(2).layer == 0);
  REQUIRE(stores.size() == 2);
  CHECK(program.kv_layers.size() == 2);
  const auto writer = [&](core::ValueId id) {
    return *std::ranges::find_if(program.ops,
                                 [&](const core::Op& op) { return std::ranges::count(op.outputs, id) > 0; });
  };
  const core::Op k_rope = writer(stores[1].inputs[0]), v_norm = writer(stores[1].inputs[1]);
  CHECK(k_rope.kind == OpKind::rope);
  CHECK(v_norm.kind == OpKind::rms_norm);
  CHECK(k_rope.inputs == v_norm.inputs);
}

TEST_CASE("fields of an attention spec win over the file's") {
  ModelImage image(ModelImage::dense("llama"));
  image.metadata.set("llama.attention.scale", 0.125f);
  const gguf::File file = image.open();
  const auto attention_of = [&](const AttentionSpec& spec) {
    Builder b(file);
    const core::ValueId x = b.embed();
    b.logits(b.gather(models::blocks::attention(b, x, 0, spec)));
    b.skip("blk.0.attn_norm.weight");
    for (const gguf::Tensor& tensor : file.tensors())
      if (tensor.name.starts_with("blk.1.") || tensor.name.find("ffn") < 10) b.skip(tensor.name);
    return std::move(b).finish();
  };
  const auto params_of = [](const core::Program& program) {
    return std::get<core::AttentionParams>(std::ranges::find(program.ops, OpKind::attention, &core::Op::kind)->params);
  };
  const core::Program as_file = attention_of({}),
                      as_spec = attention_of({.heads = 2, .kv_heads = 1, .k_dim = 32, .v_dim = 32, .scale = 0.5});
  CHECK(params_of(as_file).heads == 4);
  CHECK(params_of(as_file).scale == 0.125f);
  CHECK(as_file.kv_layers[0].k_dim == 16);
  CHECK(params_of(as_spec).heads == 2);
  CHECK(params_of(as_spec).scale == 0.5f);
  CHECK(as_spec.kv_layers[0].heads == 1);
  CHECK(as_spec.kv_layers[0].k_dim == 32);
}

TEST_CASE("the routing spec reaches the op, from the architecture or the file") {
  ModelImage image(ModelImage::with_experts("qwen3moe"));
  image.metadata.set("qwen3moe.expert_weights_norm", false);
  const gguf::File file = image.open();
  const core::Program program = models::build_program(file);
  const auto route = std::ranges::find(program.ops, OpKind::route, &core::Op::kind);
  REQUIRE(route != program.ops.end());
  const auto& params = std::get<core::RouteParams>(route->params);
  CHECK(params.experts == 8);
  CHECK(params.used == 2);
  CHECK(!params.normalize);

  const auto with = [&](const models::RoutingSpec& spec) {
    Builder b(file);
    models::blocks::experts(b, b.embed(), 0, spec);
    return b;
  };
  const auto refusal = [&](const models::RoutingSpec& spec) { return message_of([&] { with(spec); }); };
  CHECK(refusal({.gate = core::Gate::sigmoid, .scale = 2.5, .groups = 2, .groups_used = 1}) == "");
  CHECK(refusal({.groups = 3, .groups_used = 1}).find("8 experts in 3 groups") != std::string::npos);
  CHECK(refusal({.groups = 8, .groups_used = 1}).find("are too few for 2 experts per token") != std::string::npos);
}

TEST_CASE("Phi-3.5-MoE norms and mixes as the checkpoint does where the file has its noise, else as other converters") {
  for (const float noise : {0.0f, 0.01f}) {
    CAPTURE(noise);
    ModelImage image(ModelImage::with_experts("phimoe"));
    image.metadata.set("phimoe.attention.layer_norm_rms_epsilon", 1e-4f);
    image.metadata.set("phimoe.attention.layer_norm_epsilon", 1e-3f);
    if (noise > 0) image.metadata.set("phimoe.router_jitter_noise", noise);
    const gguf::File file = image.open();
    const core::Program program = models::build_program(file);
    const auto params_of = [&](OpKind kind) { return std::ranges::find(program.ops, kind, &core::Op::kind)->params; };
    const auto route = std::get<core::RouteParams>(params_of(OpKind::route));
    CHECK(route.nearness == 2 * noise);
    CHECK(route.by_score == (noise > 0));
    CHECK(route.normalize == (noise == 0));
    const auto norm = std::get<core::NormParams>(params_of(OpKind::layer_norm));
    CHECK(norm.centered == (noise > 0));
    CHECK(norm.epsilon == (noise > 0 ? 1e-3f : 1e-4f));
  }
  ModelImage image(ModelImage::with_experts("phimoe"));
  image.metadata.set("phimoe.router_jitter_noise", 0.0f);
  const gguf::File file = image.open();
  const core::Program program = models::build_program(file);
  const auto route = std::ranges::find(program.ops, OpKind::route, &core::Op::kind);
  CHECK(std::get<core::RouteParams>(route->params).nearness > 0);
  image.metadata.set("phimoe.router_jitter_noise", -1.0f);
  CHECK(image.refusal().find("phimoe.router_jitter_noise is -1, expected 0 to 1") != std::string::npos);
}

TEST_CASE("experts may be those that a table has for each token") {
  const auto refusal = [](gguf::TensorType type, std::vector<int64_t> dims) {
    ModelImage image(ModelImage::with_experts("qwen3moe"));
    image.tensors.push_back({"blk.0.ffn_gate_tid2eid.weight", type, std::move(dims)});
    const gguf::File file = image.open();
    return message_of([&] {
      Builder b(file);
      models::blocks::experts(b, b.embed(), 0, {.by_token = true});
    });
  };
  CHECK(refusal(gguf::PlainType::I32, {2, 32}) == "");
  CHECK(refusal(gguf::PlainType::I32, {3, 32}).find("not I32 of shape [2, 32]") != std::string::npos);
  CHECK(refusal(quant::Type::F32, {2, 32}).find("not I32 of shape [2, 32]") != std::string::npos);
}

TEST_CASE("norms come before and behind blocks, and blocks side by side share an input") {
  ModelImage image(ModelImage::dense("llama"));
  for (const char* layer : {"blk.0.", "blk.1."})
    for (const char* name : {"attn_post.weight", "attn_post.bias", "attn_norm.bias"})
      image.tensors.push_back({layer + std::string(name), quant::Type::F32, {64}});
  std::erase_if(image.tensors, [](const auto& t) { return t.name.ends_with("ffn_norm.weight"); });
  image.metadata.set("llama.final_logit_softcapping", 30.0f);
  const gguf::File file = image.open();
  Builder b(file);
  b.build({.mixer = [&](core::ValueId x,
                        int64_t il) { return models::blocks::attention(b, x, il, {.rope = models::Rope::split}); },
           .ffn = [&](core::ValueId x, int64_t il) { return models::blocks::ffn(b, x, il); },
           .ffn_norm = {},
           .mixer_post_norm = "attn_post",
           .parallel = true,
           .layer_norms = true,
           .soft_cap = b.hparams().get_float("final_logit_softcapping", 0)});
  const core::Program program = std::move(b).finish();

  std::vector<core::Op> norms, gates, adds;
  for (const core::Op& op : program.ops) {
    if (op.kind == OpKind::layer_norm) norms.push_back(op);
    if (op.name.ends_with("ffn_gate")) gates.push_back(op);
    if (op.kind == OpKind::add) adds.push_back(op);
  }
  REQUIRE(norms.size() == 5);
  CHECK(norms[0].name == "blk.0.attn_norm");
  CHECK(norms[0].weights.size() == 2);
  CHECK(norms[1].name == "blk.0.attn_post");
  CHECK(norms[4].weights.size() == 1);
  REQUIRE(gates.size() == 2);
  CHECK(gates[0].inputs == norms[0].outputs);
  REQUIRE(adds.size() == 4);
  CHECK(adds[0].inputs[1] == norms[1].outputs[0]);
  const core::Op& last = program.ops.back();
  CHECK(last.kind == OpKind::activate);
  CHECK(std::get<core::ActivationParams>(last.params) == core::ActivationParams{core::Activation::soft_cap, 30});
  CHECK(program.logits == last.outputs[0]);
}

TEST_CASE("a file says which layers slide and which have experts, by flags or by a period") {
  ModelImage image;
  image.metadata.set("general.architecture", "x");
  image.metadata.set("x.block_count", uint32_t{6});
  const auto layers = [&](auto&& asks) {
    const gguf::File file = image.open();
    const models::Hparams h(file);
    std::string all;
    for (int64_t il = 0; il < 6; ++il) all += asks(h, il) ? '1' : '0';
    return all;
  };
  using models::Hparams;
  const auto slides = [](const Hparams& h, int64_t il) { return h.slides(il, 3); };
  CHECK(layers(slides) == "110110");
  CHECK(layers([](const Hparams& h, int64_t il) { return h.slides(il, 3, Hparams::Sees::all_first); }) == "011011");
  image.metadata.set("x.attention.sliding_window_pattern", uint32_t{2});
  CHECK(layers(slides) == "101010");
  image.metadata.set("x.attention.sliding_window_pattern", uint32_t{0});
  CHECK(layers(slides) == "111111");
  image.metadata.set("x.attention.sliding_window_pattern", std::vector<uint32_t>{1, 0, 0, 1, 1, 0});
  CHECK(layers(slides) == "100110");

  const auto experts = [](const Hparams& h, int64_t il) { return h.has_experts(il); };
  CHECK(layers(experts) == "000000");
  image.metadata.set("x.expert_count", uint32_t{4});
  image.metadata.set("x.leading_dense_block_count", uint32_t{1});
  CHECK(layers(experts) == "011111");
  image.metadata.set("x.interleave_moe_layer_step", uint32_t{2});
  CHECK(layers(experts) == "010101");
}
