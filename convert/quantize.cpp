#include "convert/quantize.h"

#include "convert/quantize_setup.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/read_file.h"
#include "core/units.h"
#include "engine/loading/machine.h"
#include "engine/loading/model_key.h"
#include "models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ridge::convert {
namespace {

bool is_copy(const api::QuantizeRequest& r) { return r.type == "COPY" || r.type == "copy"; }

void check_usage(const api::QuantizeRequest& r) {
  const bool calibrated = r.method != "plain";
  if (calibrated && (r.calibration.empty() || is_copy(r) || r.output.empty()))
    throw Error(fmt::format("quantize: --method {} needs --calibration TEXT and something to quantize", r.method),
                Error::kUsage);
  if (!r.adapters.empty() && (calibrated || r.has_target() || r.explore))
    throw Error("quantize: --lora cannot be combined with --method, --explore or the --target options; first merge it "
                "into a file of the original types (COPY)",
                Error::kUsage);
  if (!calibrated && !r.has_target() && !r.calibration.empty())
    throw Error("quantize: --calibration needs --method awq, gptq or round, --explore or a --target option; use ridge "
                "imatrix to make an --imatrix from a text",
                Error::kUsage);
}

// Maximum file size; nullopt: the divergence is limited instead.
std::optional<uint64_t> target_bytes(const api::QuantizeRequest& r, const Requantization& plan) {
  if (!r.target_size.empty()) return core::parse_bytes(r.target_size, "--target-size");
  if (r.target_bpw <= 0) return std::nullopt;
  int64_t weights = 0;
  for (const auto& source : plan.sources)
    if (source.has_weights()) weights += source.weights();
  std::vector<gguf::TensorInfo> none;
  return gguf::file_bytes(plan.metadata, none) + static_cast<uint64_t>(r.target_bpw * static_cast<double>(weights) / 8);
}

// Meets the target.
TypeSearchResult search_types(const QuantizeSetup& setup, Requantization& plan) {
  constexpr double kUsualBits = 4.5;
  const api::QuantizeRequest& r = setup.request;
  const std::optional<uint64_t> target = target_bytes(r, plan);
  const QuantizeSetup::Rest rest = setup.rest_without_searched(plan);
  if (target && rest.bytes > *target)
    throw_error("{}: the target of {} is too small: {} of the file are not quantized", plan.file->path(),
                core::human_bytes(static_cast<double>(*target)), core::human_bytes(static_cast<double>(rest.bytes)));
  const std::unique_ptr<DivergenceMeter> meter = setup.make_meter();
  if (!target && !meter) throw_error("--target-divergence: cannot be measured for this model; use --target-size");
  const double bits =
      target ? 8 * static_cast<double>(*target - rest.bytes) / static_cast<double>(rest.weights) : kUsualBits;
  const std::vector<std::vector<TypeChoice>> choices = setup.find_choices(plan, meter.get(), bits);
  const std::vector<int> chosen = target
                                      ? choose_types(choices, *target - rest.bytes)
                                      : choose_types(choices, std::numeric_limits<int64_t>::max(), r.target_divergence);
  const double loss = take_choices(plan, choices, chosen);
  return {target.value_or(0), loss, meter != nullptr};
}

void warn_without_importance(const Requantization& plan, const QuantizeSteps& steps) {
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const quant::FormatInfo* format = plan.types[i].format();
    if (!format || plan.types[i] == plan.sources[i].type() || !format->name.starts_with("IQ") ||
        format->bits_per_weight() > 3.1)
      continue;
    steps.note(fmt::format("{} loses much accuracy without an importance matrix; create one with `ridge imatrix`",
                           format->name));
    return;
  }
}

constexpr std::string_view kUnfinished = ".unfinished";

// Hash of everything that affects a calibrated result.
uint64_t hash_of(const QuantizeSetup& setup, const Requantization& plan) {
  const api::QuantizeRequest& r = setup.request;
  core::Hash hash;
  hash.add(engine::kCommit).add(engine::model_key(*plan.file)).add(gguf::file_head(plan.metadata, plan.infos()));
  hash.add(r.method).add(core::read_text_file(r.calibration)).add(r.parse_special);
  return hash.add(static_cast<uint64_t>(r.calibration_tokens)).value();
}

std::string continues(const LayerJournal& journal, int32_t layers, const std::string& output) {
  return fmt::format("{} layers of {} were already done{} and are taken from {} (remove it to start again)",
                     std::min(journal.records(), layers), output,
                     journal.records() > layers ? ", and a part of their tuning," : "", journal.path());
}

std::vector<std::string> write_output(const QuantizeSetup& setup, const Requantization& plan) {
  const api::QuantizeRequest& r = setup.request;
  const RequantizeOutput output{r.output,
                                r.split_size.empty() ? 0 : core::parse_bytes(r.split_size, "--split-max-size")};
  int64_t written = 0, all = 0;
  const auto progress = [&](int64_t done, int64_t total) {
    setup.steps.progress("quantizing", written = done, all = total);
  };
  if (!setup.is_calibrated())
    return write(plan, output, setup.importance(), setup.encode(), nullptr, setup.steps.done, progress);
  const core::Program program = models::build_program(*plan.file);
  // A layer takes long without output, so cancellation is checked before each part.
  const auto calibrated = setup.calibrate(plan, program, [&] { progress(written, all); });
  LayerJournal journal(fmt::format("{}{}", r.output, kUnfinished), hash_of(setup, plan));
  if (journal.records() > 0) setup.steps.note(continues(journal, core::layer_count(program), r.output));
  calibrated->use_journal(journal, setup.steps.note);
  std::vector<std::string> paths;
  try {
    paths = write(
        plan, output, setup.importance(), setup.encode(),
        [&](std::string_view name) { return calibrated->tensor(name); }, setup.steps.done, progress);
  } catch (const std::exception&) {
    throw; // the same request can resume
  } catch (...) {
    journal.remove();
    throw;
  }
  journal.remove();
  return paths;
}

// The files must outlive the plan.
std::vector<models::AdapterFile> merge_adapters(const api::QuantizeRequest& request, Requantization& plan) {
  std::vector<models::AdapterFile> files;
  for (const api::AdapterOption& adapter : request.adapters) files.push_back(models::AdapterFile::open(adapter.file));
  std::vector<models::ScaledAdapter> scaled;
  for (size_t i = 0; i < files.size(); ++i)
    scaled.push_back({&files[i], static_cast<float>(request.adapters[i].scale)});
  models::check_merging(scaled, *plan.file);
  if (!scaled.empty())
    for (WeightSource& source : plan.sources) source.merge(scaled);
  return files;
}

} // namespace

QuantizeResult quantize(const api::QuantizeRequest& request, const QuantizeSteps& steps) {
  check_usage(request);
  const bool searched = request.has_target();
  const models::Recipe* recipe = searched           ? models::find_recipe("Q8_0")
                                 : is_copy(request) ? nullptr
                                                    : &parse_recipe(request.type);
  const QuantizeSetup setup(request, steps);
  Requantization plan = plan_requantization(setup.file, recipe, setup.options(), setup.importance());
  const std::vector<models::AdapterFile> adapters = merge_adapters(request, plan);
  QuantizeResult result;
  if (searched) result.search = search_types(setup, plan);
  check_requantization(plan, request.allow_requantize);
  if (!setup.importance() && !setup.is_calibrated()) warn_without_importance(plan, steps);
  steps.planned(plan);
  if (!request.output.empty()) result.paths = write_output(setup, plan);
  return result;
}

} // namespace ridge::convert
