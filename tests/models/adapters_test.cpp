// LoRA adapters.
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/adapters/add_adapters.h"
#include "models/synthetic.h"

#include "model_image.h"
#include "support/adapters.h"
#include "support/recipes/recipe_runs.h"

using namespace ridge;
using tests::AdapterImage;
using tests::ModelImage;

namespace {

constexpr double kExact = 1e-9, kFast = 3.5e-4; // NMSE

std::vector<int32_t> random_tokens(std::mt19937_64& random, int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  return tokens;
}

gguf::File random_model(const models::Shape& shape) {
  return gguf::File::from_bytes(models::random_image(models::metadata_of(shape), models::tensors_of(shape)), "m.gguf");
}

core::Program with_adapters(const gguf::File& model, const std::vector<models::ScaledAdapter>& adapters) {
  core::Program program = models::build_program(model);
  models::add_adapters(program, model, adapters);
  return program;
}

std::vector<float> logits_of(const core::Program& program, bool exact, std::span<const int32_t> ids, size_t size,
                             const tests::MakeExecutor& make = kernels::cpu::make_cpu_executor) {
  return tests::in_pieces(make, program, exact ? tests::exact_config() : tests::fast_config(), ids, size);
}

std::string refusal(const AdapterImage& image, const gguf::File& model) {
  try {
    const models::AdapterFile adapter(image.file());
    with_adapters(model, {{&adapter}});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

} // namespace

TEST_CASE("logits with adapters are those of merged weights") {
  const uint64_t seed = tests::printed_seed();
  std::mt19937_64 random(seed);
  for (const bool experts : {false, true}) {
    CAPTURE(experts);
    const gguf::File model = random_model(experts ? ModelImage::with_experts("qwen3moe") : ModelImage::dense("llama"));
    std::vector<models::AdapterFile> adapters;
    for (int i = 0; i < 3; ++i) { // some tensors have no adapter, others several
      AdapterImage image(model.get_string("general.architecture"), i == 0 ? 0 : 3.0f * static_cast<float>(i));
      for (const gguf::Tensor& tensor : model.tensors())
        if (tensor.n_dims > 1 && (tensor.name == models::kEmbeddingTable || random() % 2 == 0))
          image.add_pair(tensor, 1 + static_cast<int64_t>(random() % 20), random,
                         i == 2 ? quant::Type::F16 : quant::Type::F32);
      adapters.emplace_back(image.file(fmt::format("{}.gguf", i)));
    }
    const core::Program program =
        with_adapters(model, {{&adapters[0], 0.7f}, {&adapters[1], -0.4f}, {&adapters[2], 0.5f}});
    const gguf::File sum = tests::merged(model, {{&adapters[0], 0.7f}, {&adapters[1], -0.4f}, {&adapters[2], 0.5f}});
    const std::vector<int32_t> ids = random_tokens(random, 24, program.vocab);
    const std::vector<float> expected = logits_of(models::build_program(sum), true, ids, ids.size());
    for (const size_t size : {ids.size(), size_t{1}, size_t{7}}) {
      CHECK(tests::nmse(logits_of(program, true, ids, size), expected) <= kExact);
      CHECK(tests::nmse(logits_of(program, false, ids, size), expected) <= kFast);
    }
    const auto split = [](const core::Program& whole, const core::ExecutorConfig& config) {
      return core::make_split_executor(core::split_program(whole, 1), config, kernels::cpu::make_cpu_executor,
                                       kernels::cpu::make_cpu_executor);
    };
    CHECK(tests::nmse(logits_of(program, true, ids, 7, split), expected) <= kExact);
  }
}

TEST_CASE("adapters of whatever a model of each architecture multiplies are those of merged weights") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::printed_seed();
  std::mt19937_64 random(seed);
  int64_t pairs = 0, refused = 0;
  for (const std::string& name : tests::share_of(tests::known_recipes(), 6)) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File model = recipe.open();
    AdapterImage all(model.get_string("general.architecture"), 5);
    for (const gguf::Tensor& tensor : model.tensors()) {
      if (tensor.n_dims < 2) continue;
      // Merging into a table that also makes the logits would change those, too.
      if (tensor.name == models::kEmbeddingTable && !model.find_tensor("output.weight")) continue;
      AdapterImage one(model.get_string("general.architecture"), 5);
      one.add_pair(tensor, 1 + static_cast<int64_t>(random() % 6), random);
      if (const std::string line = refusal(one, model); line != "accepted") {
        CAPTURE(tensor.name);
        const bool says = line.find("quantize --lora") != std::string::npos;
        CHECK_MESSAGE(says, line);
        ++refused;
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        all.infos.push_back(one.infos[i]);
        all.values.push_back(one.values[i]);
      }
      ++pairs;
    }
    const models::AdapterFile adapter(all.file());
    const core::Program program = with_adapters(model, {{&adapter, 0.3f}});
    const gguf::File sum = tests::merged(model, {{&adapter, 0.3f}});
    const std::vector<int32_t> ids = recipe.ids();
    const std::vector<float> expected = logits_of(models::build_program(sum), true, ids, ids.size());
    // Models that amplify rounding (gemma3n: 5.5e-5 in one of many runs) do so with the sums of merged weights, too.
    const double bound = std::max(1e-5, 1000 * recipe.document["spread"].get<double>());
    CHECK(tests::nmse(logits_of(program, true, ids, ids.size()), expected) <= bound);
  }
  MESSAGE(pairs, " matrices with adapters, ", refused, " refused");
  CHECK(pairs > refused);
}

TEST_CASE("streams of a batch have different scales, and those without an adapter the bits of a model without") {
  const uint64_t seed = tests::printed_seed();
  std::mt19937_64 random(seed);
  for (const bool exact : {true, false}) {
    const gguf::File model = random_model(ModelImage::dense("llama"));
    AdapterImage images[2] = {AdapterImage("llama", 8), AdapterImage("llama")};
    for (AdapterImage& image : images)
      for (const gguf::Tensor& tensor : model.tensors())
        if (tensor.n_dims > 1 && tensor.name.starts_with("blk.")) image.add_pair(tensor, 4, random);
    const models::AdapterFile first(images[0].file()), second(images[1].file());
    const core::Program plain = models::build_program(model),
                        program = with_adapters(model, {{&first, 0.5f}, {&second, 0}});
    core::ExecutorConfig config = exact ? tests::exact_config() : tests::fast_config();
    config.streams = 4;
    const auto executor = kernels::cpu::make_cpu_executor(program, config);
    const auto without = kernels::cpu::make_cpu_executor(plain, config);
    const std::vector<std::vector<core::AdapterUse>> uses = {
        {{0.5f, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {{0.3f, 0}, {-1, 0}}, {{0, 0}, {0.8f, 3}}};
    for (int32_t stream = 1; stream < 4; ++stream) executor->set_adapters(stream, uses[stream]);
    CHECK_THROWS_AS(executor->set_adapters(4, uses[0]), Error);
    CHECK_THROWS_AS(executor->set_adapters(0, std::span(uses[0]).first(1)), Error);

    const std::vector<int32_t> text = random_tokens(random, 6, program.vocab);
    tests::Steps together;
    for (int32_t position = 0; position < 6; ++position)
      for (int32_t stream = 0; stream < 4; ++stream) {
        together.outputs.push_back(static_cast<int32_t>(together.tokens.size()));
        together.tokens.push_back(text[position]);
        together.positions.push_back(position);
        together.streams.push_back(stream);
      }
    const std::vector<float> all = tests::run(*executor, together), base = tests::run(*without, together);
    const auto row = [&](const std::vector<float>& of, int32_t position, int32_t stream) {
      return std::span(of).subspan((position * 4 + stream) * program.vocab, program.vocab);
    };
    for (int32_t position = 0; position < 6; ++position) {
      CAPTURE(position);
      CHECK(std::ranges::equal(row(all, position, 1), row(base, position, 1)));
      CHECK(std::ranges::equal(row(all, position, 3), row(base, position, 3)) == (position < 3));
      CHECK(!std::ranges::equal(row(all, position, 0), row(base, position, 0)));
    }
    for (const int32_t stream : {0, 2}) {
      const gguf::File sum = tests::merged(model, {{&first, uses[stream][0].scale}, {&second, uses[stream][1].scale}});
      const std::vector<float> expected = logits_of(models::build_program(sum), true, text, 6);
      std::vector<float> got;
      for (int32_t position = 0; position < 6; ++position)
        std::ranges::copy(row(all, position, stream), std::back_inserter(got));
      CHECK(tests::nmse(got, expected) <= (exact ? kExact : kFast));
    }
  }
}

TEST_CASE("an output matrix that is the table of tokens has adapters of its own") {
  ModelImage image(ModelImage::dense("llama"));
  std::erase_if(image.tensors, [](const gguf::TensorInfo& info) { return info.name == "output.weight"; });
  const gguf::File tied = gguf::File::from_bytes(models::random_image(image.metadata, image.tensors), "tied.gguf");
  std::mt19937_64 random(tests::printed_seed());
  AdapterImage adapter("llama");
  adapter.add("output.weight.lora_a", {64, 3}, random);
  adapter.add("output.weight.lora_b", {3, 32}, random);
  const models::AdapterFile file(adapter.file());
  const core::Program program = with_adapters(tied, {{&file}}), plain = models::build_program(tied);
  const std::vector<int32_t> ids = random_tokens(random, 5, program.vocab);
  CHECK(tests::nmse(logits_of(program, true, ids, 5), logits_of(plain, true, ids, 5)) > 1e-4);
  CHECK(std::ranges::count(program.ops, core::OpKind::adapter_scale, &core::Op::kind) == 1);
}

TEST_CASE("adapters that are none or of another model are refused with a line") {
  const gguf::File model = random_model(ModelImage::dense("llama"));
  const gguf::Tensor& q = *model.find_tensor("blk.0.attn_q.weight");
  std::mt19937_64 random(1);
  const auto spoiled = [&](const std::function<void(AdapterImage&)>& spoil) {
    AdapterImage image("llama", 16);
    image.add_pair(q, 4, random);
    spoil(image);
    return refusal(image, model);
  };
  const auto nothing = [](AdapterImage&) {};
  CHECK(spoiled(nothing) == "accepted");
  CHECK(spoiled([](AdapterImage& a) { a.metadata.set("general.type", "model"); }) ==
        "adapter.gguf: not an adapter: general.type is 'model', expected 'adapter'");
  CHECK(spoiled([](AdapterImage& a) { a.metadata.set("adapter.type", "control_vector"); }) ==
        "adapter.gguf: unsupported adapter type 'control_vector', expected 'lora'");
  CHECK(spoiled([](AdapterImage& a) { a.metadata.set("general.architecture", "qwen3"); }) ==
        "adapter.gguf: adapter for a qwen3 model, but m.gguf is a llama model");
  CHECK(spoiled([](AdapterImage& a) { a.infos.pop_back(), a.values.pop_back(); }) ==
        "adapter.gguf: tensor blk.0.attn_q.weight.lora_a has no matching blk.0.attn_q.weight.lora_b");
  CHECK(spoiled([](AdapterImage& a) { a.infos[1].name = "blk.0.attn_q.weight"; }) ==
        "adapter.gguf: tensor blk.0.attn_q.weight ends with neither .lora_a nor .lora_b");
  CHECK(spoiled([](AdapterImage& a) { a.infos.clear(), a.values.clear(); }) ==
        "adapter.gguf: the adapter has no tensors");
  CHECK(spoiled([](AdapterImage& a) {
          a.infos[0].dims = {32, 8};
        }) == "adapter.gguf: blk.0.attn_q.weight: .lora_a [32, 8] and .lora_b [4, 64] do not match");
  CHECK(spoiled([](AdapterImage& a) {
          a.infos[0].dims = {16, 4}, a.values[0].resize(64);
        }) == "adapter.gguf: blk.0.attn_q.weight: made for another model: it expects a matrix [16, 64], but that of "
              "m.gguf is [64, 64]");
  CHECK(
      spoiled([](AdapterImage& a) {
        for (gguf::TensorInfo& info : a.infos) info.name.replace(0, 5, "blk.7");
      }) ==
      "adapter.gguf: changes blk.7.attn_q.weight, which m.gguf does not contain: is it an adapter for another model?");
  CHECK(spoiled([](AdapterImage& a) { a.values[1][5] = INFINITY; }) ==
        "adapter.gguf: tensor blk.0.attn_q.weight.lora_b has NaN or infinite values in row 1");
  CHECK(spoiled([](AdapterImage& a) { a.metadata.set("adapter.lora.alpha", -1.0f); }) ==
        "adapter.gguf: adapter.lora.alpha is -1");
  CHECK(spoiled([](AdapterImage& a) { a.metadata.set("adapter.alora.invocation_tokens", std::vector<int32_t>{-4}); }) ==
        "adapter.gguf: adapter.alora.invocation_tokens is not a list of tokens");
  CHECK(models::is_adapter(AdapterImage("llama").file()));
  CHECK(!models::is_adapter(model));
}
