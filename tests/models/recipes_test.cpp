// Recipes like Q4_K_M on real models' shapes.
#include "models/recipes.h"

#include "core/error.h"
#include "models/synthetic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace ridge;
using models::RecipeOptions;
using quant::Type;

namespace {

struct Mix {
  std::map<std::string, std::string> type_of;
  double bytes = 0;

  std::set<std::string> types(const std::string& part) const {
    std::set<std::string> found;
    for (const auto& [name, type] : type_of)
      if (name.find(part) != std::string::npos) found.insert(type);
    return found;
  }
  std::vector<int> layers(const std::string& part, const std::string& type) const {
    std::vector<int> found;
    for (int layer = 0; layer < 100; ++layer) {
      const auto at = type_of.find(fmt::format("blk.{}.{}.weight", layer, part));
      if (at != type_of.end() && at->second == type) found.push_back(layer);
    }
    return found;
  }
};

Mix mix_of(std::string_view shape_name, std::string_view recipe, const RecipeOptions& options = {}, bool tied = false) {
  const auto found = std::ranges::find(models::shapes(), shape_name, &models::Shape::name);
  REQUIRE(found != models::shapes().end());
  models::Shape with_layers_only = *found;
  with_layers_only.draft_layers = 0;
  const models::Shape* shape = &with_layers_only;
  std::vector<gguf::TensorInfo> tensors = models::tensors_of(*shape);
  if (tied) std::erase_if(tensors, [](const gguf::TensorInfo& t) { return t.name == "output.weight"; });
  const auto types = models::assign_types(
      *models::find_recipe(recipe),
      {std::string(shape->architecture), shape->layers, shape->heads, shape->kv_heads, shape->experts}, tensors,
      options);
  Mix mix;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].type = types[i];
    mix.type_of[tensors[i].name] = types[i].name();
    mix.bytes += static_cast<double>(tensors[i].bytes());
  }
  return mix;
}

using Types = std::set<std::string>;
const std::vector<int> kMoreBitsOf32 = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
const std::vector<int> kMoreBitsOf28 = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27};

} // namespace

TEST_CASE("Q4_K_M of Llama 3 8B: half of attn_v and ffn_down and the output in Q6_K") {
  const Mix mix = mix_of("llama-8b", "Q4_K_M");
  CHECK(mix.layers("attn_v", "Q6_K") == kMoreBitsOf32);
  CHECK(mix.layers("ffn_down", "Q6_K") == kMoreBitsOf32);
  CHECK(mix.types("attn_v") == Types{"Q4_K", "Q6_K"});
  for (const char* part : {"attn_q.", "attn_k.", "attn_output", "ffn_gate", "ffn_up", "token_embd"})
    CHECK(mix.types(part) == Types{"Q4_K"});
  CHECK(mix.types("output.weight") == Types{"Q4_K", "Q6_K"});
  CHECK(mix.type_of.at("output.weight") == "Q6_K");
  CHECK(mix.types("norm") == Types{"F32"});
}

TEST_CASE("Q5_K_M, Q3_K_M, Q2_K and IQ4_XS of Llama 3 8B") {
  const Mix q5 = mix_of("llama-8b", "Q5_K_M");
  CHECK(q5.layers("attn_v", "Q6_K") == kMoreBitsOf32);
  CHECK(q5.layers("ffn_down", "Q6_K") == kMoreBitsOf32);
  CHECK(q5.types("attn_output") == Types{"Q5_K"});

  const Mix q3 = mix_of("llama-8b", "Q3_K_M");
  CHECK(q3.layers("attn_v", "Q5_K") == std::vector<int>{0, 1});
  CHECK(q3.layers("attn_v", "Q4_K").size() == 30);
  CHECK(q3.layers("ffn_down", "Q5_K") == std::vector<int>{0, 1});
  CHECK(q3.layers("ffn_down", "Q4_K").size() == 30);
  CHECK(q3.types("attn_output") == Types{"Q4_K"});
  CHECK(q3.types("ffn_up") == Types{"Q3_K"});
  CHECK(q3.type_of.at("output.weight") == "Q6_K");

  const Mix q2 = mix_of("llama-8b", "Q2_K");
  CHECK(q2.types("attn_v") == Types{"Q4_K"});
  CHECK(q2.types("ffn_down") == Types{"Q3_K"});
  CHECK(q2.types("attn_output") == Types{"Q3_K"});
  CHECK(q2.types("attn_q.") == Types{"Q2_K"});
  CHECK(q2.type_of.at("token_embd.weight") == "Q2_K");

  const Mix iq4 = mix_of("llama-8b", "IQ4_XS");
  CHECK(iq4.types("attn_v") == Types{"Q5_K"});
  CHECK(iq4.layers("ffn_down", "Q5_K") == std::vector<int>{0, 1, 2, 3});
  CHECK(iq4.types("ffn_up") == Types{"IQ4_XS"});
  CHECK(mix_of("llama-8b", "IQ4_XS", {.importance = true}).types("ffn_down") == Types{"IQ4_XS"});
}

TEST_CASE("the mixes of Qwen 2.5 7B, where seven heads share attn_v") {
  const Mix q4 = mix_of("qwen2.5-7b", "Q4_K_M");
  CHECK(q4.layers("attn_v", "Q6_K") == kMoreBitsOf28);
  CHECK(q4.layers("ffn_down", "Q6_K") == kMoreBitsOf28);
  CHECK(q4.types("attn_q.bias") == Types{"F32"});
  CHECK(mix_of("qwen2.5-7b", "Q3_K_M").layers("ffn_down", "Q5_K") == std::vector<int>{0});
  CHECK(mix_of("qwen2.5-7b", "Q2_K").types("attn_v.weight") == Types{"Q4_K"});
  CHECK(mix_of("qwen2.5-7b", "IQ4_XS").layers("ffn_down", "Q5_K") == std::vector<int>{0, 1, 2});
  // Only two heads share it in the smaller Qwen 3.
  CHECK(mix_of("qwen3-0.6b", "Q2_K").types("attn_v.") == Types{"Q3_K"});
  CHECK(mix_of("qwen3-0.6b", "IQ4_XS").types("attn_v.") == Types{"IQ4_XS"});
}

TEST_CASE("file sizes are those of published files") {
  // GB of published files; they contain about 8 MB of tokenizer.
  struct Published {
    const char *shape, *recipe;
    double gigabytes;
    bool importance = false;
  };
  for (const Published& p : std::initializer_list<Published>{{"llama-8b", "Q8_0", 8.54},
                                                             {"llama-8b", "Q6_K", 6.60},
                                                             {"llama-8b", "Q5_K_M", 5.73},
                                                             {"llama-8b", "Q5_K_S", 5.60},
                                                             {"llama-8b", "Q4_K_M", 4.92},
                                                             {"llama-8b", "Q4_K_S", 4.69},
                                                             {"llama-8b", "IQ4_XS", 4.45, true},
                                                             {"llama-8b", "Q3_K_L", 4.32},
                                                             {"llama-8b", "Q3_K_M", 4.02},
                                                             {"llama-8b", "Q3_K_S", 3.66},
                                                             {"llama-8b", "IQ3_M", 3.78, true},
                                                             {"llama-8b", "IQ3_XS", 3.52, true},
                                                             {"llama-8b", "Q2_K", 3.18},
                                                             {"llama-8b", "IQ2_M", 2.95, true},
                                                             {"qwen2.5-7b", "Q5_K_M", 5.44},
                                                             {"qwen2.5-7b", "Q4_K_M", 4.68},
                                                             {"qwen2.5-7b", "IQ4_XS", 4.22, true},
                                                             {"qwen2.5-7b", "Q3_K_M", 3.81},
                                                             {"qwen2.5-7b", "Q2_K", 3.02}}) {
    CAPTURE(p.shape);
    CAPTURE(p.recipe);
    const double gigabytes = (mix_of(p.shape, p.recipe, {.importance = p.importance}).bytes + 7e6) / 1e9;
    CHECK(std::abs(gigabytes - p.gigabytes) < 0.008);
  }
}

TEST_CASE("one matrix for embeddings and output is treated as the output") {
  CHECK(mix_of("qwen3-0.6b", "Q4_K_M", {}, true).type_of.at("token_embd.weight") == "Q6_K");
  CHECK(mix_of("qwen3-0.6b", "Q8_0", {}, true).type_of.at("token_embd.weight") == "Q8_0");
  CHECK(mix_of("qwen3-0.6b", "IQ2_XS", {}, true).type_of.at("token_embd.weight") == "Q5_K");
}

TEST_CASE("with eight experts attention is kept finer, and routers stay as they are") {
  const Mix mix = mix_of("mixtral-8x7b", "Q4_K_M");
  CHECK(mix.types("attn_v") == Types{"Q8_0"});
  CHECK(mix.types("attn_k") == Types{"Q8_0"});
  CHECK(mix.types("attn_output") == Types{"Q5_K"});
  CHECK(mix.types("ffn_gate_inp") == Types{"F32"});
  CHECK(mix.types("ffn_down_exps") == Types{"Q4_K", "Q6_K"});
  CHECK(mix_of("qwen3-30b-a3b", "Q4_K_M").types("attn_k.") == Types{"Q4_K"});
  const Mix mx = mix_of("qwen3-30b-a3b", "MXFP4_MOE");
  CHECK(mx.types("exps") == Types{"MXFP4"});
  CHECK(mx.types("attn_q.") == Types{"Q8_0"});
}

TEST_CASE("attn_v of Llama 70B is an eighth of attn_q, and finer") {
  CHECK(mix_of("llama-70b", "Q4_K_M").types("attn_v") == Types{"Q5_K", "Q6_K"});
  CHECK(mix_of("llama-70b", "Q2_K").types("attn_v") == Types{"Q5_K"});
}

TEST_CASE("rows that are no whole super-blocks fall back to types of 32") {
  const Mix mix = mix_of("qwen2.5-0.5b", "Q4_K_M"); // rows of 896; of 4864 = 19 * 256 in ffn_down
  CHECK(mix.types("attn_q.weight") == Types{"Q5_0"});
  CHECK(mix.types("attn_v.weight") == Types{"Q5_0", "Q8_0"});
  CHECK(mix.types("ffn_down") == Types{"Q4_K", "Q6_K"});
  CHECK(mix.type_of.at("output.weight") == "Q8_0");
  CHECK(models::fitting_type(Type::IQ2_XXS, 896) == Type::IQ4_NL);
  CHECK(models::fitting_type(Type::Q3_K, 576) == Type::IQ4_NL);
  CHECK(models::fitting_type(Type::Q4_K, 172) == Type::F16);
}

TEST_CASE("options override the mix") {
  RecipeOptions options;
  options.output = Type::Q8_0;
  options.token_embedding = Type::Q5_K;
  options.tensor_types = {{std::regex("blk\\.0\\..*ffn_up"), Type::Q6_K}, {std::regex("ffn_up"), Type::Q3_K}};
  const Mix mix = mix_of("llama-1b", "Q4_K_M", options);
  CHECK(mix.type_of.at("output.weight") == "Q8_0");
  CHECK(mix.type_of.at("token_embd.weight") == "Q5_K");
  CHECK(mix.layers("ffn_up", "Q6_K") == std::vector<int>{0});
  CHECK(mix.layers("ffn_up", "Q3_K").size() == 15);

  const Mix pure = mix_of("llama-1b", "Q4_K_M", {.pure = true});
  CHECK(pure.types("attn_v") == Types{"Q4_K"});
  CHECK(pure.type_of.at("output.weight") == "Q4_K");
  CHECK(mix_of("llama-1b", "Q4_K_M", {.leave_output = true}).type_of.at("output.weight") == "F16");
}

TEST_CASE("every recipe is found by its name and its number") {
  for (const models::Recipe& recipe : models::recipes()) {
    CHECK(models::find_recipe(recipe.name) == &recipe);
    if (recipe.name != "MXFP4") CHECK(models::file_type_name(recipe.file_type) == recipe.name);
  }
  CHECK(models::find_recipe("q4_k")->name == "Q4_K_M");
  CHECK(models::find_recipe("Q9_K") == nullptr);
  CHECK(models::file_type_name(4).empty());
}

TEST_CASE("Q4_K_M of hybrids: recurrent layers' small tensors stay wide, rules count matrices of a role") {
  const Mix qwen = mix_of("qwen3.5-27b", "Q4_K_M");
  for (const char* part : {"ssm_conv1d", "ssm_dt", "norm"}) CHECK(qwen.types(part) == Types{"F32"});
  CHECK(qwen.type_of.at("blk.0.ssm_a") == "F32");
  for (const char* part : {"ssm_out", "ssm_alpha", "ssm_beta", "attn_gate", "attn_output", "attn_q.", "ffn_up"})
    CHECK(qwen.types(part) == Types{"Q4_K"});
  // Recurrent layers' attn_qkv counts as attn_v.
  std::vector<int> finer = qwen.layers("attn_qkv", "Q6_K");
  std::ranges::copy(qwen.layers("attn_v", "Q6_K"), std::back_inserter(finer));
  std::ranges::sort(finer);
  CHECK(finer == qwen.layers("ffn_down", "Q6_K"));
  CHECK(finer.size() == 32);
  CHECK(qwen.type_of.at("output.weight") == "Q6_K");

  // 25 of 56 layers are feed-forward: the first 7 and every third are finer. 15,680 is no multiple of 256.
  const Mix nemotron = mix_of("nemotron-nano-9b", "Q4_K_M");
  CHECK(nemotron.layers("ffn_down", "Q8_0") == std::vector<int>{1, 3, 5, 8, 10, 12, 15, 22, 28, 35, 42, 49, 55});
  CHECK(nemotron.types("ssm_norm") == Types{"F32"});
  CHECK(nemotron.types("ssm_in") == Types{"Q5_0"});
}

TEST_CASE("MXFP4_MOE and IQ2_XS of experts: routers and gates stay wide, the shared expert is no expert") {
  const Mix mxfp4 = mix_of("qwen3.6-35b-a3b", "MXFP4_MOE");
  for (const char* part : {"ffn_up_exps", "ffn_gate_exps", "ffn_down_exps"}) CHECK(mxfp4.types(part) == Types{"MXFP4"});
  for (const char* part : {"_shexp.weight", "attn_qkv", "attn_v.", "ssm_out", "token_embd", "output.weight"}) {
    Types types = mxfp4.types(part);
    types.erase("F32");
    CHECK(types == Types{"Q8_0"});
  }
  CHECK(mxfp4.types("ffn_gate_inp") == Types{"F32"});
  CHECK(mxfp4.types("ssm_conv1d") == Types{"F32"});

  const Mix iq2 = mix_of("qwen3.6-35b-a3b", "IQ2_XS");
  CHECK(iq2.types("attn_qkv") == Types{"Q4_K"});
  CHECK(iq2.types("ffn_gate_inp") == Types{"F32"});
  CHECK(iq2.types("ffn_up_exps") == Types{"IQ2_XS"});
}

TEST_CASE("rules for shared heads of keys and values ask the first layer, which may have none") {
  const std::vector<gguf::TensorInfo> tensors = {{"blk.0.attn_v.weight", Type::F16, {256, 256}},
                                                 {"blk.0.shortconv.conv.weight", Type::F32, {3, 256}},
                                                 {"blk.0.ffn_gate_inp_shexp.weight", Type::F32, {256, 1}},
                                                 {"output.weight", Type::F16, {256, 256}}};
  const auto types = [&](int64_t kv_heads) {
    return models::assign_types(*models::find_recipe("Q2_K"), {"lfm2", 1, 32, kv_heads, 0}, tensors);
  };
  CHECK(types(8)[0] == Type::Q4_K);
  CHECK(types(0)[0] == Type::Q3_K);
  CHECK(types(8)[1] == Type::F32);
  CHECK(types(8)[2] == Type::F32);
}

TEST_CASE("in an encoder of pictures patches and positions stay wide, and what makes rows of tokens is as an output") {
  std::vector<gguf::TensorInfo> tensors = {{"v.patch_embd.weight", Type::F32, {14, 14, 3, 1024}},
                                           {"v.position_embd.weight", Type::F32, {1024, 729}},
                                           {"mm.input_projection.weight", Type::F16, {2048, 1024}},
                                           {"mm.patch_merger.weight", Type::F16, {4096, 1024}},
                                           {"mm.2.weight", Type::F16, {4096, 2048}},
                                           {"v.deepstack.3.fc1.weight", Type::F16, {4096, 4096}},
                                           {"v.blk.0.ln1.weight", Type::F32, {1024}},
                                           {"v.blk.0.attn_out.weight", Type::F16, {1024, 1024}}};
  const size_t first = tensors.size();
  for (int64_t il = 0; il < 24; ++il)
    for (const char* part : {"attn_v", "ffn_down"})
      tensors.push_back({fmt::format("v.blk.{}.{}.weight", il, part), Type::F16, {1024, 1024}});
  const auto types = models::assign_types(*models::find_recipe("Q4_K_M"), {"clip", 24, 16, 16, 0}, tensors);
  CHECK(types[0] == Type::F32);
  CHECK(types[1] == Type::F32);
  CHECK(types[2] == Type::F16);
  CHECK(types[3] == Type::F16);
  CHECK(types[4] == Type::Q6_K);
  CHECK(types[5] == Type::Q6_K);
  CHECK(types[6] == Type::F32);
  CHECK(types[7] == Type::Q4_K);
  CHECK(types[first] == Type::Q6_K);
  CHECK(types[first + 2 * 3] == Type::Q4_K);
  CHECK(types[first + 2 * 23 + 1] == Type::Q6_K);
}
