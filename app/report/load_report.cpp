#include "app/report/bench_report.h"

#include "app/report/report.h"
#include "app/terminal/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kLoadNameWidth = 16;

std::string milliseconds(const measure::Percentiles& times) {
  return fmt::format("{:.4g} ms median, {:.4g} ms 90 %, {:.4g} ms 99 %", 1e3 * times.median, 1e3 * times.p90,
                     1e3 * times.p99);
}

Json seconds(const measure::Percentiles& times) {
  return {{"median", times.median}, {"p90", times.p90}, {"p99", times.p99}};
}

Json record(const measure::ClientLoadRow& r) {
  return {{"model", r.model},
          {"backend", r.backend},
          {"device", r.device},
          {"clients", r.load.clients},
          {"requests", r.requests},
          {"streams", r.load.streams > 0 ? r.load.streams : r.load.clients},
          {"shared_tokens", r.load.shared},
          {"arrivals_per_second", r.load.arrivals > 0 ? Json(r.load.arrivals) : Json(nullptr)},
          {"seconds", r.seconds},
          {"prompt_tokens", r.prompt_tokens},
          {"cached_tokens", r.cached_tokens},
          {"generated_tokens", r.generated_tokens},
          {"preemptions", r.preemptions},
          {"prompt_tokens_per_second", r.prompt_rate()},
          {"generated_tokens_per_second", r.generated_rate()},
          {"first_token_seconds", seconds(r.first_token)},
          {"between_tokens_seconds", seconds(r.between_tokens)},
          {"steps", r.steps},
          {"bytes", r.bytes},
          {"bytes_per_second", r.bytes_per_second()},
          {"read_bytes_per_second_measured", r.read_bytes_per_second}};
}

} // namespace

void print_load_markdown(const std::vector<measure::ClientLoadRow>& rows) {
  for (const measure::ClientLoadRow& r : rows) {
    std::string how;
    if (r.load.arrivals > 0) how += fmt::format(", {:g} per second", r.load.arrivals);
    if (r.load.streams > 0) how += fmt::format(", {} at once, preempted {} times", r.load.streams, r.preemptions);
    if (&r != rows.data()) fmt::print("\n");
    print_row("", 0,
              fmt::format("{}: {} clients, {} requests{}, {:.3g} s; {}", r.model, r.load.clients, r.requests, how,
                          r.seconds, r.device));
    const auto row = [](const char* name, const std::string& text) { print_row(name, kLoadNameWidth, text); };
    row("generated", fmt::format("{:.1f} tokens/s for all clients", r.generated_rate()));
    row("prompts",
        fmt::format("{:.1f} tokens/s; {:.1f} % of them came from the cache", r.prompt_rate(), 100 * r.cached_share()));
    row("first token", milliseconds(r.first_token));
    row("between tokens", milliseconds(r.between_tokens));
    row("memory",
        fmt::format("{:.1f} GB/s, {:.1f} % of the {:.1f} GB/s measured; {} steps", r.bytes_per_second() / 1e9,
                    100 * r.bytes_per_second() / r.read_bytes_per_second, r.read_bytes_per_second / 1e9, r.steps));
  }
}

void print_load_json(const std::vector<measure::ClientLoadRow>& rows) {
  Json loads = Json::array();
  for (const measure::ClientLoadRow& row : rows) loads.push_back(record(row));
  print_report("bench", {{"loads", loads}});
}

} // namespace ridge::app
