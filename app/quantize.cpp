// ridge quantize: a model in other types. Shows what each tensor loses while it goes.
#include "app/cli.h"
#include "app/loaded_model.h"
#include "app/machine.h"
#include "app/options.h"
#include "app/terminal.h"
#include "app/units.h"
#include "core/error.h"
#include "core/printable.h"
#include "kernels/cpu/executor.h"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/executor.h"
#include "kernels/cuda/hessian.h"
#include "models/calibrated.h"
#include "models/calibration.h"
#include "models/model.h"
#include "models/requantize.h"
#include "models/type_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <omp.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

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

uint64_t peak_memory_bytes() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

struct QuantizeCommand {
  std::vector<std::string> names; // IN [OUT] [TYPE]
  std::string imatrix, output_type, embedding_type, target_size, split_size, method = "plain", calibration;
  std::vector<std::string> tensor_types;
  double target_bpw = 0;
  std::string device = "auto";
  int64_t calibration_tokens = 16384;
  int threads = 0;
  bool pure = false, leave_output = false, allow_requantize = false, dry_run = false, parse_special = false,
       json = false;

  void run() const {
    if (threads > 0) omp_set_num_threads(threads);
    const bool searched = !target_size.empty() || target_bpw > 0;
    const size_t wanted = 1 + (dry_run ? 0 : 1) + (searched ? 0 : 1);
    // IN OUT TYPE; a dry run needs no OUT, a target no TYPE.
    if (names.size() < wanted || names.size() > 3)
      throw Error(
          "quantize: expected IN.gguf OUT.gguf TYPE (without TYPE where --target-size or --target-bpw is given)",
          Error::kUsage);
    if (searched && (names.size() == 3 || pure))
      throw Error("quantize: --target-size and --target-bpw choose the types themselves; leave out TYPE and --pure",
                  Error::kUsage);
    const bool has_out = names.size() == 3 || (names.size() == 2 && (searched || !dry_run));
    const std::string in = names[0], out = has_out ? names[1] : "";
    const std::string type = searched ? "" : names.back();
    const bool copy = type == "COPY" || type == "copy";
    const bool calibrated = method != "plain";
    if (calibrated && (calibration.empty() || copy || dry_run))
      throw Error(fmt::format("quantize: --method {} needs --calibration TEXT and something to quantize", method),
                  Error::kUsage);
    if (!calibrated && !calibration.empty())
      throw Error("quantize: --calibration is for --method awq and gptq; ridge imatrix makes an --imatrix of a text",
                  Error::kUsage);

    const models::Recipe* recipe = searched || copy ? nullptr : parse_recipe(type);
    const gguf::File file = gguf::File::open(in);
    std::optional<gguf::Imatrix> importance;
    if (!imatrix.empty()) importance = gguf::Imatrix::read(imatrix);
    const gguf::Imatrix* factors = importance ? &*importance : nullptr;
    const models::RecipeOptions options = recipe_options(factors != nullptr || calibrated);

    models::Requantization plan =
        models::plan_requantization(file, searched ? models::find_recipe("Q8_0") : recipe, options, factors);
    const auto gpu = start_gpu();
    const models::EncodeRows encode = [&](const models::Rows& rows, quant::Type to, std::span<const float> columns,
                                          std::byte* packed) {
      if (gpu && gpu->can_encode(to))
        gpu->encode_rows(rows.packed ? rows.packed_format->type : quant::Type::F32,
                         rows.packed ? rows.packed : reinterpret_cast<const std::byte*>(rows.weights), to, rows.rows,
                         rows.cols, columns, packed);
      else
        models::encode_on_cpu(rows, to, columns, packed);
    };
    Json search_report;
    if (searched) search_report = choose_types(plan, options, factors);
    models::check_requantization(plan, allow_requantize);
    if (!factors && !calibrated) warn_without_importance(plan);
    const auto start = std::chrono::steady_clock::now();
    Report report(*this, plan);
    std::vector<std::string> paths;
    if (dry_run) {
      const auto infos = plan.infos();
      for (size_t i = 0; i < plan.sources.size(); ++i) {
        const models::WeightSource& s = plan.sources[i];
        report.add({s.name(),
                    s.type().name(),
                    plan.types[i].name(),
                    s.dims(),
                    s.weights(),
                    s.bytes(),
                    infos[i].bytes(),
                    false,
                    {},
                    {}});
      }
    } else {
      Progress progress("quantizing");
      const auto show = [&](int64_t done, int64_t total) { progress.update(done, total); };
      const auto done = [&](const models::TensorResult& result) { report.add(result); };
      const models::RequantizeOutput output{out, split_size.empty() ? 0 : parse_bytes(split_size, "--split-max-size")};
      if (calibrated) {
        paths = quantize_calibrated(plan, output, factors, encode, done);
      } else {
        paths = models::write(plan, output, factors, encode, nullptr, done, show);
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    report.finish(type, paths, seconds.count(), search_report);
  }

  std::vector<std::string> quantize_calibrated(const models::Requantization& plan,
                                               const models::RequantizeOutput& output, const gguf::Imatrix* factors,
                                               const models::EncodeRows& encode,
                                               const std::function<void(const models::TensorResult&)>& done) const {
    if (std::ranges::any_of(plan.sources, &models::WeightSource::is_planar))
      throw_error("{}: its weights are packed in a way that --method {} does not start from; quantize it to F16 first",
                  plan.file->path(), method);
    const core::Program program = models::build_program(*plan.file);
    const auto tokenizer = find_tokenizer(*plan.file);
    if (!tokenizer) throw_error("{}: has no tokenizer, which --calibration needs", plan.file->path());
    const int64_t chunk = std::min(kChunkTokens, program.trained_context);
    const auto chunks = models::calibration_chunks(*tokenizer, read_text_file(calibration), parse_special, chunk,
                                                   std::max<int64_t>(1, calibration_tokens / chunk));
    models::MakeExecutor executors = kernels::cpu::make_cpu_executor;
    quant::MakeHessian hessians = models::make_cpu_hessian;
    if (device != "cpu") {
      std::string problem;
      if (quant::MakeHessian on_gpu = kernels::cuda::hessian_maker(problem)) {
        hessians = std::move(on_gpu);
        executors = [](const core::Program& part, core::ExecutorConfig config) {
          // Its products of halves are as good as exact, and its exact mode is meant for a few tokens.
          config.exact = false;
          config.k_type = config.v_type = core::KvType::f16;
          return kernels::cuda::make_cuda_executor(part, config);
        };
      } else if (device == "cuda") {
        throw_error("--device cuda: {}", problem);
      } else if (kernels::cuda::device_info().usable) {
        note(fmt::format("calibrating on the CPU: {}", problem));
      }
    }
    models::CalibratedQuantizer calibrated(plan, program,
                                           {.scales = method.starts_with("awq"), .feedback = method.ends_with("gptq")},
                                           chunks, executors, threads, hessians, encode);
    return models::write(
        plan, output, factors, encode, [&](std::string_view name) { return calibrated.tensor(name); }, done, nullptr);
  }

  std::unique_ptr<kernels::cuda::Encoder> start_gpu() const {
    if (device == "cpu" || dry_run) return nullptr;
    auto gpu = kernels::cuda::make_encoder();
    if (!gpu && device == "cuda") throw_error("--device cuda: {}", kernels::cuda::device_info().problem);
    return gpu;
  }

  models::RecipeOptions recipe_options(bool importance) const {
    models::RecipeOptions options;
    options.importance = importance;
    options.pure = pure;
    options.leave_output = leave_output;
    if (!output_type.empty()) options.output = parse_type(output_type, "--output-tensor-type");
    if (!embedding_type.empty()) options.token_embedding = parse_type(embedding_type, "--token-embedding-type");
    for (const std::string& entry : tensor_types) {
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
  Json choose_types(models::Requantization& plan, const models::RecipeOptions& options,
                    const gguf::Imatrix* factors) const {
    uint64_t target = target_size.empty() ? 0 : parse_bytes(target_size, "--target-size");
    if (target_bpw > 0) {
      int64_t weights = 0;
      for (const auto& source : plan.sources)
        if (source.has_weights()) weights += source.weights();
      std::vector<gguf::TensorInfo> none;
      target =
          gguf::file_bytes(plan.metadata, none) + static_cast<uint64_t>(target_bpw * static_cast<double>(weights) / 8);
    }
    // What is not to be quantized, and padding: every tensor may take up to alignment - 1 bytes more.
    uint64_t fixed = plan.bytes() + 32 * plan.sources.size();
    const auto infos = plan.infos();
    for (size_t i = 0; i < infos.size(); ++i)
      if (models::is_searched(plan.sources[i], options)) fixed -= infos[i].bytes();
    if (fixed > target)
      throw_error("{}: the target of {} is too small: {} of the file are not to be quantized", plan.file->path(),
                  human_bytes(static_cast<double>(target)), human_bytes(static_cast<double>(fixed)));
    std::vector<std::vector<models::TypeChoice>> choices;
    {
      Progress progress("measuring types");
      choices = models::measure_choices(plan, {}, options, factors, models::encode_on_cpu,
                                        [&](int64_t done, int64_t total) { progress.update(done, total); });
    }
    const std::vector<int> chosen = models::choose_types(choices, target - fixed);
    double loss = 0;
    for (size_t i = 0; i < choices.size(); ++i)
      if (chosen[i] >= 0) {
        plan.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
        loss += choices[i][static_cast<size_t>(chosen[i])].loss;
      }
    plan.metadata.set("general.file_type", models::dominant_file_type(plan));
    return {{"target_bytes", target}, {"expected_loss", loss}};
  }

  static void warn_without_importance(const models::Requantization& plan) {
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      const quant::FormatInfo* format = plan.types[i].format();
      if (!format || plan.types[i] == plan.sources[i].type() || !format->name.starts_with("IQ") ||
          format->bits_per_weight() > 3.1)
        continue;
      note(fmt::format("{} loses much without an importance matrix; make one with `ridge imatrix`", format->name));
      return;
    }
  }

  // The table, one line per tensor as it is done, and the summary.
  class Report {
   public:
    Report(const QuantizeCommand& command, const models::Requantization& plan)
        : command_(command), plan_(plan), layers_(models::model_traits(*plan.file).layers) {
      for (const auto& source : plan.sources)
        name_width_ = std::max(name_width_, std::min<size_t>(source.name().size(), 48));
      if (!command.json)
        fmt::print("{:<{}}  {:<20} {:>7} {:<8} {:>7} {:>10} {:>7} {:>10} {:>11}\n", "tensor", name_width_, "shape",
                   "from", "to", "bpw", "RMSE", "dB", "max error", "size");
    }

    void add(const models::TensorResult& r) {
      before_ += r.bytes_before;
      after_ += r.bytes;
      if (plan_.sources[done_++].has_weights()) weights_ += r.weights;
      const double bpw = 8.0 * static_cast<double>(r.bytes) / static_cast<double>(std::max<int64_t>(1, r.weights));
      if (r.encoded) {
        total_ += r.error;
        seconds_ += r.seconds;
        const models::WeightSource& source = plan_.sources[done_ - 1];
        loss_ += models::sensitivity(r.name, plan_.is_output(source), layers_) * r.error.weighted_relative();
      }
      if (command_.json) {
        Json row = {
            {"name", core::printable(r.name)}, {"shape", r.dims}, {"from", r.from}, {"to", r.to}, {"bytes", r.bytes},
            {"bits_per_weight", bpw}};
        if (r.encoded)
          row.update({{"rmse", r.error.rmse()},
                      {"sqnr_db", r.error.sqnr_db()},
                      {"max_error", r.error.max_error},
                      {"relative_error", r.error.relative()},
                      {"weighted_relative_error", r.error.weighted_relative()}});
        rows_.push_back(std::move(row));
        return;
      }
      fmt::print("{:<{}}  {:<20} {:>7} {:<8} {:>7.4f} {:>10} {:>7} {:>10} {:>11}\n", core::printable(r.name),
                 name_width_, fmt::format("{}", fmt::join(r.dims, "x")), r.from,
                 r.from == r.to ? "" : "> " + std::string(r.to), bpw,
                 r.encoded ? fmt::format("{:.3g}", r.error.rmse()) : "",
                 r.encoded ? fmt::format("{:.2f}", r.error.sqnr_db()) : "",
                 r.encoded ? fmt::format("{:.3g}", r.error.max_error) : "", human_bytes(static_cast<double>(r.bytes)));
      std::fflush(stdout);
    }

    void finish(const std::string& type, const std::vector<std::string>& paths, double seconds, const Json& search) {
      const double bpw = weights_ ? 8.0 * static_cast<double>(after_) / static_cast<double>(weights_) : 0;
      if (command_.json) {
        Json summary = {{"file", command_.names[0]},
                        {"written", paths},
                        {"type", type},
                        {"method", command_.method},
                        {"tensor_bytes_before", before_},
                        {"tensor_bytes", after_},
                        {"bits_per_weight", bpw},
                        {"sqnr_db", total_.sqnr_db()},
                        {"loss", loss_},
                        {"elapsed_seconds", seconds},
                        {"reading_seconds", seconds_.reading},
                        {"encoding_seconds", seconds_.encoding},
                        {"measuring_seconds", seconds_.measuring},
                        {"writing_seconds", seconds_.writing},
                        {"peak_memory_bytes", peak_memory_bytes()},
                        {"tensors", rows_}};
        if (!search.is_null()) summary["search"] = search;
        return print_report("quantize", summary);
      }
      fmt::print("\n{} > {}, {:.3f} bits per weight", human_bytes(static_cast<double>(before_)),
                 human_bytes(static_cast<double>(after_)), bpw);
      if (total_.weights > 0)
        fmt::print(", {:.2f} dB, loss {:.4f}; {:.1f} s, {:.0f} M weights/s, {} of memory", total_.sqnr_db(), loss_,
                   seconds, static_cast<double>(total_.weights) / seconds / 1e6,
                   human_bytes(static_cast<double>(peak_memory_bytes())));
      fmt::print("\n");
      for (const std::string& path : paths) fmt::print(stderr, "wrote {}\n", path);
    }

   private:
    const QuantizeCommand& command_;
    const models::Requantization& plan_;
    size_t name_width_ = 6, done_ = 0;
    uint64_t before_ = 0, after_ = 0;
    int64_t weights_ = 0;
    int64_t layers_;
    double loss_ = 0; // as models/type_search.h counts it
    quant::ErrorStats total_;
    models::StageSeconds seconds_; // of encoded tensors; the rest is copying, and bringing the file to the disk
    Json rows_ = Json::array();
  };
};

} // namespace

void add_quantize_command(CLI::App& app) {
  auto options = std::make_shared<QuantizeCommand>();
  CLI::App* command = app.add_subcommand("quantize", "write a model in other types (Q4_K_M, IQ3_S, Q8_0, COPY, …)");
  std::vector<std::string_view> names;
  for (const models::Recipe& recipe : models::recipes()) names.push_back(recipe.name);
  command->footer(fmt::format("TYPE: {}, or COPY.", fmt::join(names, " ")));
  command->add_option("names", options->names, "the model (of a split one: any part), the file to write, and its type")
      ->type_name("IN.gguf OUT.gguf TYPE")
      ->expected(1, 3)
      ->required();
  command->add_option("--imatrix", options->imatrix, "importance matrix: keeps exact what matters (ridge imatrix)")
      ->type_name("FILE");
  command->add_flag("--pure", options->pure, "every matrix in the same type, no mix");
  command->add_option("--output-tensor-type", options->output_type, "type of the output matrix")->type_name("TYPE");
  command->add_option("--token-embedding-type", options->embedding_type, "type of the token embeddings")
      ->type_name("TYPE");
  command
      ->add_option("--tensor-type", options->tensor_types,
                   "type of tensors whose name has this regular expression (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("RE=TYPE");
  command->add_flag("--leave-output-tensor", options->leave_output, "the output matrix as it is");
  command->add_flag("--allow-requantize", options->allow_requantize, "also from packed types, at a loss");
  command
      ->add_option("--target-size", options->target_size, "choose each tensor's type by measured error for this size")
      ->type_name("4.2GiB");
  command->add_option("--target-bpw", options->target_bpw, "the same for this many bits per weight")
      ->excludes("--target-size")
      ->check(CLI::Range(0.1, 32.0))
      ->type_name("4.3");
  command
      ->add_option("--method", options->method,
                   "plain, or with a text: awq (scales channels), gptq (feeds errors on), awq+gptq")
      ->check(CLI::IsMember({"plain", "awq", "gptq", "awq+gptq"}))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--calibration", options->calibration, "text for --method awq and gptq")->type_name("FILE");
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens in the text are tokens (chat transcripts)");
  command->add_option("--calibration-tokens", options->calibration_tokens, "how much of it is used")
      ->check(CLI::Range(64, 1 << 24))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--device", options->device,
                   "where encoding and calibration run: auto (the GPU where there is one), cuda, cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command->add_option("--split-max-size", options->split_size, "write files of at most this much tensor data")
      ->type_name("4GiB");
  command->add_flag("--dry-run", options->dry_run, "show types and sizes only (OUT may be left out)");
  command->add_flag("--json", options->json, "the summary, machine-readable");
  command->add_option("-t,--threads", options->threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
