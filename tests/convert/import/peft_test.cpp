// A converted adapter must equal merged weights.
#include "convert/import/peft.h"

#include "convert/import/checkpoint.h"
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "models/adapters/add_adapters.h"
#include "models/model.h"
#include "support/executor_runs.h"
#include "support/peft.h"

#include <numeric>

using namespace ridge;
using tests::Checkpoint;
using tests::Numbers;
using tests::PeftFolder;

namespace {

constexpr int64_t kAdapterWidth = 64, kVocab = 96, kAlpha = 8;

std::vector<float> logits_of(const core::Program& program) {
  core::ExecutorConfig config = tests::exact_config();
  std::vector<int32_t> tokens(16), positions(16), outputs(16);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % kVocab);
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), 0);
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  executor->forward({tokens, positions, {}, outputs});
  std::vector<float> all;
  for (int64_t i = 0; i < 16; ++i) std::ranges::copy(executor->logits(i), std::back_inserter(all));
  return all;
}

struct Module {
  std::string name;
  int64_t rows, cols, rank;
  bool is_table = false;
};

std::vector<Module> all_modules() {
  const std::string layer = "model.layers.0.";
  return {{layer + "self_attn.q_proj", 64, kAdapterWidth, 4},
          {layer + "self_attn.k_proj", 32, kAdapterWidth, 4},
          {layer + "self_attn.v_proj", 32, kAdapterWidth, 3},
          {layer + "self_attn.o_proj", kAdapterWidth, 64, 4},
          {layer + "mlp.gate_proj", 128, kAdapterWidth, 4},
          {layer + "mlp.up_proj", 128, kAdapterWidth, 7},
          {layer + "mlp.down_proj", kAdapterWidth, 128, 4},
          {"model.embed_tokens", kAdapterWidth, kVocab, 4, true},
          {"lm_head", kVocab, kAdapterWidth, 4}};
}

void merge(tests::SafeFile& file, const Module& module, const PeftFolder::Matrices& pair, double factor) {
  auto& entry = file.tensors.at(module.name + ".weight");
  std::vector<float> weights(entry.data.size() / sizeof(float));
  std::memcpy(weights.data(), entry.data.data(), entry.data.size());
  for (int64_t r = 0; r < module.rows; ++r)
    for (int64_t c = 0; c < module.cols; ++c) {
      double change = 0;
      for (int64_t k = 0; k < module.rank; ++k)
        change += static_cast<double>(pair.b[r * module.rank + k]) * pair.a[k * module.cols + c];
      float& w = module.is_table ? weights[c * module.rows + r] : weights[r * module.cols + c];
      w = static_cast<float>(w + factor * change);
    }
  std::memcpy(entry.data.data(), weights.data(), entry.data.size());
}

double error_of(const std::vector<Module>& modules, const nlohmann::json& settings,
                const std::function<double(const Module&)>& factor) {
  Checkpoint checkpoint;
  checkpoint.config["tie_word_embeddings"] = false;
  checkpoint.write();
  const tests::TemporaryFolder out;
  PeftFolder adapter{out / "adapter"};
  adapter.settings.update(settings);
  tests::SafeFile changed = checkpoint.file;
  for (const Module& module : modules)
    merge(changed, module,
          adapter.add(module.name, module.rows, module.cols, module.rank, checkpoint.random, module.is_table),
          factor(module));
  adapter.write();
  const auto convert = [&](const std::string& to) {
    api::ConvertRequest request;
    request.input = checkpoint.folder.path();
    request.output = out / to;
    request.type = "f32";
    convert::import::convert(request);
    return gguf::File::open(request.output);
  };
  const gguf::File base = convert("base.gguf");
  checkpoint.file = changed;
  checkpoint.save();
  const gguf::File merged = convert("merged.gguf");
  api::ConvertRequest request;
  request.input = adapter.path;
  request.output = out / "adapter.gguf";
  request.base = checkpoint.folder.path();
  CHECK(convert::import::convert(request).files.size() == 1);
  const models::AdapterFile file = models::AdapterFile::open(request.output);
  core::Program program = models::build_program(base);
  const models::ScaledAdapter scaled{&file};
  models::add_adapters(program, base, {&scaled, 1});
  const std::vector<float> expected = logits_of(models::build_program(merged));
  CHECK(tests::nmse(logits_of(models::build_program(base)), expected) > 1e-3);
  return tests::nmse(logits_of(program), expected);
}

std::string refusal(const std::function<void(PeftFolder&)>& spoil) {
  Checkpoint checkpoint;
  checkpoint.write();
  const tests::TemporaryFolder out;
  PeftFolder adapter{out / "adapter"};
  adapter.add("model.layers.0.self_attn.q_proj", 64, kAdapterWidth, 4, checkpoint.random);
  spoil(adapter);
  adapter.write();
  api::ConvertRequest request;
  request.input = adapter.path;
  request.output = out / "adapter.gguf";
  request.base = checkpoint.folder.path();
  try {
    convert::import::convert(request);
  } catch (const Error& error) {
    CHECK(!std::filesystem::exists(request.output));
    return error.what();
  }
  return "accepted";
}

bool error_says(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a model with a converted adapter is the one of merged weights") {
  const auto plain = [](const Module& module) { return static_cast<double>(kAlpha) / module.rank; };
  CHECK(error_of(all_modules(), nlohmann::json::object(), plain) <= 1e-9);
}

TEST_CASE("alphas of modules and rank-stabilized factors are taken") {
  std::vector<Module> modules = all_modules();
  modules.resize(7);
  CHECK(error_of(modules, {{"use_rslora", true}},
                 [](const Module& module) { return kAlpha / std::sqrt(static_cast<double>(module.rank)); }) <= 1e-9);
  CHECK(error_of(modules, {{"alpha_pattern", {{"q_proj", 3}, {"^model.layers.0.mlp.up_proj", 5}}}},
                 [](const Module& module) {
                   const double alpha = module.name.ends_with("q_proj") ? 3 : module.name.ends_with("up_proj") ? 5 : 8;
                   return alpha / static_cast<double>(module.rank);
                 }) <= 1e-9);
}

TEST_CASE("adapters that low-rank matrices beside a model's do not express are refused") {
  CHECK(refusal([](PeftFolder&) {}) == "accepted");
  CHECK(refusal([](PeftFolder& folder) { // omitted: equal to the model's
          folder.file.add("base_model.model.model.embed_tokens.base_layer.weight", "F32", {96, 64},
                          std::vector<float>(96 * 64));
        }) == "accepted");
  const auto with = [](const char* key, const nlohmann::json& value) {
    return refusal([&](PeftFolder& folder) { folder.settings[key] = value; });
  };
  CHECK(error_says(with("peft_type", "LOHA"), "peft_type: 'LOHA' is not supported"));
  CHECK(error_says(with("use_dora", true), "use_dora: DoRA also scales"));
  CHECK(error_says(with("modules_to_save", {"lm_head"}), "modules_to_save: the adapter has full weights"));
  CHECK(error_says(with("bias", "all"), "bias: the adapter changes biases"));
  CHECK(error_says(with("init_lora_weights", "pissa_niter_4"),
                   "init_lora_weights: 'pissa_niter_4' also changes the model's own"));
  CHECK(error_says(with("alpha_pattern", {{".*q_proj", 3}}), "alpha_pattern: '.*q_proj' is a regular expression"));
  CHECK(error_says(with("lora_alpha", -1), "lora_alpha: is -1"));
  CHECK(error_says(with("alora_invocation_tokens", {1, -2}), "alora_invocation_tokens: not a list of tokens"));
  CHECK(error_says(refusal([](PeftFolder& folder) {
                     folder.file.add("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
                                     "F32", {64}, std::vector<float>(64));
                   }),
                   "does not belong to a plain LoRA adapter, but to DoRA"));
  CHECK(error_says(refusal([](PeftFolder& folder) {
                     folder.file.tensors.erase("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
                   }),
                   "has only one of its two matrices"));
  CHECK(error_says(refusal([](PeftFolder& folder) {
                     std::mt19937_64 random(1);
                     folder.add("model.layers.0.self_attn.z_proj", 64, 64, 4, random);
                   }),
                   "model.layers.0.self_attn.z_proj does not exist in a llama model"));
  CHECK(error_says(refusal([](PeftFolder& folder) {
                     std::mt19937_64 random(1);
                     folder.add("model.layers.5.self_attn.q_proj", 64, 64, 4, random);
                   }),
                   "model.layers.5.self_attn.q_proj does not exist in a llama model"));
}
