// ridge roofline: ceilings, kernels, whole steps.
#include "measure/roofline.h"
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/report/table.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/read_file.h"
#include "engine/loading/machine.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/microbench/ladder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace ridge::app {

using Unit = core::Ceiling::Unit;

namespace {

// "4.57 TB/s", "904 TFLOP/s", "0.58 µs"
std::string in_units(Unit unit, double value) {
  if (unit == Unit::seconds) return fmt::format("{:.3f} µs", value * 1e6);
  const char* name = unit == Unit::bytes_per_second ? "B/s" : "OP/s";
  for (const auto& [prefix, factor] : {std::pair("T", 1e12), std::pair("G", 1e9)})
    if (value >= factor) return fmt::format("{:.4g} {}{}", value / factor, prefix, name);
  return fmt::format("{:.4g} {}", value, name);
}

const char* unit_key(Unit unit) {
  switch (unit) {
  case Unit::bytes_per_second: return "bytes_per_second";
  case Unit::operations_per_second: return "operations_per_second";
  case Unit::seconds: break;
  }
  return "seconds";
}

void print_summary(const measure::RooflineReport& report) {
  const auto promised = measure::datasheet_value(report.datasheet, "dram_read");
  const auto row = [](const std::string& name, const std::string& text) { print_row(name, 19, text); };
  fmt::print("\nSummary\n");
  row("this machine",
      fmt::format("{} of memory reads{}", in_units(Unit::bytes_per_second, report.read()),
                  promised ? fmt::format(", {:.0f} % of the datasheet's", 100 * report.read() / *promised) : ""));
  for (const measure::RooflinePoint& p : report.points) {
    if (p.group != "model") continue;
    const measure::TimeParts of = report.parts(p);
    const auto tokens = static_cast<double>(p.tokens);
    const double roof = of.memory_seconds + of.compute_seconds;
    const auto share = [&](double seconds) { return fmt::format("{:.0f} %", 100 * seconds / p.seconds); };
    if (report.above_roof(p)) {
      row(p.name, fmt::format("{:.0f} tokens/s; disturbed: faster than the measured roofs allow ({:.0f} %). Measure "
                              "again when nothing else is running",
                              tokens / p.seconds, 100 * report.floor_seconds(p) / p.seconds));
      continue;
    }
    row(p.name,
        fmt::format("{:.0f} tokens/s, {} of the {:.0f} that {} allows; {:.2f} ms: {} {}, {} starting {} kernels, {} "
                    "inside them",
                    tokens / p.seconds, share(roof), tokens / roof, of.memory_seconds > 0 ? "memory" : "arithmetic",
                    p.seconds * 1e3, share(roof), of.memory_seconds > 0 ? "bytes" : "operations",
                    share(of.latency_seconds), p.steps, share(of.kernel_seconds)));
  }
  for (const char* cause : {"memory", "compute", "latency", "kernel", "disturbed"}) {
    std::vector<std::string> formats;
    for (size_t i = 0; i < report.points.size(); ++i) {
      const measure::RooflinePoint& p = report.points[i];
      const bool last = i + 1 == report.points.size() || report.points[i + 1].group != "matvec" ||
                        report.points[i + 1].format != p.format;
      if (p.group == "matvec" && last && report.bound_by(p) == cause) formats.push_back(p.format);
    }
    if (!formats.empty())
      row(cause == std::string_view("disturbed") ? cause : fmt::format("bound by {}", cause),
          fmt::format("{}", fmt::join(formats, " ")));
  }
}

} // namespace

void print_roofline_text(const measure::RooflineReport& report) {
  fmt::print("{}\n\n", report.device);
  std::vector<std::vector<std::string>> rows;
  for (const core::Ceiling& c : report.ceilings) {
    const auto promised = measure::datasheet_value(report.datasheet, c.name);
    const bool could_be = c.unit != Unit::seconds;
    rows.push_back({c.name, in_units(c.unit, c.value),
                    promised   ? in_units(c.unit, *promised)
                    : could_be ? "unknown"
                               : "",
                    promised ? fmt::format("{:.1f}", 100 * c.value / *promised) : "", c.how});
  }
  print_table(
      {{"ceiling"}, {"measured", true}, {"datasheet", true, false, 2}, {"%", true, false, 1}, {"how", false, true, 3}},
      rows);
  if (report.kept && report.kept->times > 1)
    fmt::print("\nMemory reads here: {} at best, {} at worst in {} measurements; the best is used as the roof.\n",
               in_units(Unit::bytes_per_second, report.kept->best),
               in_units(Unit::bytes_per_second, report.kept->least), report.kept->times);
  if (report.disturbed())
    fmt::print("Disturbed: currently only {:.0f} % of it. Something else is using the machine; measure again when "
               "nothing else is running.\n",
               100 * report.read_now() / report.read());
  fmt::print("\nThe ridge point: {:.0f} operations per byte.\n", report.peak() / report.read());
  if (report.points.empty()) return;

  print_row("", 0,
            fmt::format("\n{}: each kernel repeated as often as caches require, µs per kernel; % roof: share of the "
                        "minimum time that memory, arithmetic or latency allow",
                        report.model));
  rows.clear();
  for (const measure::RooflinePoint& p : report.points) {
    const double each = p.group == "model" ? 1 : static_cast<double>(p.steps);
    const measure::TimeParts of = report.parts(p);
    const auto us = [&](double seconds) { return fmt::format("{:.2f}", seconds / each * 1e6); };
    rows.push_back({p.group, p.name, us(p.seconds), fmt::format("{:.2f}", p.flops_per_byte()),
                    fmt::format("{:.1f}", p.bytes_per_second() / 1e9),
                    fmt::format("{:.3f}", p.flops_per_second() / 1e12),
                    fmt::format("{:.1f}", 100 * report.floor_seconds(p) / p.seconds), report.bound_by(p),
                    us(of.memory_seconds + of.compute_seconds), us(of.latency_seconds), us(of.kernel_seconds)});
  }
  print_table({{"group", false, false, 7},
               {"kernel", false, true},
               {"µs", true},
               {"FLOP/B", true, false, 3},
               {"GB/s", true, false, 1},
               {"TFLOP/s", true, false, 2},
               {"% roof", true},
               {"bound by"},
               {"roof", true, false, 6},
               {"latency", true, false, 5},
               {"kernel", true, false, 4}},
              rows);
  print_summary(report);
}

void print_roofline_json(const measure::RooflineReport& report) {
  Json ceilings = Json::array(), kernels = Json::array();
  for (const core::Ceiling& c : report.ceilings) {
    const auto promised = measure::datasheet_value(report.datasheet, c.name);
    const std::string unit = unit_key(c.unit);
    ceilings.push_back({{"name", c.name},
                        {"measured_" + unit, c.value},
                        {"datasheet_" + unit, promised ? Json(*promised) : Json(nullptr)},
                        {"how", c.how}});
  }
  for (const measure::RooflinePoint& p : report.points) {
    const measure::TimeParts of = report.parts(p);
    kernels.push_back({{"group", p.group},
                       {"name", p.name},
                       {"dependent_steps", p.steps},
                       {"seconds", p.seconds},
                       {"bytes", p.bytes},
                       {"flops", p.flops},
                       {"flops_per_byte", p.flops_per_byte()},
                       {"bytes_per_second", p.bytes_per_second()},
                       {"flops_per_second", p.flops_per_second()},
                       {"floor_seconds", report.floor_seconds(p)},
                       {"share_of_roof", report.floor_seconds(p) / p.seconds},
                       {"bound_by", report.bound_by(p)},
                       {"disturbed", report.above_roof(p)},
                       {"memory_seconds", of.memory_seconds},
                       {"compute_seconds", of.compute_seconds},
                       {"latency_seconds", of.latency_seconds},
                       {"kernel_seconds", of.kernel_seconds}});
  }
  const Json out = {{"device", report.device},
                    {"model", report.model.empty() ? Json(nullptr) : Json(report.model)},
                    {"read_roof_bytes_per_second", report.read()},
                    {"read_least_bytes_per_second", report.kept ? Json(report.kept->least) : Json(nullptr)},
                    {"read_measurements", report.kept ? report.kept->times : 0},
                    {"disturbed", report.disturbed()},
                    {"ridge_point_flops_per_byte", report.peak() / report.read()},
                    {"ceilings", ceilings},
                    {"kernels", kernels}};
  print_report("roofline", out);
}

void print_roofline_csv(const measure::RooflineReport& report) {
  fmt::print("commit,device,group,name,dependent_steps,seconds,bytes,flops,flops_per_byte,bytes_per_second,"
             "flops_per_second,floor_seconds,share_of_roof,bound_by,memory_seconds,compute_seconds,latency_seconds,"
             "kernel_seconds\n");
  for (const core::Ceiling& c : report.ceilings)
    if (c.unit == Unit::bytes_per_second)
      fmt::print("{},\"{}\",ceiling,{},,,,,,{},,,,,,,,\n", engine::kCommit, report.device, c.name, c.value);
    else if (c.unit == Unit::operations_per_second)
      fmt::print("{},\"{}\",ceiling,{},,,,,,,{},,,,,,,\n", engine::kCommit, report.device, c.name, c.value);
    else
      fmt::print("{},\"{}\",ceiling,{},1,{},,,,,,,,,,,,\n", engine::kCommit, report.device, c.name, c.value);
  for (const measure::RooflinePoint& p : report.points) {
    const measure::TimeParts of = report.parts(p);
    fmt::print("{},\"{}\",{},\"{}\",{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", engine::kCommit, report.device,
               p.group, p.name, p.steps, p.seconds, p.bytes, p.flops, p.flops_per_byte(), p.bytes_per_second(),
               p.flops_per_second(), report.floor_seconds(p), report.floor_seconds(p) / p.seconds, report.bound_by(p),
               of.memory_seconds, of.compute_seconds, of.latency_seconds, of.kernel_seconds);
  }
}
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
