// ridge roofline: ceilings, kernels, whole steps.
#include "measure/roofline.h"
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/report/roofline_report.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/read_file.h"
#include "engine/loading/machine.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/microbench/ladder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

struct RooflineCommand {
  api::RooflineRequest request;
  std::string svg;
  bool json = false, csv = false, ladder = false;

  void run() const {
    if (ladder) {
      if (measure::device_of(request) == engine::Device::cpu)
        throw_error("--ladder needs a GPU: {}",
                    request.device == "cpu" ? "remove --device cpu" : kernels::cuda::device_info().problem);
      return show_ladder();
    }

    if (!svg.empty()) core::check_output(svg, {request.file});
    Progress progress;
    const measure::RooflineReport report = measure::measure_roofline(
        request, [&](std::string_view what, int64_t done, int64_t total) { progress.update(what, done, total); });
    progress.clear();
    if (!report.missing.empty()) note(report.missing);
    if (json)
      print_roofline_json(report);
    else if (csv)
      print_roofline_csv(report);
    else
      print_roofline_text(report);
    if (!svg.empty()) {
      const std::string picture = measure::roofline_svg(report);
      core::AtomicFile out(svg, picture.size());
      out.write(std::as_bytes(std::span(picture)));
      out.commit();
      note(fmt::format("wrote {}", svg));
    }
  }

  void show_ladder() const {
    const kernels::cuda::Ladder l = kernels::cuda::climb_ladder(kLadderSize);
    if (json) {
      Json rungs = Json::array();
      for (const kernels::cuda::Rung& r : l.rungs)
        rungs.push_back(
            {{"name", r.name},
             {"why", r.why},
             {"configuration", r.configuration},
             {"fp32", r.fp32},
             {"seconds", r.seconds},
             {"flops_per_second", l.flops() / r.seconds},
             {"share_of_cublas_fp32", l.cublas_seconds > 0 ? Json(l.cublas_seconds / r.seconds) : Json(nullptr)},
             {"relative_error", r.error}});
      return print_report("roofline", {{"matrix_rows", l.size},
                                       {"cublas_fp32_flops_per_second",
                                        l.cublas_seconds > 0 ? Json(l.flops() / l.cublas_seconds) : Json(nullptr)},
                                       {"rungs", rungs}});
    }
    fmt::print("C = A B, {0} x {0}, f32. cuBLAS in f32: {1}\n\n", l.size,
               l.cublas_seconds > 0 ? fmt::format("{:.1f} TFLOP/s", l.flops() / l.cublas_seconds / 1e12)
                                    : l.cublas_problem);
    fmt::print("{:<24} {:>8} {:>9} {:>9}  {}\n", "rung", "TFLOP/s", "% cuBLAS", "error", "why");
    for (const kernels::cuda::Rung& r : l.rungs) {
      fmt::print("{:<24} {:>8.2f} {:>9} {:>9.1e}  {}\n", r.name, l.flops() / r.seconds / 1e12,
                 l.cublas_seconds > 0 ? fmt::format("{:.1f}", 100 * l.cublas_seconds / r.seconds) : "unknown", r.error,
                 r.why);
      if (!r.configuration.empty()) fmt::print("{:<53}  {}\n", "", r.configuration);
    }
  }

  static constexpr int64_t kLadderSize = 4096;
};

} // namespace

void add_roofline_command(CLI::App& app) {
  auto o = std::make_shared<RooflineCommand>();
  CLI::App* command = app.add_subcommand(
      "roofline", "measure this machine's limits and show how close kernels and a decoding step come to them");
  auto* file = command->add_option("-m,--model", o->request.file, "use the shapes and steps of this model")
                   ->type_name(kModelType);
  command
      ->add_option("--shape", o->request.shape,
                   "use a synthetic model (default: llama-8b:Q4_K_M; llama-1b:Q4_K_M on a CPU or with less than 7 GB)")
      ->type_name("NAME:TYPE")
      ->excludes(file);
  command->add_option("--device", o->request.device, "auto (the GPU if there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command->add_option("-t,--threads", o->request.threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->add_flag("--ceilings", o->request.ceilings_only, "measure only the machine, no kernels");
  auto* ladder = command->add_flag(
      "--ladder", o->ladder, "instead: compare matrix multiplications step by step from a naive kernel to cuBLAS");
  auto* json = command->add_flag("--json", o->json, "print JSON");
  auto* csv = command->add_flag("--csv", o->csv, "print JSON, one line per kernel")->excludes(json);
  auto* svg = command->add_option("--svg", o->svg, "also draw the roofline to this file")->type_name("FILE");
  for (CLI::Option* other : {csv, svg, file, command->get_option("--shape"), command->get_option("--ceilings")})
    ladder->excludes(other);
  command->callback([o] { o->run(); });
}

} // namespace ridge::app
