#include "measure/roofline_report.h"

#include "engine/loading/machine.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/microbench/microbench.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/microbench/microbench.h"

#include <fmt/format.h>

#include <omp.h>

#include <algorithm>

namespace ridge::measure {

namespace {

constexpr double kTolerance = 1.1;  // medians vary, caches hit
constexpr double kIdleShare = 0.85; // share of the best that an idle machine reaches

double value_of(const RooflineReport& report, std::initializer_list<const char*> names) {
  double best = 0;
  for (const char* name : names)
    if (const core::Ceiling* c = core::find_ceiling(report.ceilings, name)) best = std::max(best, c->value);
  return best;
}

} // namespace

RooflineReport measure_machine(engine::Device on, int threads) {
  RooflineReport report;
  report.device = device_name(on, threads);
  if (on == engine::Device::cuda) {
    report.datasheet = find_datasheet(report.device);
    report.ceilings = kernels::cuda::measure_ceilings();
  } else {
    report.ceilings = kernels::cpu::measure_ceilings(threads);
  }
  keep_read_peak(report.device, report.read_now());
  report.kept = stored_read_peak(report.device);
  return report;
}

double RooflineReport::read() const { return std::max(read_now(), kept ? kept->best : 0); }
double RooflineReport::read_now() const { return value_of(*this, {"dram_read"}); }
bool RooflineReport::disturbed() const { return read_now() < kIdleShare * read(); }
double RooflineReport::peak() const { return value_of(*this, {"mma_f16", "wgmma_f16", "int8"}); }
std::string RooflineReport::peak_name() const {
  const auto c = std::ranges::find(ceilings, peak(), &core::Ceiling::value);
  return c == ceilings.end() ? "" : c->name;
}
double RooflineReport::step_latency() const {
  const core::Ceiling* overlapped = core::find_ceiling(ceilings, "graph_step_overlapped");
  return overlapped ? overlapped->value : value_of(*this, {"graph_step", "barrier"});
}

double RooflineReport::memory_seconds(const RooflinePoint& p) const {
  return p.bytes / (p.group == "vector" ? std::max(read(), value_of(*this, {"l2_copy"})) : read());
}

double RooflineReport::floor_seconds(const RooflinePoint& p) const {
  return std::max({memory_seconds(p), p.flops / peak(), static_cast<double>(p.steps) * step_latency()});
}

TimeParts RooflineReport::parts(const RooflinePoint& p) const {
  TimeParts parts;
  const double memory = memory_seconds(p), compute = p.flops / peak();
  (memory >= compute ? parts.memory_seconds : parts.compute_seconds) = std::min(std::max(memory, compute), p.seconds);
  const double rest = p.seconds - parts.memory_seconds - parts.compute_seconds;
  parts.latency_seconds = std::min(rest, std::max(p.start_seconds, static_cast<double>(p.steps) * step_latency()));
  parts.kernel_seconds = rest - parts.latency_seconds;
  return parts;
}

bool RooflineReport::above_roof(const RooflinePoint& p) const {
  return p.seconds > 0 && floor_seconds(p) > kTolerance * p.seconds;
}

std::string RooflineReport::bound_by(const RooflinePoint& p) const {
  if (above_roof(p)) return "disturbed";
  const TimeParts of = parts(p);
  const std::pair<double, const char*> causes[] = {{of.memory_seconds, "memory"},
                                                   {of.compute_seconds, "compute"},
                                                   {of.latency_seconds, "latency"},
                                                   {of.kernel_seconds, "kernel"}};
  return std::ranges::max_element(causes, {}, &std::pair<double, const char*>::first)->second;
}

std::optional<double> datasheet_value(const Datasheet* sheet, const std::string& ceiling) {
  if (!sheet) return {};
  const auto known = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  if (ceiling == "dram_read" || ceiling == "dram_write" || ceiling == "dram_copy")
    return known(sheet->memory_bytes_per_second);
  if (ceiling == "fp32") return known(sheet->fp32_flops);
  if (ceiling == "mma_f16" || ceiling == "wgmma_f16" || ceiling == "mma_bf16" || ceiling == "wgmma_bf16")
    return known(sheet->tensor_f16_flops);
  if (ceiling == "mma_int8" || ceiling == "wgmma_int8") return known(sheet->tensor_int8_ops);
  if (ceiling == "mma_fp8" || ceiling == "wgmma_fp8") return known(sheet->tensor_fp8_flops);
  return {};
}

} // namespace ridge::measure
