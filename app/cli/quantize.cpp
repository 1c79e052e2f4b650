// ridge quantize.
#include "convert/quantize.h"
#include "app/cli/cli.h"
#include "app/models/model_names.h"
#include "app/report/frontier_report.h"
#include "app/report/report.h"
#include "app/report/table.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "convert/type_search.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "engine/loading/machine.h"
#include "kernels/cuda/executor/executor.h"
#include "models/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

uint64_t peak_memory_bytes() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

convert::QuantizeSteps steps_on(Progress& progress) {
  convert::QuantizeSteps steps;
  steps.progress = [&](std::string_view what, int64_t done, int64_t total) { progress.update(what, done, total); };
  steps.note = [&](const std::string& line) {
    progress.clear();
    note(line);
  };
  return steps;
}

struct QuantizeCommand {
  std::string first, second, third;
  api::QuantizeRequest request;
  std::string svg;
  bool dry_run = false, json = false, verbose = false;

  void run() {
    std::vector<std::string> names = {first, second, third};
    while (!names.empty() && names.back().empty()) names.pop_back();
    try {
      request.explore ? explore(names) : quantize(names);
    } catch (const kernels::cuda::OutOfMemory& error) {
      throw_error("{}; use --device cpu to run without the GPU", error.what());
    }
  }

  void quantize(const std::vector<std::string>& names) {
    const bool searched = request.has_target();
    const size_t wanted = 1 + (dry_run ? 0 : 1) + (searched ? 0 : 1);
    // A dry run needs no OUT, a target no TYPE.
    if (names.size() < wanted)
      throw Error("quantize: expected IN.gguf OUT.gguf TYPE (no TYPE with a --target, only IN.gguf with --explore)",
                  Error::kUsage);
    if (searched && (names.size() == 3 || request.pure))
      throw Error("quantize: a --target chooses the types; leave out TYPE and --pure", Error::kUsage);
    request.input = names[0];
    if (!dry_run) request.output = names[1];
    if (!searched) request.type = names.back();

    const double start = core::seconds_now();
    std::optional<Report> report;
    Progress progress;
    convert::QuantizeSteps steps = steps_on(progress);
    steps.planned = [&](const convert::Requantization& plan) {
      progress.clear();
      report.emplace(*this, plan);
      if (dry_run) report->add_plan();
    };
    steps.done = [&](const convert::TensorResult& result) {
      if (report->by_tensor()) progress.clear();
      report->add(result);
      const auto [done, total] = report->progress();
      progress.update("quantizing", done, total);
    };
    const convert::QuantizeResult result = convert::quantize(request, steps);
    progress.clear();
    report->finish(request.type, result, core::seconds_now() - start);
  }

  // --explore: costs of recipes and mixes; writes no model.
  void explore(const std::vector<std::string>& names) {
    if (names.size() != 1 || dry_run)
      throw Error("quantize: --explore takes only the input model and writes no model", Error::kUsage);
    request.input = names[0];
    if (!svg.empty()) core::check_output(svg, {request.input, request.imatrix, request.calibration});
    const double start = core::seconds_now();
    Progress progress;
    const convert::Frontier frontier = convert::explore(request, steps_on(progress));
    progress.clear();
    if (json) {
      Json report = {
          {"file", request.input}, {"method", request.method}, {"elapsed_seconds", core::seconds_now() - start}};
      report.update(frontier_json(frontier));
      print_report("quantize", report);
    } else {
      print_frontier(frontier);
    }
    if (svg.empty()) return;
    const std::string picture = frontier_svg(frontier, models::model_label(gguf::File::open(request.input)));
    core::AtomicFile out(svg, picture.size());
    out.write(std::as_bytes(std::span(picture)));
    out.commit();
    note(fmt::format("wrote {}", svg));
  }

  class Report {
   public:
    Report(const QuantizeCommand& command, const convert::Requantization& plan)
        : command_(command), plan_(plan), layers_(models::model_traits(*plan.file).layers),
          table_(columns(plan), terminal_columns()) {
      for (const auto& source : plan.sources) bytes_in_all_ += source.bytes();
      if (command.json) return;
      print_plan();
      if (by_tensor()) fmt::print("\n{}", table_.title());
      flush_stdout(); // reports a closed stdout before the work
    }

    std::pair<int64_t, int64_t> progress() const {
      return {static_cast<int64_t>(before_), static_cast<int64_t>(bytes_in_all_)};
    }
    bool by_tensor() const { return command_.verbose && !command_.json; }

    void add(const convert::TensorResult& r) {
      const bool has_weights = plan_.sources[done_].has_weights();
      before_ += r.bytes_before;
      after_ += r.bytes;
      if (has_weights) weights_ += r.weights;
      TypeTotal& of = types_[{std::string(r.to), std::string(r.from)}];
      ++of.tensors;
      of.bytes += r.bytes;
      of.weights += r.weights;
      if (r.encoded) {
        total_ += r.error;
        of.error += r.error;
        seconds_ += r.seconds;
        const convert::WeightSource& source = plan_.sources[done_];
        loss_ += convert::sensitivity(r.name, plan_.is_output(source), layers_) * r.error.weighted_relative();
      }
      ++done_;
      if (command_.json) rows_.push_back(json_row(r));
      if (!by_tensor()) return;
      fmt::print("{}", table_.row({core::printable(r.name, 300), fmt::format("{}", fmt::join(r.dims, "x")),
                                   std::string(r.from), r.from == r.to ? "" : "> " + std::string(r.to),
                                   fmt::format("{:.4f}", bits_per_weight(r.bytes, r.weights)),
                                   r.encoded ? fmt::format("{:.3g}", r.error.rmse()) : "",
                                   r.encoded ? fmt::format("{:.2f}", r.error.sqnr_db()) : "",
                                   r.encoded ? fmt::format("{:.3g}", r.error.max_error) : "",
                                   core::human_bytes(static_cast<double>(r.bytes))}));
      flush_stdout();
    }

    void add_plan() {
      const auto infos = plan_.infos();
      for (size_t i = 0; i < plan_.sources.size(); ++i) {
        const convert::WeightSource& s = plan_.sources[i];
        add({s.name(),
             s.type().name(),
             plan_.types[i].name(),
             s.dims(),
             s.weights(),
             s.bytes(),
             infos[i].bytes(),
             false,
             {},
             {}});
      }
    }

    void finish(const std::string& type, const convert::QuantizeResult& result, double seconds) {
      const double bpw = weights_ ? bits_per_weight(after_, weights_) : 0;
      if (command_.json) {
        Json summary = {{"file", command_.request.input},
                        {"written", result.paths},
                        {"type", type},
                        {"method", command_.request.method},
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
        if (const auto& search = result.search)
          summary["search"] = {
              {"target_bytes", search->target_bytes},
              {search->measured ? "expected_divergence_nats" : "expected_loss", search->expected_loss}};
        return print_report("quantize", summary);
      }
      fmt::print("\n");
      if (!by_tensor()) print_types();
      std::string summary;
      if (total_.weights > 0)
        summary = fmt::format("{:.2f} dB, loss {:.4f}; {:.1f} s, {:.0f} M weights/s, {} of memory", total_.sqnr_db(),
                              loss_, seconds, static_cast<double>(total_.weights) / seconds / 1e6,
                              core::human_bytes(static_cast<double>(peak_memory_bytes())));
      if (result.search && result.search->measured)
        summary += fmt::format("{}expected divergence {:.3g} nats per token", summary.empty() ? "" : "; ",
                               result.search->expected_loss);
      if (!summary.empty()) print_row("\n", 0, summary);
      for (const std::string& path : result.paths) write_stderr(fmt::format("wrote {}\n", path));
    }

   private:
    struct TypeTotal {
      int64_t tensors = 0, weights = 0;
      uint64_t bytes = 0;
      quant::ErrorStats error;
    };

    static double bits_per_weight(uint64_t bytes, int64_t weights) {
      return 8.0 * static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, weights));
    }

    static std::vector<TableColumn> columns(const convert::Requantization& plan) {
      constexpr size_t kWidest = 48;
      size_t name = 0, shape = 0;
      for (const auto& source : plan.sources) {
        name = std::max(name, std::min<size_t>(source.name().size(), kWidest));
        shape = std::max(shape, fmt::format("{}", fmt::join(source.dims(), "x")).size());
      }
      return {{"tensor", false, true, 0, name}, {"shape", false, false, 3, shape}, {"from", true, false, 0, 7},
              {"to", false, false, 0, 9},       {"bpw", true, false, 1, 7},        {"RMSE", true, false, 4, 9},
              {"dB", true, false, 0, 6},        {"max error", true, false, 5, 9},  {"size", true, false, 0, 9}};
    }

    static Json json_row(const convert::TensorResult& r) {
      Json row = {{"name", core::printable(r.name)},
                  {"shape", r.dims},
                  {"from", r.from},
                  {"to", r.to},
                  {"bytes", r.bytes},
                  {"bits_per_weight", bits_per_weight(r.bytes, r.weights)}};
      if (r.encoded)
        row.update({{"rmse", r.error.rmse()},
                    {"sqnr_db", r.error.sqnr_db()},
                    {"max_error", r.error.max_error},
                    {"relative_error", r.error.relative()},
                    {"weighted_relative_error", r.error.weighted_relative()}});
      return row;
    }

    void print_plan() const {
      uint64_t bytes = 0;
      int64_t weights = 0;
      const auto infos = plan_.infos();
      for (size_t i = 0; i < infos.size(); ++i) {
        bytes += infos[i].bytes();
        if (plan_.sources[i].has_weights()) weights += plan_.sources[i].weights();
      }
      fmt::print("{} > {}, {:.3f} bits per weight\n", core::human_bytes(static_cast<double>(bytes_in_all_)),
                 core::human_bytes(static_cast<double>(bytes)), weights > 0 ? bits_per_weight(bytes, weights) : 0);
    }

    void print_types() const {
      std::vector<std::vector<std::string>> rows;
      for (const auto& [types, of] : types_)
        rows.push_back({types.first, types.first == types.second ? "" : types.second, fmt::format("{}", of.tensors),
                        core::human_bytes(static_cast<double>(of.bytes)),
                        fmt::format("{:.1f} %", 100 * static_cast<double>(of.bytes) /
                                                    static_cast<double>(std::max<uint64_t>(1, after_))),
                        fmt::format("{:.3f}", bits_per_weight(of.bytes, of.weights)),
                        of.error.weights > 0 ? fmt::format("{:.3g}", of.error.rmse()) : "",
                        of.error.weights > 0 ? fmt::format("{:.2f}", of.error.sqnr_db()) : ""});
      print_table({{"type"},
                   {"from"},
                   {"tensors", true, false, 2},
                   {"size", true},
                   {"share", true, false, 3},
                   {"bpw", true},
                   {"RMSE", true, false, 1},
                   {"dB", true}},
                  rows);
    }

    const QuantizeCommand& command_;
    const convert::Requantization& plan_;
    size_t done_ = 0;
    uint64_t bytes_in_all_ = 0;
    std::map<std::pair<std::string, std::string>, TypeTotal> types_; // by (new type, old type)
    uint64_t before_ = 0, after_ = 0;
    int64_t weights_ = 0;
    int64_t layers_;
    Table table_;
    double loss_ = 0; // as in convert/type_search.h
    quant::ErrorStats total_;
    convert::StageSeconds seconds_; // of encoding; the rest is copying and fsync
    Json rows_ = Json::array();
  };
};

} // namespace

void add_quantize_command(CLI::App& app) {
  auto options = std::make_shared<QuantizeCommand>();
  api::QuantizeRequest& request = options->request;
  CLI::App* command = app.add_subcommand("quantize", "quantize a model to other types (Q4_K_M, IQ3_S, Q8_0, COPY, …)");
  std::vector<std::string_view> names;
  for (const models::Recipe& recipe : models::recipes()) names.push_back(recipe.name);
  command->footer(fmt::format("TYPE: {}, or COPY.", fmt::join(names, " ")));
  command->add_option("IN.gguf", options->first, "input model: a file (any part of a split model) or a name")
      ->type_name(kModelType)
      ->required();
  command->add_option("OUT.gguf", options->second, "output file")->type_name("");
  command->add_option("TYPE", options->third, "output type, one of those listed below")->type_name("");
  command
      ->add_option("--imatrix", request.imatrix,
                   "importance matrix from ridge imatrix: keeps important weights more exact")
      ->type_name("FILE");
  command->add_flag("--pure", request.pure, "use the same type for every matrix instead of a mix");
  command->add_option("--output-tensor-type", request.output_type, "type of the output matrix")->type_name("TYPE");
  command->add_option("--token-embedding-type", request.embedding_type, "type of the token embeddings")
      ->type_name("TYPE");
  command
      ->add_option("--tensor-type", request.tensor_types,
                   "type of the tensors whose name contains a match of this regular expression (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("RE=TYPE");
  command->add_flag("--leave-output-tensor", request.leave_output, "do not requantize the output matrix");
  command->add_flag("--allow-requantize", request.allow_requantize,
                    "allow already quantized input, with additional loss");
  auto* size = command
                   ->add_option("--target-size", request.target_size,
                                "choose each tensor's type for this file size by its measured effect on the output (on "
                                "--calibration, otherwise on text written by the model)")
                   ->type_name("4.2GiB");
  command->add_option("--target-bpw", request.target_bpw, "the same for this many bits per weight")
      ->excludes("--target-size")
      ->check(CLI::Range(0.1, 32.0))
      ->type_name("4.3");
  command
      ->add_option("--target-divergence", request.target_divergence,
                   "the smallest file whose expected divergence is at most this many nats per token")
      ->excludes(size, command->get_option("--target-bpw"))
      ->check(CLI::Range(1e-9, 100.0))
      ->type_name("0.01");
  auto* explore =
      command->add_flag("--explore", request.explore,
                        "measure the divergence of every recipe and of mixes of the same sizes; writes no model");
  command->add_option("--svg", options->svg, "with --explore: also draw the chart to this file")
      ->needs(explore)
      ->type_name("FILE");
  command
      ->add_option(
          "--method", request.method,
          "plain, or with a calibration text: awq (scales channels), gptq (propagates errors), round (then adjusts "
          "codes and scales to reduce output errors), awq+gptq, awq+round")
      ->check(CLI::IsMember({"plain", "awq", "gptq", "round", "awq+gptq", "awq+round"}))
      ->capture_default_str()
      ->type_name("NAME");
  command
      ->add_option("--calibration", request.calibration,
                   "calibration text for --method awq, gptq and round, targets and --explore")
      ->type_name("FILE");
  command->add_flag("--parse-special", request.parse_special, "parse special tokens in the text (for chat transcripts)")
      ->needs("--calibration");
  command->add_option("--calibration-tokens", request.calibration_tokens, "tokens of it to use")
      ->needs("--calibration")
      ->check(CLI::Range(64, 1 << 24))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--device", request.device,
                   "where to encode and calibrate: auto (the GPU if there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  add_adapter_options(*command, request.adapters,
                      "merge this LoRA adapter into the weights, with an optional scale (repeatable)");
  command
      ->add_option("--split-max-size", request.split_size,
                   "split the output into files with at most this much tensor data")
      ->type_name("4GiB");
  command->add_flag("--dry-run", options->dry_run, "only show types and sizes (OUT may be omitted)");
  command->add_flag("-v,--verbose", options->verbose, "print one line per tensor instead of per type");
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->add_option("-t,--threads", request.threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
