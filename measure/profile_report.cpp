#include "measure/profile_report.h"

#include "core/clock.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace ridge::measure {
namespace {

constexpr int64_t kManyTokens = 64; // compute-bound above

bool tells_waiting(const StepProfile& profile) {
  return std::ranges::any_of(profile.ops, [](const OpProfile& op) { return op.waiting > 0; });
}

std::string shortened(const std::string& name, size_t columns) {
  return name.size() > columns ? name.substr(0, columns - 3) + "..." : name;
}

// -1: no layers.
int32_t middle_layer(const StepProfile& profile) {
  std::vector<int32_t> layers;
  for (const OpProfile& op : profile.ops)
    if (op.layer >= 0) layers.push_back(op.layer);
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers.empty() ? -1 : layers[layers.size() / 2];
}

std::string layer_timeline(const StepProfile& profile) {
  constexpr int kColumns = 40;
  const int32_t layer = middle_layer(profile);
  double length = 0;
  for (const OpProfile& op : profile.ops)
    if (op.layer == layer) length += op.seconds;
  std::string text = fmt::format("\nlayer {}: {:.2f} µs\n{:<30} {:>6} {:>6} {:>6} {:>6}\n", layer, length * 1e6, "ops",
                                 "starts", "waits", "works", "apart");
  double previous_end = 0; // end of the previous op in the layer
  for (const OpProfile& op : profile.ops) {
    if (op.layer != layer) continue;
    const double end = previous_end + op.seconds;
    std::string bar;
    for (int i = 0; i < kColumns; ++i) {
      const double at = length * (i + 0.5) / kColumns;
      if (at < end)
        bar += at < std::min(previous_end + op.start_delay, previous_end) ? ' '
               : at < previous_end                                        ? '.'
               : at < previous_end + op.waiting                           ? '-'
               : at < end - op.end_spread                                 ? '='
                                                                          : '+';
    }
    text += fmt::format("{:<30} {:>6.2f} {:>6.2f} {:>6.2f} {:>6.2f}  {}\n", shortened(op.name, 30),
                        (previous_end + op.start_delay) * 1e6, op.waiting * 1e6, (op.seconds - op.waiting) * 1e6,
                        op.end_spread * 1e6, bar);
    previous_end = end;
  }
  text += "starts: start of the first block in the layer; apart: time between the first and last block's end\n. "
          "started early, - waiting for input, = working, + some of its blocks have ended\n";
  return text;
}

std::string what_of(const StepProfile& profile) {
  if (profile.tokens > profile.streams) return fmt::format("one step of {} tokens", profile.tokens);
  return profile.streams > 1 ? fmt::format("one decoding step of {} sequences", profile.streams) : "one decoding step";
}

} // namespace

std::string name_without_layer(const core::Op& op) {
  const std::string layer = fmt::format("blk.{}.", op.layer);
  std::string name = op.name;
  if (const size_t at = name.find(layer); at != name.npos) name.erase(at, layer.size());
  return name;
}

StepProfile profile_batch(core::Executor& executor, const core::Program& program, const core::Batch& batch,
                          const core::Step& step, double read_bytes_per_second, int repetitions) {
  const auto go_back = [&] {
    for (int32_t stream = 0; stream < step.streams; ++stream) executor.load_state(stream, {}, step.past);
  };
  go_back();
  StepProfile profile{step.past, 0, read_bytes_per_second, {}, step.tokens, step.streams};
  for (const core::OpTime& time : executor.profile(batch, repetitions)) {
    OpProfile op{time.prepares.empty() ? "" : time.prepares + ":",
                 program.ops[time.ops.at(0)].layer,
                 time.seconds,
                 0,
                 0,
                 time.ops,
                 time.waiting,
                 time.start_delay,
                 time.end_spread};
    for (const int32_t i : time.ops) {
      op.name += (op.name.empty() ? "" : " ") + name_without_layer(program.ops[i]);
      if (!time.prepares.empty()) continue;
      const core::Cost cost = core::op_cost(program, program.ops[i], step);
      op.bytes += cost.bytes();
      op.flops += cost.flops;
    }
    profile.ops.push_back(std::move(op));
  }
  profile.step_seconds = core::median_seconds(repetitions, [&] {
    go_back();
    executor.forward(batch);
  });
  profile.plan = executor.describe_plan(batch);
  return profile;
}

StepProfile profile_step(core::Executor& executor, const core::Program& program, const ProfiledStep& profiled,
                         double read_bytes_per_second, int repetitions) {
  const int64_t count = std::ssize(profiled.tokens), streams = profiled.one_stream ? 1 : count;
  std::vector<int32_t> each(count), positions(count, static_cast<int32_t>(profiled.position)), of_stream(count, 0);
  std::iota(each.begin(), each.end(), 0);
  if (profiled.one_stream)
    std::iota(positions.begin(), positions.end(), positions[0]);
  else
    of_stream = each;
  const std::span<const int32_t> outputs = std::span(each).last(profiled.only_last ? 1 : count);
  const core::ExecutorConfig& config = executor.config();
  return profile_batch(executor, program, {profiled.tokens, positions, of_stream, outputs},
                       {count, profiled.position, streams, std::ssize(outputs), core::bytes_per_element(config.k_type),
                        core::bytes_per_element(config.v_type)},
                       read_bytes_per_second, repetitions);
}

std::string profile_table(const StepProfile& profile) {
  if (profile.ops.empty()) return "this executor does not support profiles\n";
  struct Line {
    std::string name;
    int64_t count = 0;
    double seconds = 0, waiting = 0, bytes = 0, flops = 0;
  };
  std::vector<Line> lines;
  Line total{"together"};
  for (const OpProfile& op : profile.ops) {
    auto line = std::ranges::find(lines, op.name, &Line::name);
    if (line == lines.end()) line = lines.insert(lines.end(), {op.name});
    for (Line* l : {&*line, &total}) {
      ++l->count;
      l->seconds += op.seconds;
      l->waiting += op.waiting;
      l->bytes += op.bytes;
      l->flops += op.flops;
    }
  }
  std::ranges::stable_sort(lines, std::greater(), &Line::seconds);
  lines.push_back(total);

  const bool waiting = tells_waiting(profile), computes = profile.tokens > kManyTokens;
  const auto cell = [](double seconds) { return fmt::format(" {:>10.2f}", seconds * 1e6); };
  const auto waiting_cell = [&](const Line& l) {
    return waiting ? cell(l.waiting / static_cast<double>(l.count)) : std::string();
  };
  std::string text =
      fmt::format("{} at position {}, µs\n{:<44} {:>5} {:>10}{} {:>10} {:>10} {:>9} {:>7} {:>10}{}\n", what_of(profile),
                  profile.position, "ops", "count", "each", waiting ? "    waiting" : "", "all", "MB", "GB/s", "% roof",
                  "gap", computes ? "   TFLOP/s" : "");
  for (const Line& l : lines) {
    const double floor = l.bytes / profile.read_bytes_per_second;
    text += fmt::format("{:<44} {:>5}{}{}{} {:>10.3f} {:>9.1f} {:>7.1f}{}{}\n", shortened(l.name, 44), l.count,
                        cell(l.seconds / static_cast<double>(l.count)), waiting_cell(l), cell(l.seconds), l.bytes / 1e6,
                        l.bytes / l.seconds / 1e9, 100 * floor / l.seconds, cell(l.seconds - floor),
                        computes ? fmt::format(" {:>9.1f}", l.flops / l.seconds / 1e12) : "");
  }
  text += fmt::format("{:<44} {:>5} {:>10}{}{}\n", "the whole step, on the host's clock", "", "",
                      waiting ? "           " : "", cell(profile.step_seconds));
  text += fmt::format("roof: {:.1f} GB/s, measured; gap: time above the minimum for these bytes. ",
                      profile.read_bytes_per_second / 1e9);
  if (!waiting) return text + "Each op is timed alone, including its launch, which the step partly hides\n";
  text += "Each op counts\nfrom the end of the previous one in a normal step; waiting: until its blocks had input, on "
          "average\n";
  return middle_layer(profile) < 0 ? text : text + layer_timeline(profile);
}

nlohmann::ordered_json profile_json(const StepProfile& profile) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  const bool waiting = tells_waiting(profile);
  double previous_end = 0; // end of the previous op in the step
  for (const OpProfile& op : profile.ops) {
    nlohmann::ordered_json json = {{"ops", op.name},
                                   {"layer", op.layer},
                                   {"seconds", op.seconds},
                                   {"bytes", op.bytes},
                                   {"flops", op.flops},
                                   {"bytes_per_second", op.bytes / op.seconds},
                                   {"share_of_roof", op.bytes / profile.read_bytes_per_second / op.seconds},
                                   {"gap_seconds", op.seconds - op.bytes / profile.read_bytes_per_second}};
    if (waiting) {
      json["waiting_seconds"] = op.waiting;
      json["first_start_seconds"] = previous_end + op.start_delay;
      json["last_end_seconds"] = previous_end + op.seconds;
      json["ends_apart_seconds"] = op.end_spread;
    }
    previous_end += op.seconds;
    ops.push_back(std::move(json));
  }
  return {{"position", profile.position},
          {"step_seconds", profile.step_seconds},
          {"read_bytes_per_second_measured", profile.read_bytes_per_second},
          {"ops", ops}};
}

} // namespace ridge::measure
