#include "app/roofline_report.h"

#include "app/machine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace ridge::app {

using Json = nlohmann::ordered_json;
using Unit = core::Ceiling::Unit;

namespace {

double value_of(const RooflineReport& report, std::initializer_list<const char*> names) { // the largest of those there
  double best = 0;
  for (const char* name : names)
    if (const core::Ceiling* c = core::find_ceiling(report.ceilings, name)) best = std::max(best, c->value);
  return best;
}

} // namespace

double RooflineReport::read() const { return value_of(*this, {"dram_read"}); }
double RooflineReport::peak() const { return value_of(*this, {"mma_f16", "wgmma_f16", "int8"}); }
double RooflineReport::step_latency() const {
  const core::Ceiling* overlapped = core::find_ceiling(ceilings, "graph_step_overlapped");
  return overlapped ? overlapped->value : value_of(*this, {"graph_step", "barrier"});
}

double RooflineReport::floor_seconds(const Placement& p) const {
  return std::max({p.bytes / read(), p.flops / peak(), static_cast<double>(p.steps) * step_latency()});
}

std::string RooflineReport::bound_by(const Placement& p) const {
  const double floor = floor_seconds(p);
  return floor == p.bytes / read() ? "memory" : floor == p.flops / peak() ? "compute" : "latency";
}

std::optional<double> datasheet_value(const Datasheet* sheet, const std::string& ceiling) {
  if (!sheet) return {};
  const auto known = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  if (ceiling.starts_with("dram_")) return known(sheet->memory_bytes_per_second);
  if (ceiling == "fp32") return known(sheet->fp32_flops);
  if (ceiling == "mma_f16" || ceiling == "wgmma_f16" || ceiling == "mma_bf16" || ceiling == "wgmma_bf16")
    return known(sheet->tensor_f16_flops);
  if (ceiling == "mma_int8" || ceiling == "wgmma_int8") return known(sheet->tensor_int8_ops);
  if (ceiling == "mma_fp8" || ceiling == "wgmma_fp8") return known(sheet->tensor_fp8_flops);
  return {};
}

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

} // namespace

void print_roofline_text(const RooflineReport& report) {
  fmt::print("{}\n\n", report.device);
  // Padded by hand, because "µ" is two bytes and one column.
  const auto cell = [](const std::string& text, size_t width) {
    const auto shown = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
    return std::string(width > shown ? width - shown : 0, ' ') + text;
  };
  fmt::print("{:<22} {:>14} {:>14} {:>6}  {}\n", "ceiling", "measured", "datasheet", "%", "how");
  for (const core::Ceiling& c : report.ceilings) {
    const auto promised = datasheet_value(report.datasheet, c.name);
    const bool could_be = c.unit != Unit::seconds;
    fmt::print("{:<22} {} {} {:>6}  {}\n", c.name, cell(in_units(c.unit, c.value), 14),
               cell(promised   ? in_units(c.unit, *promised)
                    : could_be ? "unknown"
                               : "",
                    14),
               promised ? fmt::format("{:.1f}", 100 * c.value / *promised) : "", c.how);
  }
  fmt::print("\nThe ridge point: {:.0f} operations per byte.\n", report.peak() / report.read());
  if (report.placements.empty()) return;

  fmt::print(
      "\n{}: time, bytes and operations per step; roof: the least time that memory, arithmetic or latency allow\n",
      report.model);
  fmt::print("{:<10} {:<38} {:>10} {:>8} {:>9} {:>9} {:>7}  {}\n", "group", "kernel", "time", "FLOP/B", "GB/s",
             "TFLOP/s", "% roof", "bound by");
  for (const Placement& p : report.placements) {
    const double steps = p.group == "model" ? 1 : static_cast<double>(p.steps);
    fmt::print("{:<10} {:<38} {} {:>8.2f} {:>9.1f} {:>9.3f} {:>7.1f}  {}\n", p.group, p.name,
               cell(fmt::format("{:.2f} µs", p.seconds / steps * 1e6), 10), p.flops_per_byte(),
               p.bytes_per_second() / 1e9, p.flops_per_second() / 1e12, 100 * report.floor_seconds(p) / p.seconds,
               report.bound_by(p));
  }
}

void print_roofline_json(const RooflineReport& report) {
  Json ceilings = Json::array(), kernels = Json::array();
  for (const core::Ceiling& c : report.ceilings) {
    const auto promised = datasheet_value(report.datasheet, c.name);
    const std::string unit = unit_key(c.unit);
    ceilings.push_back({{"name", c.name},
                        {"measured_" + unit, c.value},
                        {"datasheet_" + unit, promised ? Json(*promised) : Json(nullptr)},
                        {"how", c.how}});
  }
  for (const Placement& p : report.placements)
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
                       {"bound_by", report.bound_by(p)}});
  const Json out = {{"device", report.device},
                    {"model", report.model.empty() ? Json(nullptr) : Json(report.model)},
                    {"ridge_point_flops_per_byte", report.peak() / report.read()},
                    {"ceilings", ceilings},
                    {"kernels", kernels}};
  print_report("roofline", out);
}

void print_roofline_csv(const RooflineReport& report) {
  fmt::print("commit,device,group,name,dependent_steps,seconds,bytes,flops,flops_per_byte,bytes_per_second,"
             "flops_per_second,floor_seconds,share_of_roof,bound_by\n");
  for (const core::Ceiling& c : report.ceilings) // as kernels that reach their roof
    if (c.unit == Unit::bytes_per_second)
      fmt::print("{},\"{}\",ceiling,{},,,,,,{},,,,\n", kCommit, report.device, c.name, c.value);
    else if (c.unit == Unit::operations_per_second)
      fmt::print("{},\"{}\",ceiling,{},,,,,,,{},,,\n", kCommit, report.device, c.name, c.value);
    else
      fmt::print("{},\"{}\",ceiling,{},1,{},,,,,,,,\n", kCommit, report.device, c.name, c.value);
  for (const Placement& p : report.placements)
    fmt::print("{},\"{}\",{},\"{}\",{},{},{},{},{},{},{},{},{},{}\n", kCommit, report.device, p.group, p.name, p.steps,
               p.seconds, p.bytes, p.flops, p.flops_per_byte(), p.bytes_per_second(), p.flops_per_second(),
               report.floor_seconds(p), report.floor_seconds(p) / p.seconds, report.bound_by(p));
}

} // namespace ridge::app
