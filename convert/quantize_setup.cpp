#include "convert/quantize_setup.h"

#include "convert/calibration.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/closest.h"
#include "core/strings/printable.h"
#include "engine/loading/loaded_model.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
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

constexpr int64_t kChunkTokens = 512;
constexpr int64_t kMeasuredTokens = 4096;
constexpr int64_t kMaxLogits = 1 << 27; // of the original model: 512 MB

quant::Type parse_type(const std::string& name, const char* flag) {
  const quant::FormatInfo* format = quant::find_format(name);
  if (!format || !format->stored()) {
    std::vector<std::string_view> names;
    for (const quant::FormatInfo& known : quant::formats())
      if (known.stored() && quant::can_encode(known.type)) names.push_back(known.name);
    const std::string meant = core::did_you_mean(name, names);
    throw Error(fmt::format("{}: unknown type '{}'{}; expected one of {}", flag, core::printable(name), meant,
                            fmt::join(names, ", ")),
                Error::kUsage);
  }
  if (!quant::can_encode(format->type))
    throw Error(fmt::format("{}: {} can be read but not written", flag, format->name), Error::kUsage);
  return format->type;
}

models::RecipeOptions recipe_options(const api::QuantizeRequest& r, bool importance) {
  models::RecipeOptions options;
  options.importance = importance;
  options.pure = r.pure;
  options.leave_output = r.leave_output;
  if (!r.output_type.empty()) options.output = parse_type(r.output_type, "--output-tensor-type");
  if (!r.embedding_type.empty()) options.token_embedding = parse_type(r.embedding_type, "--token-embedding-type");
  for (const std::string& entry : r.tensor_types) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(fmt::format("--tensor-type: '{}' is not PATTERN=TYPE, as in ffn_down=Q6_K", entry), Error::kUsage);
    try {
      options.tensor_types.emplace_back(std::regex(entry.substr(0, equals), std::regex::ECMAScript | std::regex::icase),
                                        parse_type(entry.substr(equals + 1), "--tensor-type"));
    } catch (const std::regex_error& error) {
      throw Error(
          fmt::format("--tensor-type: '{}' is not a regular expression: {}", entry.substr(0, equals), error.what()),
          Error::kUsage);
    }
  }
  return options;
}

std::unique_ptr<core::Executor> make_executor_on_gpu(const core::Program& part, core::ExecutorConfig config) {
  // Exact mode is for few tokens; half precision suffices here.
  config.exact = false;
  config.k_type = config.v_type = core::KvType::f16;
  return kernels::cuda::make_cuda_executor(part, config);
}

std::unique_ptr<kernels::cuda::Encoder> start_gpu(const api::QuantizeRequest& r, const QuantizeSteps& steps) {
  if (r.device == "cpu" || (r.output.empty() && !r.explore && !r.has_target())) return nullptr;
  try {
    auto gpu = kernels::cuda::make_encoder();
    if (!gpu && r.device == "cuda") throw_error("--device cuda: {}", kernels::cuda::device_info().problem);
    return gpu;
  } catch (const kernels::cuda::OutOfMemory& error) {
    if (r.device == "cuda") throw;
    steps.note(fmt::format("encoding on the CPU: {}", error.what()));
    return nullptr;
  }
}

} // namespace

const models::Recipe& parse_recipe(const std::string& name) {
  if (const models::Recipe* recipe = models::find_recipe(name)) return *recipe;
  std::vector<std::string_view> names;
  for (const models::Recipe& known : models::recipes()) names.push_back(known.name);
  names.push_back("COPY");
  throw Error(fmt::format("quantize: unknown type '{}'{}; expected one of {}", core::printable(name),
                          core::did_you_mean(name, names), fmt::join(names, ", ")),
              Error::kUsage);
}

QuantizeSetup::QuantizeSetup(const api::QuantizeRequest& r, const QuantizeSteps& steps)
    : request(r), steps(steps), file(r.input.empty() ? models::open_guide() : gguf::File::open(r.input)) {
  omp_set_num_threads(r.threads > 0 ? r.threads
                                    : std::min(omp_get_max_threads(), kernels::cpu::processors().worker_threads()));
  if (!r.output.empty()) core::check_output(r.output, {r.imatrix, r.calibration});
  if (!r.imatrix.empty()) importance_ = gguf::Imatrix::read(r.imatrix);
  options_ = recipe_options(r, importance_ || is_calibrated());
  gpu_ = start_gpu(r, steps);
}

EncodeRows QuantizeSetup::encode() const {
  if (!gpu_) return encode_on_cpu;
  return [this](const Rows& rows, quant::Type to, std::span<const float> columns, std::byte* packed) {
    if (gpu_->can_encode(to))
      gpu_->encode_rows(rows.packed ? rows.packed_format->type : quant::Type::F32,
                        rows.packed ? rows.packed : reinterpret_cast<const std::byte*>(rows.weights), to, rows.rows,
                        rows.cols, columns, packed);
    else
      encode_on_cpu(rows, to, columns, packed);
  };
}

bool QuantizeSetup::runs_on_gpu() const { return request.device != "cpu" && kernels::cuda::device_info().usable; }

core::MakeExecutor QuantizeSetup::executors() const {
  if (runs_on_gpu()) return make_executor_on_gpu;
  return kernels::cpu::make_cpu_executor;
}

std::vector<std::vector<int32_t>> QuantizeSetup::chunks_of_text(const core::Program& program, int64_t tokens) const {
  const auto tokenizer = engine::find_tokenizer(file);
  if (!tokenizer) throw_error("{}: has no tokenizer, which --calibration needs", file.path());
  const int64_t chunk = std::min(kChunkTokens, program.trained_context);
  return calibration_chunks(*tokenizer, core::read_text_file(request.calibration), request.parse_special, chunk,
                            std::max<int64_t>(1, tokens / chunk));
}

std::unique_ptr<CalibratedQuantizer> QuantizeSetup::calibrate(const Requantization& plan, const core::Program& program,
                                                              const std::function<void()>& between_steps,
                                                              bool alone) const {
  if (std::ranges::any_of(plan.sources, &WeightSource::is_planar))
    throw_error("{}: --method {} does not support the packing of its weights; quantize it to F16 first", file.path(),
                request.method);
  core::MakeExecutor executors = kernels::cpu::make_cpu_executor;
  quant::MakeHessian hessians = make_cpu_hessian;
  if (request.device != "cpu") {
    std::string problem;
    if (quant::MakeHessian on_gpu = kernels::cuda::hessian_maker(problem)) {
      hessians = std::move(on_gpu);
      executors = make_executor_on_gpu;
    } else if (request.device == "cuda") {
      throw_error("--device cuda: {}", problem);
    } else if (kernels::cuda::device_info().usable) {
      steps.note(fmt::format("calibrating on the CPU: {}", problem));
    }
  }
  const auto make_executor = [executors, between_steps](const core::Program& part, const core::ExecutorConfig& config) {
    between_steps();
    return executors(part, config);
  };
  const CalibrationMethod method{.scales = request.method.starts_with("awq"),
                                 .feedback = request.method.ends_with("gptq"),
                                 .rounding = request.method.ends_with("round"),
                                 .alone = alone};
  const int64_t tokens = request.calibration_tokens;
  auto made = std::make_unique<CalibratedQuantizer>(plan, program, method, chunks_of_text(program, tokens),
                                                    make_executor, request.threads, hessians, encode());
  if (method.follows_original())
    made->use_tuning(
        chunks_of_text(program, 2 * tokens),
        [this](int64_t done, int64_t total) { steps.progress("tuning", done, total); }, steps.note);
  return made;
}

std::unique_ptr<DivergenceMeter> QuantizeSetup::make_meter() const {
  std::optional<core::Program> program;
  try {
    program = models::build_program(file);
    if (program->embeds || core::sees_ahead(*program) || program->start_token >= 0) throw_error("it generates no text");
  } catch (const Error& error) {
    if (request.explore || !request.calibration.empty()) throw;
    steps.note(
        fmt::format("choosing types by experience with other models, because this one cannot run: {}", error.what()));
    return nullptr;
  }
  MeasuredText text;
  if (request.calibration.empty()) {
    steps.progress("generating text", 0, 0);
    text.chunks = sample_text(file, *program, executors(), request.threads);
  } else {
    const int64_t tokens = std::min(request.calibration_tokens, kMeasuredTokens);
    // The last of the text, of which calibration and tuning see least.
    text.chunks = chunks_of_text(*program, is_calibrated() ? 2 * request.calibration_tokens + tokens : tokens);
    const auto most = std::max<int64_t>(1, tokens / std::ssize(text.chunks[0]));
    if (std::ssize(text.chunks) > most) text.chunks.erase(text.chunks.begin(), text.chunks.end() - most);
  }
  text.score_second_halves(std::min(text.tokens() / 2, kMaxLogits / program->vocab));
  return std::make_unique<DivergenceMeter>(file, std::move(text), executors(), request.threads);
}

QuantizeSetup::Rest QuantizeSetup::rest_without_searched(const Requantization& plan) const {
  // Padding: up to alignment - 1 bytes per tensor.
  Rest rest{plan.bytes() + 32 * plan.sources.size(), 0};
  const auto infos = plan.infos();
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!is_searched(plan.sources[i], options_)) continue;
    rest.bytes -= infos[i].bytes();
    rest.weights += plan.sources[i].weights();
  }
  return rest;
}

std::vector<std::vector<TypeChoice>>
QuantizeSetup::find_choices(const Requantization& plan, const DivergenceMeter* meter, double bits_per_weight) const {
  const auto progress = [this](const char* what) {
    return [this, what](int64_t done, int64_t total) { steps.progress(what, done, total); };
  };
  TypeSearch search;
  if (meter) {
    std::vector<bool> wanted;
    for (const WeightSource& source : plan.sources)
      wanted.push_back(is_searched(source, options_) && !source.is_planar());
    search.inputs = &meter->inputs();
    // Scales of channels would have to change what precedes the tensor.
    const bool calibrates = is_calibrated() && !request.method.starts_with("awq");
    const core::Program program = models::build_program(file);
    for (const quant::Type type : probe_types(bits_per_weight, calibrates)) {
      Requantization probed = plan;
      for (size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i]) probed.types[i] = models::fitting_type(type, plan.sources[i].cols());
      const auto told = progress("measuring tensors");
      int64_t done = 0, total = 0;
      const auto calibrated = calibrates ? calibrate(
                                               probed, program, [&] { told(done, total); }, true)
                                         : nullptr;
      search.probes.push_back(
          {type, meter->sensitivities(
                     plan, wanted, type, importance(), encode(),
                     [&](std::string_view name) { return calibrated ? calibrated->tensor(name) : nullptr; },
                     [&](int64_t d, int64_t t) { told(done = d, total = t); })});
    }
  }
  return measure_choices(plan, search, options_, importance(), encode_on_cpu, progress("measuring types"));
}

double take_choices(Requantization& plan, const std::vector<std::vector<TypeChoice>>& choices,
                    const std::vector<int>& chosen) {
  double loss = 0;
  for (size_t i = 0; i < choices.size(); ++i)
    if (chosen[i] >= 0) {
      plan.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
      loss += choices[i][static_cast<size_t>(chosen[i])].loss;
    }
  plan.metadata.set("general.file_type", dominant_file_type(plan));
  return loss;
}

} // namespace ridge::convert
