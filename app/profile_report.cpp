#include "app/profile_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace ridge::app {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

std::string name_without_layer(const core::Op& op) {
  const std::string prefix = fmt::format("blk.{}.", op.layer);
  return op.name.starts_with(prefix) ? op.name.substr(prefix.size()) : op.name;
}

StepProfile profile_step(core::Executor& executor, const core::Program& program, int32_t token, int64_t position,
                         double read_bytes_per_second, int repetitions) {
  const auto at = static_cast<int32_t>(position);
  const int32_t output = 0;
  const core::Batch batch{{&token, 1}, {&at, 1}, {}, {&output, 1}};
  const core::ExecutorConfig& config = executor.config();
  const core::Step step{
      1, position, 1, 1, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};

  StepProfile profile{position, 0, read_bytes_per_second, {}};
  for (const core::OpTime& time : executor.profile(batch, repetitions)) {
    OpProfile op{"", program.ops[time.ops.at(0)].layer, time.seconds, 0, 0, time.ops};
    for (const int32_t i : time.ops) {
      const core::Cost cost = core::op_cost(program, program.ops[i], step);
      op.bytes += cost.bytes();
      op.flops += cost.flops;
      op.name += (op.name.empty() ? "" : " ") + name_without_layer(program.ops[i]);
    }
    profile.ops.push_back(std::move(op));
  }
  std::vector<double> seconds(repetitions);
  for (double& s : seconds) {
    const double start = now();
    executor.forward(batch);
    s = now() - start;
  }
  std::ranges::sort(seconds);
  profile.step_seconds = seconds[seconds.size() / 2];
  return profile;
}

std::string profile_table(const StepProfile& profile) {
  if (profile.ops.empty()) return "this executor cannot tell where its time goes\n";
  struct Line {
    std::string name;
    int64_t count = 0;
    double seconds = 0, bytes = 0;
  };
  std::vector<Line> lines;
  Line total{"together"};
  for (const OpProfile& op : profile.ops) {
    auto line = std::ranges::find(lines, op.name, &Line::name);
    if (line == lines.end()) line = lines.insert(lines.end(), {op.name});
    for (Line* l : {&*line, &total}) {
      ++l->count;
      l->seconds += op.seconds;
      l->bytes += op.bytes;
    }
  }
  std::ranges::stable_sort(lines, std::greater(), &Line::seconds);
  lines.push_back(total);

  const auto cell = [](double microseconds) { return fmt::format("{:>10.2f}", microseconds); };
  std::string text = fmt::format("one decoding step at position {}, µs\n{:<44} {:>5} {:>10} {:>10} {:>10} {:>9} {:>7} "
                                 "{:>10}\n",
                                 profile.position, "ops", "count", "each", "all", "MB", "GB/s", "% roof", "gap");
  for (const Line& l : lines) {
    const double floor = l.bytes / profile.read_bytes_per_second;
    const std::string name = l.name.size() > 44 ? l.name.substr(0, 41) + "..." : l.name;
    text += fmt::format("{:<44} {:>5} {} {} {:>10.3f} {:>9.1f} {:>7.1f} {}\n", name, l.count,
                        cell(l.seconds * 1e6 / static_cast<double>(l.count)), cell(l.seconds * 1e6), l.bytes / 1e6,
                        l.bytes / l.seconds / 1e9, 100 * floor / l.seconds, cell((l.seconds - floor) * 1e6));
  }
  text += fmt::format("{:<44} {:>5} {:>10} {}\n", "the step undivided, on the host's clock", "", "",
                      cell(profile.step_seconds * 1e6));
  text +=
      fmt::format("roof: {:.1f} GB/s, measured; gap: time above what the bytes take there. Each op is timed by itself, "
                  "with all of its launch, which the step hides in part\n",
                  profile.read_bytes_per_second / 1e9);
  return text;
}

nlohmann::ordered_json profile_json(const StepProfile& profile) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const OpProfile& op : profile.ops)
    ops.push_back({{"ops", op.name},
                   {"layer", op.layer},
                   {"seconds", op.seconds},
                   {"bytes", op.bytes},
                   {"flops", op.flops},
                   {"bytes_per_second", op.bytes / op.seconds},
                   {"share_of_roof", op.bytes / profile.read_bytes_per_second / op.seconds},
                   {"gap_seconds", op.seconds - op.bytes / profile.read_bytes_per_second}});
  return {{"position", profile.position},
          {"step_seconds", profile.step_seconds},
          {"read_bytes_per_second_measured", profile.read_bytes_per_second},
          {"ops", ops}};
}

} // namespace ridge::app
