#include "convert/quantize.h"

#include "convert/calibrated.h"
#include "convert/calibration.h"
#include "convert/type_search.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/units.h"
#include "engine/loaded_model.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/encode/encode.h"
#include "kernels/cuda/encode/hessian.h"
#include "kernels/cuda/executor/executor.h"
#include "models/guide.h"
#include "models/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>

namespace ridge::convert {
namespace {

constexpr int64_t kChunkTokens = 512; // of a calibration text that run together

quant::Type parse_type(const std::string& name, const char* flag) {
  const quant::FormatInfo* format = quant::find_format(name);
  if (!format || !format->stored()) {
    std::vector<std::string_view> names;
    for (const quant::FormatInfo& known : quant::formats())
      if (known.stored() && quant::can_encode(known.type)) names.push_back(known.name);
    throw Error(fmt::format("{}: unknown type '{}'; known are {}", flag, name, fmt::join(names, ", ")), Error::kUsage);
  }
  if (!format->stored() || !quant::can_encode(format->type))
    throw Error(fmt::format("{}: {} can be read but not written", flag, format->name), Error::kUsage);
  return format->type;
}

const models::Recipe* parse_recipe(const std::string& name) {
  if (const models::Recipe* recipe = models::find_recipe(name)) return recipe;
  std::vector<std::string_view> names;
  for (const models::Recipe& known : models::recipes()) names.push_back(known.name);
  throw Error(fmt::format("quantize: unknown type '{}'; known are {}, COPY", name, fmt::join(names, ", ")),
              Error::kUsage);
}

class Quantizing {
 public:
  Quantizing(const core::QuantizeRequest& request, const QuantizeSteps& steps) : r_(request), steps_(steps) {}

  QuantizeResult run() const {
    if (r_.threads > 0) omp_set_num_threads(r_.threads);
    const bool searched = !r_.target_size.empty() || r_.target_bpw > 0;
    const bool copy = r_.type == "COPY" || r_.type == "copy";
    const bool calibrated = r_.method != "plain";
    if (calibrated && (r_.calibration.empty() || copy || r_.output.empty()))
      throw Error(fmt::format("quantize: --method {} needs --calibration TEXT and something to quantize", r_.method),
                  Error::kUsage);
    if (!calibrated && !r_.calibration.empty())
      throw Error("quantize: --calibration is for --method awq and gptq; ridge imatrix makes an --imatrix of a text",
                  Error::kUsage);

    const models::Recipe* recipe = searched || copy ? nullptr : parse_recipe(r_.type);
    const gguf::File file = r_.input.empty() ? models::open_guide() : gguf::File::open(r_.input);
    if (!r_.output.empty()) core::check_output(r_.output, {r_.imatrix, r_.calibration});
    std::optional<gguf::Imatrix> importance;
    if (!r_.imatrix.empty()) importance = gguf::Imatrix::read(r_.imatrix);
    const gguf::Imatrix* factors = importance ? &*importance : nullptr;
    const models::RecipeOptions options = recipe_options(factors != nullptr || calibrated);

    Requantization plan = plan_requantization(file, searched ? models::find_recipe("Q8_0") : recipe, options, factors);
    const auto gpu = start_gpu();
    const EncodeRows encode = [&](const Rows& rows, quant::Type to, std::span<const float> columns, std::byte* packed) {
      if (gpu && gpu->can_encode(to))
        gpu->encode_rows(rows.packed ? rows.packed_format->type : quant::Type::F32,
                         rows.packed ? rows.packed : reinterpret_cast<const std::byte*>(rows.weights), to, rows.rows,
                         rows.cols, columns, packed);
      else
        encode_on_cpu(rows, to, columns, packed);
    };
    QuantizeResult result;
    if (searched) result.search = search_types(plan, options, factors);
    check_requantization(plan, r_.allow_requantize);
    if (!factors && !calibrated) warn_without_importance(plan);
    steps_.planned(plan);
    if (r_.output.empty()) return result;
    const RequantizeOutput output{r_.output,
                                  r_.split_size.empty() ? 0 : core::parse_bytes(r_.split_size, "--split-max-size")};
    const auto progress = [&](int64_t done, int64_t total) { steps_.progress("quantizing", done, total); };
    result.paths = calibrated ? quantize_calibrated(plan, output, factors, encode)
                              : write(plan, output, factors, encode, nullptr, steps_.done, progress);
    return result;
  }

 private:
  std::vector<std::string> quantize_calibrated(const Requantization& plan, const RequantizeOutput& output,
                                               const gguf::Imatrix* factors, const EncodeRows& encode) const {
    if (std::ranges::any_of(plan.sources, &WeightSource::is_planar))
      throw_error("{}: its weights are packed in a way that --method {} does not start from; quantize it to F16 first",
                  plan.file->path(), r_.method);
    const core::Program program = models::build_program(*plan.file);
    const auto tokenizer = engine::find_tokenizer(*plan.file);
    if (!tokenizer) throw_error("{}: has no tokenizer, which --calibration needs", plan.file->path());
    const int64_t chunk = std::min(kChunkTokens, program.trained_context);
    const auto chunks = calibration_chunks(*tokenizer, core::read_text_file(r_.calibration), r_.parse_special, chunk,
                                           std::max<int64_t>(1, r_.calibration_tokens / chunk));
    MakeExecutor executors = kernels::cpu::make_cpu_executor;
    quant::MakeHessian hessians = make_cpu_hessian;
    if (r_.device != "cpu") {
      std::string problem;
      if (quant::MakeHessian on_gpu = kernels::cuda::hessian_maker(problem)) {
        hessians = std::move(on_gpu);
        executors = [](const core::Program& part, core::ExecutorConfig config) {
          // Its products of halves are as good as exact, and its exact mode is meant for a few tokens.
          config.exact = false;
          config.k_type = config.v_type = core::KvType::f16;
          return kernels::cuda::make_cuda_executor(part, config);
        };
      } else if (r_.device == "cuda") {
        throw_error("--device cuda: {}", problem);
      } else if (kernels::cuda::device_info().usable) {
        steps_.note(fmt::format("calibrating on the CPU: {}", problem));
      }
    }
    // A layer takes long, and nothing is written in that time: cancelling is checked before each part of it.
    int64_t written = 0, all = 0;
    const auto make_executor = [&](const core::Program& part, const core::ExecutorConfig& config) {
      steps_.progress("quantizing", written, all);
      return executors(part, config);
    };
    CalibratedQuantizer calibrated(plan, program,
                                   {.scales = r_.method.starts_with("awq"), .feedback = r_.method.ends_with("gptq")},
                                   chunks, make_executor, r_.threads, hessians, encode);
    return write(
        plan, output, factors, encode, [&](std::string_view name) { return calibrated.tensor(name); }, steps_.done,
        [&](int64_t done, int64_t total) { steps_.progress("quantizing", written = done, all = total); });
  }

  std::unique_ptr<kernels::cuda::Encoder> start_gpu() const {
    if (r_.device == "cpu" || r_.output.empty()) return nullptr;
    try {
      auto gpu = kernels::cuda::make_encoder();
      if (!gpu && r_.device == "cuda") throw_error("--device cuda: {}", kernels::cuda::device_info().problem);
      return gpu;
    } catch (const kernels::cuda::OutOfMemory& error) {
      if (r_.device == "cuda") throw;
      steps_.note(fmt::format("encoding on the CPU: {}", error.what()));
      return nullptr;
    }
  }

  models::RecipeOptions recipe_options(bool importance) const {
    models::RecipeOptions options;
    options.importance = importance;
    options.pure = r_.pure;
    options.leave_output = r_.leave_output;
    if (!r_.output_type.empty()) options.output = parse_type(r_.output_type, "--output-tensor-type");
    if (!r_.embedding_type.empty()) options.token_embedding = parse_type(r_.embedding_type, "--token-embedding-type");
    for (const std::string& entry : r_.tensor_types) {
      const size_t equals = entry.rfind('=');
      if (equals == std::string::npos || equals == 0)
        throw Error(fmt::format("--tensor-type: '{}' is not PATTERN=TYPE, as in ffn_down=Q6_K", entry), Error::kUsage);
      try {
        options.tensor_types.emplace_back(
            std::regex(entry.substr(0, equals), std::regex::ECMAScript | std::regex::icase),
            parse_type(entry.substr(equals + 1), "--tensor-type"));
      } catch (const std::regex_error& error) {
        throw Error(
            fmt::format("--tensor-type: '{}' is no regular expression: {}", entry.substr(0, equals), error.what()),
            Error::kUsage);
      }
    }
    return options;
  }

  // Sets the plan's types so that the file keeps to the target.
  TypeSearchResult search_types(Requantization& plan, const models::RecipeOptions& options,
                                const gguf::Imatrix* factors) const {
    uint64_t target = r_.target_size.empty() ? 0 : core::parse_bytes(r_.target_size, "--target-size");
    if (r_.target_bpw > 0) {
      int64_t weights = 0;
      for (const auto& source : plan.sources)
        if (source.has_weights()) weights += source.weights();
      std::vector<gguf::TensorInfo> none;
      target = gguf::file_bytes(plan.metadata, none) +
               static_cast<uint64_t>(r_.target_bpw * static_cast<double>(weights) / 8);
    }
    // What is not to be quantized, and padding: every tensor may take up to alignment - 1 bytes more.
    uint64_t fixed = plan.bytes() + 32 * plan.sources.size();
    const auto infos = plan.infos();
    for (size_t i = 0; i < infos.size(); ++i)
      if (is_searched(plan.sources[i], options)) fixed -= infos[i].bytes();
    if (fixed > target)
      throw_error("{}: the target of {} is too small: {} of the file are not to be quantized", plan.file->path(),
                  core::human_bytes(static_cast<double>(target)), core::human_bytes(static_cast<double>(fixed)));
    const std::vector<std::vector<TypeChoice>> choices =
        measure_choices(plan, {}, options, factors, encode_on_cpu,
                        [&](int64_t done, int64_t total) { steps_.progress("measuring types", done, total); });
    const std::vector<int> chosen = choose_types(choices, target - fixed);
    double loss = 0;
    for (size_t i = 0; i < choices.size(); ++i)
      if (chosen[i] >= 0) {
        plan.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
        loss += choices[i][static_cast<size_t>(chosen[i])].loss;
      }
    plan.metadata.set("general.file_type", dominant_file_type(plan));
    return {target, loss};
  }

  void warn_without_importance(const Requantization& plan) const {
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      const quant::FormatInfo* format = plan.types[i].format();
      if (!format || plan.types[i] == plan.sources[i].type() || !format->name.starts_with("IQ") ||
          format->bits_per_weight() > 3.1)
        continue;
      steps_.note(
          fmt::format("{} loses much without an importance matrix; make one with `ridge imatrix`", format->name));
      return;
    }
  }

  const core::QuantizeRequest& r_;
  const QuantizeSteps& steps_;
};

} // namespace

QuantizeResult quantize(const core::QuantizeRequest& request, const QuantizeSteps& steps) {
  return Quantizing(request, steps).run();
}

} // namespace ridge::convert
