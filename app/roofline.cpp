// ridge roofline: what this machine can do at most, and where the kernels and a whole step stand under that.
#include "app/cli.h"
#include "app/loaded_model.h"
#include "app/machine.h"
#include "app/roofline_report.h"
#include "app/terminal.h"
#include "core/atomic_file.h"
#include "core/error.h"
#include "kernels/cuda/executor.h"
#include "kernels/cuda/ladder.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

struct RooflineCommand {
  std::string file, shape, device = "auto", svg;
  int threads = 0;
  bool json = false, csv = false, ceilings_only = false, ladder = false;

  void run() const {
    const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
    if (device == "cuda" && !gpu.usable) throw_error("--device cuda: {}", gpu.problem);
    const Device on = gpu.usable && device != "cpu" ? Device::cuda : Device::cpu;
    if (ladder) {
      if (on == Device::cpu)
        throw_error("--ladder needs a GPU: {}", gpu.usable ? "--device cpu was given" : gpu.problem);
      return show_ladder();
    }

    RooflineReport report = measure_machine(on, threads);
    if (!ceilings_only) place(report, on);
    if (json)
      print_roofline_json(report);
    else if (csv)
      print_roofline_csv(report);
    else
      print_roofline_text(report);
    if (!svg.empty()) {
      const std::string picture = roofline_svg(report);
      core::AtomicFile out(svg, picture.size());
      out.write(std::as_bytes(std::span(picture)));
      out.commit();
      note(fmt::format("wrote {}", svg));
    }
  }

  void place(RooflineReport& report, Device on) const {
    const bool has_room = on == Device::cuda && kernels::cuda::device_info().free_bytes > kRoomForDefault;
    const std::string spec = !shape.empty() ? shape : has_room ? "llama-8b:Q4_K_M" : "llama-1b:Q4_K_M";
    LoadedModel loaded =
        file.empty() ? open_model(gguf::File::from_bytes(models::synthetic_model(spec), spec)) : open_model(file);
    report.model = file.empty() ? spec : models::model_label(loaded.file);
    ProbeOptions options{on, threads, 128e6, 128, {0, 512, 2048}, {}};
    if (on == Device::cuda) {
      options.cache_bytes = 256e6; // more than twice the largest L2 there is
      options.prompt = 512;
      options.depths = {0, 8192, 32768};
    }
    const int64_t longest = std::max<int64_t>(loaded.program.trained_context - 1, 1);
    for (int64_t& depth : options.depths) depth = std::min(depth, longest);
    options.depths.erase(std::ranges::unique(options.depths).begin(), options.depths.end());
    options.prompt = std::min(options.prompt, longest);
    {
      Progress progress("measuring kernels");
      options.progress = [&](int64_t done, int64_t total) { progress.update(done, total); };
      report.placements = probe_kernels(shape_of(loaded), options);
    }
    try {
      for (Placement& p : probe_model(loaded, options, report.placements)) report.placements.push_back(std::move(p));
    } catch (const kernels::cuda::OutOfMemory& error) {
      note(fmt::format("no step of the whole model: {}", error.what()));
    }
  }

  // The sizes that kernels are placed at, from the Program itself.
  static models::Shape shape_of(const LoadedModel& loaded) {
    models::Shape s = {};
    const core::Program& program = loaded.program;
    s.width = program.weights[program.ops.front().weights.at(0)].cols;
    for (const core::Op& op : program.ops) {
      if (op.kind == core::OpKind::attention) {
        const auto& params = std::get<core::AttentionParams>(op.params);
        const core::KvLayer& kv = program.kv_layers[params.layer];
        s.heads = params.heads;
        s.kv_heads = kv.heads;
        s.head_dim = kv.k_dim;
      }
      if (op.kind == core::OpKind::swiglu) s.ffn_width = program.values[op.outputs[0]].width;
    }
    if (s.heads == 0 || s.ffn_width == 0) throw_error("roofline: this model has no attention or no SwiGLU to place");
    return s;
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
  static constexpr double kRoomForDefault = 7e9; // bytes: what an 8B model in 4 bits takes, with some context
};

} // namespace

void add_roofline_command(CLI::App& app) {
  auto o = std::make_shared<RooflineCommand>();
  CLI::App* command =
      app.add_subcommand("roofline", "measure what this machine can do at most, and place kernels and a step under it");
  auto* file =
      command->add_option("-m,--model", o->file, "place the shapes and steps of this model")->type_name("FILE");
  command
      ->add_option("--shape", o->shape,
                   "or of a synthetic one (default: llama-8b:Q4_K_M; llama-1b:Q4_K_M on a CPU or in less than 7 GB)")
      ->type_name("NAME:TYPE")
      ->excludes(file);
  command->add_option("--device", o->device, "auto (the GPU where there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command->add_option("-t,--threads", o->threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->add_flag("--ceilings", o->ceilings_only, "only the machine, no kernels");
  command->add_flag("--ladder", o->ladder, "instead: matrix products from the naive kernel to cuBLAS, rung by rung");
  auto* json = command->add_flag("--json", o->json, "machine-readable");
  command->add_flag("--csv", o->csv, "machine-readable, a line per kernel")->excludes(json);
  command->add_option("--svg", o->svg, "also draw the roofline here")->type_name("FILE");
  command->callback([o] { o->run(); });
}

} // namespace ridge::app
