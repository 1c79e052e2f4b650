// Layer-wise divergence must equal the whole model's.
#include "convert/sensitivity.h"

#include "convert/calibrated.h"
#include "convert/type_search.h"
#include "kernels/cpu/executor/executor.h"
#include "models/guide.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipes/recipe_runs.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <random>

using namespace ridge;
using convert::DivergenceMeter;
using convert::LayerGroups;
using convert::MeasuredText;
using quant::Type;

namespace {

MeasuredText random_text(uint64_t seed, int64_t vocab) {
  std::mt19937_64 random(seed);
  MeasuredText text;
  text.chunks.resize(3);
  for (auto& chunk : text.chunks)
    for (int i = 0; i < 16; ++i) chunk.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  text.scored = {8, 9, 12, 15};
  return text;
}

MeasuredText held_out_text(const gguf::File& guide) {
  const std::string text = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/models/guide/heldout.txt");
  MeasuredText measured;
  measured.chunks = convert::calibration_chunks(*text::Tokenizer::from_file(guide), text, true, 128, 8);
  measured.score_second_halves(512);
  return measured;
}

convert::Requantization plan_of_recipe(const gguf::File& file, std::string_view recipe) {
  return convert::plan_requantization(file, models::find_recipe(recipe), {}, nullptr);
}

std::vector<bool> searched(const convert::Requantization& plan) {
  std::vector<bool> wanted;
  for (const convert::WeightSource& source : plan.sources) wanted.push_back(convert::is_searched(source, {}));
  return wanted;
}

} // namespace

TEST_CASE("layers that run one behind the other give what the whole model gives") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::vector<std::string> names = tests::known_recipes();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with("-deep"); });
  for (const std::string& name : tests::share_of(names, 3)) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    if (program.embeds || core::sees_ahead(program)) continue;
    const MeasuredText text = random_text(seed, program.vocab);
    const LayerGroups groups(file, text, kernels::cpu::make_cpu_executor, 1);
    const std::vector<float> whole = groups.run(0, groups.count() - 1)->rows({});
    std::vector<float> rows;
    for (int group = 0; group < groups.count(); ++group) rows = groups.run(group, group)->rows(rows);
    REQUIRE(rows.size() == whole.size());
    CHECK(tests::nmse(rows, whole) < 1e-9);
  }
}

TEST_CASE("a mix diverges as much when it is measured layer by layer as when it is written and read") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const tests::TemporaryFolder folder;
  tests::TinyModel{.layers = 2, .width = 256, .heads = 4, .kv_heads = 2, .ffn_width = 512}.write(folder / "wide.gguf");
  const gguf::File file = gguf::File::open(folder / "wide.gguf");
  const MeasuredText text = random_text(seed, models::build_program(file).vocab);
  const DivergenceMeter meter(file, text, kernels::cpu::make_cpu_executor, 1);
  CHECK(meter.of(plan_of_recipe(file, "F16"), nullptr, convert::encode_on_cpu, nullptr, nullptr).value == 0);

  const convert::Requantization plan = plan_of_recipe(file, "Q3_K_M");
  convert::write(plan, {folder / "packed.gguf"}, nullptr, convert::encode_on_cpu, nullptr, nullptr, nullptr);
  const gguf::File packed = gguf::File::open(folder / "packed.gguf");
  const auto logits = [&](const gguf::File& of) {
    const LayerGroups groups(of, text, kernels::cpu::make_cpu_executor, 1);
    return groups.run(0, groups.count() - 1)->rows({});
  };
  const std::vector<float> expected = logits(file), found = logits(packed);
  const size_t vocab = expected.size() / static_cast<size_t>(text.scores());
  double sum = 0;
  for (size_t i = 0; i < expected.size(); i += vocab)
    sum += measure::compare(std::span(found).subspan(i, vocab), std::span(expected).subspan(i, vocab), 0).divergence;
  const double by_layers = meter.of(plan, nullptr, convert::encode_on_cpu, nullptr, nullptr).value;
  CHECK(by_layers > 0);
  CHECK(by_layers == doctest::Approx(sum / static_cast<double>(text.scores())).epsilon(1e-3));
}

TEST_CASE(
    "on the guide, tensors' sensitivities foretell a mix's divergence, and its mix beats the recipe of its size") {
  const gguf::File guide = models::open_guide();
  const DivergenceMeter meter(guide, held_out_text(guide), kernels::cpu::make_cpu_executor, 0);
  const convert::Requantization recipe = plan_of_recipe(guide, "Q3_K_M");
  convert::TypeSearch search;
  search.inputs = &meter.inputs();
  search.probes.push_back({Type::Q3_K, meter.sensitivities(recipe, searched(recipe), Type::Q3_K, nullptr,
                                                           convert::encode_on_cpu, nullptr, nullptr)});
  const auto& sensitivities = search.probes[0].sensitivities;
  for (size_t i = 0; i < recipe.sources.size(); ++i) {
    CAPTURE(recipe.sources[i].name());
    REQUIRE(sensitivities[i].has_value() == convert::is_searched(recipe.sources[i], {}));
    if (sensitivities[i]) CHECK(*sensitivities[i] > 0);
  }
  const auto choices = convert::measure_choices(recipe, search, {}, nullptr, convert::encode_on_cpu, nullptr);
  convert::Requantization mix = recipe;
  uint64_t budget = 0;
  for (size_t i = 0; i < choices.size(); ++i)
    if (!choices[i].empty()) budget += recipe.infos()[i].bytes();
  const std::vector<int> chosen = convert::choose_types(choices, budget);
  double expected = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (chosen[i] < 0) continue;
    mix.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
    expected += choices[i][static_cast<size_t>(chosen[i])].loss;
  }
  CHECK(mix.bytes() <= recipe.bytes());
  const auto divergence = [&](const convert::Requantization& plan) {
    return meter.of(plan, nullptr, convert::encode_on_cpu, nullptr, nullptr).value;
  };
  const double of_mix = divergence(mix);
  CHECK(of_mix < 0.8 * divergence(recipe));
  CHECK(of_mix > 0.4 * expected);
  CHECK(of_mix < 2.5 * expected);
}

TEST_CASE("types between two probes have a sensitivity between theirs, others that of the nearest") {
  const gguf::File guide = models::open_guide();
  const convert::Requantization plan = plan_of_recipe(guide, "Q8_0");
  const auto choices = [&](std::vector<convert::TypeSearch::Probe> probes) {
    return convert::measure_choices(
        plan, {{Type::Q2_K, Type::Q3_K, Type::IQ4_XS, Type::Q4_K, Type::Q5_K}, nullptr, std::move(probes)}, {}, nullptr,
        convert::encode_on_cpu, nullptr);
  };
  const auto all = [&](double value) { return std::vector<std::optional<double>>(plan.sources.size(), value); };
  const auto ones = choices({{Type::Q4_K, all(1)}}), both = choices({{Type::Q4_K, all(1)}, {Type::Q3_K, all(0.5)}});
  int between = 0;
  for (size_t i = 0; i < ones.size(); ++i)
    for (const convert::TypeChoice& one : ones[i])
      for (const convert::TypeChoice& other : both[i]) {
        if (one.type != other.type || one.loss == 0) continue;
        const double ratio = other.loss / one.loss;
        CHECK(ratio > 0.499);
        CHECK(ratio < 1.001);
        if (one.type == Type::Q2_K || one.type == Type::Q3_K) CHECK(ratio == doctest::Approx(0.5));
        if (one.type == Type::Q5_K) CHECK(ratio == doctest::Approx(1));
        between += ratio > 0.501 && ratio < 0.999;
      }
  CHECK(between > 0); // IQ4_XS
}

TEST_CASE("on the guide with feedback, sensitivities measured after it foretell the mix's divergence") {
  const gguf::File guide = models::open_guide();
  const core::Program program = models::build_program(guide);
  const DivergenceMeter meter(guide, held_out_text(guide), kernels::cpu::make_cpu_executor, 0);
  const convert::Requantization recipe = plan_of_recipe(guide, "Q3_K_M");
  const std::string text = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/models/guide/heldout.txt");
  // Not the text that is scored.
  const auto chunks = convert::calibration_chunks(*text::Tokenizer::from_file(guide),
                                                  std::string_view(text).substr(text.size() / 2), true, 256, 8);
  const auto calibrate = [&](const convert::Requantization& plan, bool alone) {
    return std::make_unique<convert::CalibratedQuantizer>(plan, program,
                                                          convert::CalibrationMethod{.feedback = true, .alone = alone},
                                                          chunks, kernels::cpu::make_cpu_executor, 0);
  };
  convert::Requantization probed = recipe;
  const auto wanted = searched(recipe);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) probed.types[i] = models::fitting_type(Type::Q3_K, recipe.sources[i].cols());
  const auto after = calibrate(probed, true);
  const auto sensitivities = meter.sensitivities(
      recipe, wanted, Type::Q3_K, nullptr, convert::encode_on_cpu,
      [&](std::string_view name) { return after->tensor(name); }, nullptr);
  const auto before =
      meter.sensitivities(recipe, wanted, Type::Q3_K, nullptr, convert::encode_on_cpu, nullptr, nullptr);
  double ratios = 0, layers = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (sensitivities[i] && recipe.sources[i].name().starts_with("blk."))
      ratios += *sensitivities[i] / *before[i], ++layers;
  CHECK(ratios / layers < 0.8);
  convert::TypeSearch search;
  search.inputs = &meter.inputs();
  search.probes.push_back({Type::Q3_K, sensitivities});
  const auto choices = convert::measure_choices(recipe, search, {}, nullptr, convert::encode_on_cpu, nullptr);
  uint64_t budget = 0;
  for (size_t i = 0; i < choices.size(); ++i)
    if (!choices[i].empty()) budget += recipe.infos()[i].bytes();
  const std::vector<int> chosen = convert::choose_types(choices, budget);
  convert::Requantization mix = recipe;
  double expected = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (chosen[i] < 0) continue;
    mix.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
    expected += choices[i][static_cast<size_t>(chosen[i])].loss;
  }
  const auto of_mix = calibrate(mix, false), of_recipe = calibrate(recipe, false);
  const auto divergence = [&](const convert::Requantization& plan, convert::CalibratedQuantizer& calibrated) {
    return meter
        .of(
            plan, nullptr, convert::encode_on_cpu, [&](std::string_view name) { return calibrated.tensor(name); },
            nullptr)
        .value;
  };
  const double found = divergence(mix, *of_mix);
  CAPTURE(expected);
  CHECK(found < 0.8 * divergence(recipe, *of_recipe));
  CHECK(found > 0.4 * expected);
  CHECK(found < 2.5 * expected);
}

TEST_CASE("no more is bought than a divergence that is allowed needs") {
  const std::vector<std::vector<convert::TypeChoice>> choices = {
      {{Type::Q2_K, 10, 8}, {Type::Q4_K, 20, 2}, {Type::Q8_0, 40, 0}},
      {{Type::Q2_K, 100, 9}, {Type::Q4_K, 200, 1}},
  };
  CHECK(convert::choose_types(choices, 1000, 17) == std::vector<int>{0, 0});
  CHECK(convert::choose_types(choices, 1000, 11) == std::vector<int>{1, 0});
  CHECK(convert::choose_types(choices, 1000, 10.9) == std::vector<int>{2, 0});
  CHECK(convert::choose_types(choices, 1000, 1) == std::vector<int>{2, 1});
}
