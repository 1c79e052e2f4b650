#include "convert/frontier.h"

#include "convert/quantize_setup.h"
#include "core/error.h"
#include "models/model.h"

#include <algorithm>
#include <limits>

namespace ridge::convert {
namespace {

// Excludes float types, and ternary and binary ones, which suit only models trained for them.
bool is_usual(const models::Recipe& recipe) {
  const quant::FormatInfo& format = quant::format(recipe.base);
  return format.packed && format.bits_per_weight() < 9 && !format.name.starts_with("TQ") && format.name != "Q1_0" &&
         format.name != "Q2_0";
}

class Exploration {
 public:
  Exploration(const api::QuantizeRequest& request, const QuantizeSteps& steps)
      : setup_(request, steps), program_(models::build_program(setup_.file)), meter_(setup_.make_meter()) {}

  Frontier run() {
    Requantization searched = plan_of(models::find_recipe("Q8_0"));
    const auto choices = setup_.find_choices(searched, meter_.get(), kProbedBits);
    plan_recipes();
    plan_mixes(searched, choices);
    Frontier frontier;
    for (const Candidate& candidate : candidates_) frontier.points.push_back(measure(candidate));
    std::ranges::sort(frontier.points, {}, &FrontierPoint::bytes);
    for (FrontierPoint& point : frontier.points)
      point.best = std::ranges::none_of(frontier.points, [&](const FrontierPoint& other) {
        return other.bytes <= point.bytes && other.divergence.value < point.divergence.value;
      });
    for (size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].empty()) continue;
      TensorCosts& costs = frontier.tensors.emplace_back(std::string(searched.sources[i].name()));
      for (const TypeChoice& choice : choices[i])
        costs.choices.push_back({std::string(quant::format(choice.type).name), choice.bytes, choice.loss});
    }
    frontier.scored_tokens = meter_->text().scores();
    return frontier;
  }

 private:
  static constexpr double kProbedBits = 4;

  struct Candidate {
    std::string name;
    Requantization plan;
    double expected = 0;
  };

  Requantization plan_of(const models::Recipe* recipe) const {
    Requantization plan = plan_requantization(setup_.file, recipe, setup_.options(), setup_.importance());
    check_requantization(plan, setup_.request.allow_requantize);
    return plan;
  }

  void add(Candidate candidate) {
    const bool known = std::ranges::any_of(
        candidates_, [&](const Candidate& other) { return other.plan.types == candidate.plan.types; });
    if (!known) candidates_.push_back(std::move(candidate));
  }

  void plan_recipes() {
    for (const models::Recipe& recipe : models::recipes())
      if (is_usual(recipe)) add({std::string(recipe.name), plan_of(&recipe)});
  }

  void plan_mixes(const Requantization& searched, const std::vector<std::vector<TypeChoice>>& choices) {
    const QuantizeSetup::Rest rest = setup_.rest_without_searched(searched);
    uint64_t least = rest.bytes;
    for (const auto& of_tensor : choices) least += of_tensor.empty() ? 0 : of_tensor[0].bytes;
    std::vector<uint64_t> sizes;
    for (const Candidate& recipe : candidates_) sizes.push_back(recipe.plan.bytes());
    for (const uint64_t size : sizes) {
      if (size < least) continue;
      Candidate mix{"", searched};
      mix.expected = take_choices(mix.plan, choices, choose_types(choices, size - rest.bytes));
      add(std::move(mix));
    }
  }

  FrontierPoint measure(const Candidate& candidate) {
    const auto progress = [&](int64_t done, int64_t total) {
      const auto all = std::ssize(candidates_);
      setup_.steps.progress("measuring mixes", measured_ * total + done, all * total);
    };
    const auto calibrated =
        setup_.is_calibrated() ? setup_.calibrate(candidate.plan, program_, [&] { progress(0, 1); }) : nullptr;
    FrontierPoint point{candidate.name, candidate.plan.bytes()};
    point.expected = candidate.expected;
    point.divergence = meter_->of(
        candidate.plan, setup_.importance(), setup_.encode(),
        [&](std::string_view name) { return calibrated ? calibrated->tensor(name) : nullptr; }, progress);
    if (calibrated)
      point.plain = meter_
                        ->of(candidate.plan, setup_.importance(), setup_.encode(), nullptr,
                             [&](int64_t, int64_t) { progress(1, 1); })
                        .value;
    int64_t weights = 0;
    uint64_t bytes = 0;
    const std::vector<gguf::TensorInfo> infos = candidate.plan.infos();
    for (size_t i = 0; i < infos.size(); ++i) {
      if (!candidate.plan.sources[i].has_weights()) continue;
      weights += candidate.plan.sources[i].weights();
      bytes += infos[i].bytes();
    }
    point.bits_per_weight = 8 * static_cast<double>(bytes) / static_cast<double>(weights);
    ++measured_;
    return point;
  }

  const QuantizeSetup setup_;
  const core::Program program_;
  const std::unique_ptr<DivergenceMeter> meter_;
  std::vector<Candidate> candidates_;
  int64_t measured_ = 0;
};

} // namespace

Frontier explore(const api::QuantizeRequest& request, const QuantizeSteps& steps) {
  if (request.method != "plain" && request.calibration.empty())
    throw Error(fmt::format("quantize: --method {} needs --calibration TEXT", request.method), Error::kUsage);
  return Exploration(request, steps).run();
}

} // namespace ridge::convert
