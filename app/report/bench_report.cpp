#include "app/report/bench_report.h"

#include "app/report/report.h"
#include "app/report/table.h"
#include "app/terminal/terminal.h"
#include "core/strings/utf8.h"
#include "core/units.h"
#include "engine/loading/machine.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>

namespace ridge::app {

using Json = nlohmann::ordered_json;

namespace {

struct Column {
  const char* title;
  bool left;
  bool always; // otherwise only if rows differ
  std::string (*text)(const measure::BenchRow&);
  int rank = 0;
};

const Column kColumns[] = {
    {"model", true, true, [](const measure::BenchRow& r) { return r.model; }},
    {"size", false, true,
     [](const measure::BenchRow& r) { return core::human_bytes(static_cast<double>(r.file_bytes)); }, 5},
    {"params", false, true,
     [](const measure::BenchRow& r) {
       const double millions = static_cast<double>(r.parameters) / 1e6;
       return millions < 1000 ? fmt::format("{:.2f} M", millions) : fmt::format("{:.2f} B", millions / 1000);
     },
     6},
    {"backend", true, true, [](const measure::BenchRow& r) { return r.backend; }, 4},
    {"threads", false, false, [](const measure::BenchRow& r) { return fmt::format("{}", r.threads); }},
    {"ngl", false, false, [](const measure::BenchRow& r) { return fmt::format("{}", r.gpu_layers); }},
    {"n_batch", false, false, [](const measure::BenchRow& r) { return fmt::format("{}", r.batch_tokens); }},
    {"n_ubatch", false, false, [](const measure::BenchRow& r) { return fmt::format("{}", r.ubatch_tokens); }},
    {"type_k", true, false, [](const measure::BenchRow& r) { return r.k_type; }},
    {"type_v", true, false, [](const measure::BenchRow& r) { return r.v_type; }},
    {"test", false, true, [](const measure::BenchRow& r) { return r.test(); }},
    {"t/s", false, true,
     [](const measure::BenchRow& r) { return fmt::format("{:.2f} ± {:.2f}", r.rate(), r.rate_deviation()); }},
    {"% copies", false, false,
     [](const measure::BenchRow& r) {
       return r.expert_cache_hit_rate < 0 ? "" : fmt::format("{:.1f}", 100 * r.expert_cache_hit_rate);
     }},
    {"tokens/step", false, false, [](const measure::BenchRow& r) { return fmt::format("{:.2f}", r.tokens_per_step); }},
    {"GB/s", false, true, [](const measure::BenchRow& r) { return fmt::format("{:.1f}", r.bytes_per_second() / 1e9); }},
    {"% roof", false, true,
     [](const measure::BenchRow& r) {
       return fmt::format("{:.1f}", 100 * r.bytes_per_second() / r.read_bytes_per_second);
     }},
    {"TFLOP/s", false, true,
     [](const measure::BenchRow& r) { return r.prompt > 0 ? fmt::format("{:.2f}", r.flops_per_second() / 1e12) : ""; },
     2},
    {"MFU %", false, true,
     [](const measure::BenchRow& r) {
       return r.prompt > 0 ? fmt::format("{:.1f}", 100 * r.flops_per_second() / r.peak_flops) : "";
     },
     3},
};

std::string column_bar(const Column& column, size_t width) {
  return column.left ? fmt::format(" {:-<{}} ", "", width) : fmt::format(" {:-<{}}:", "", width);
}

void print_rows(const std::vector<const Column*>& shown, const std::vector<measure::BenchRow>& rows) {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> texts(rows.size());
  size_t whole = 1;
  for (const Column* column : shown) {
    size_t width = core::utf8_length(column->title);
    for (size_t r = 0; r < rows.size(); ++r) {
      texts[r].push_back(column->text(rows[r]));
      width = std::max(width, core::utf8_length(texts[r].back()));
    }
    whole += width + 3;
    columns.push_back({column->title, !column->left, false, column->rank, width});
  }
  if (terminal_columns() > 0 && whole > static_cast<size_t>(terminal_columns())) return print_table(columns, texts);
  const auto line = [&](auto&& cell) {
    std::string text = "|";
    for (size_t i = 0; i < shown.size(); ++i) text += cell(i) + "|";
    fmt::print("{}\n", text);
  };
  const auto padded = [&](size_t i, const std::string& text) {
    const std::string space(columns[i].width - core::utf8_length(text), ' ');
    return columns[i].right ? " " + space + text + " " : " " + text + space + " ";
  };
  line([&](size_t i) { return padded(i, columns[i].title); });
  line([&](size_t i) { return column_bar(*shown[i], columns[i].width); });
  for (const auto& row : texts) line([&](size_t i) { return padded(i, row[i]); });
}

template <typename Value>
std::set<Value> distinct(const std::vector<measure::BenchRow>& rows, Value measure::BenchRow::*member) {
  std::set<Value> values;
  for (const measure::BenchRow& row : rows) values.insert(row.*member);
  return values;
}

Json record(const measure::BenchRow& r) {
  const auto share_of = [](double value, double whole) { return whole > 0 ? Json(value / whole) : Json(nullptr); };
  const double memory = r.datasheet ? r.datasheet->memory_bytes_per_second : 0;
  const double tensor = r.datasheet ? r.datasheet->tensor_f16_flops : 0;
  std::vector<double> rates;
  for (const double s : r.seconds) rates.push_back(static_cast<double>(r.tokens()) / s);
  Json json = {{"model", r.model},
               {"file_bytes", r.file_bytes},
               {"parameters", r.parameters},
               {"backend", r.backend},
               {"device", r.device},
               {"threads", r.threads},
               {"gpu_layers", r.gpu_layers},
               {"batch_tokens", r.batch_tokens},
               {"ubatch_tokens", r.ubatch_tokens},
               {"cache_type_k", r.k_type},
               {"cache_type_v", r.v_type},
               {"test", r.test()},
               {"prompt_tokens", r.prompt},
               {"generated_tokens", r.generated},
               {"depth_tokens", r.depth},
               {"streams", r.streams},
               {"verified_tokens", r.verified_tokens},
               {"right_guesses_share", r.acceptance < 0 ? Json(nullptr) : Json(r.acceptance)},
               {"draft_heads_guess", !r.draft_heads.empty()},
               {"tokens_per_step", r.tokens_per_step},
               {"experts_found_share", r.expert_cache_hit_rate < 0 ? Json(nullptr) : Json(r.expert_cache_hit_rate)},
               {"repetitions", r.seconds.size()},
               {"seconds", r.seconds},
               {"tokens_per_second", r.rate()},
               {"tokens_per_second_deviation", r.rate_deviation()},
               {"bytes", r.bytes},
               {"bytes_per_second", r.bytes_per_second()},
               {"read_bytes_per_second_measured", r.read_bytes_per_second},
               {"read_bytes_per_second_datasheet", memory > 0 ? Json(memory) : Json(nullptr)},
               {"share_of_measured_read", share_of(r.bytes_per_second(), r.read_bytes_per_second)},
               {"share_of_datasheet_read", share_of(r.bytes_per_second(), memory)},
               {"flops", r.flops},
               {"flops_per_second", r.flops_per_second()},
               {"peak", r.peak_name},
               {"peak_flops_per_second_measured", r.peak_flops},
               {"peak_flops_per_second_datasheet", tensor > 0 ? Json(tensor) : Json(nullptr)},
               {"mfu_measured", share_of(r.flops_per_second(), r.peak_flops)},
               {"mfu_datasheet", share_of(r.flops_per_second(), tensor)}};
  if (r.profile) json["profile"] = measure::profile_json(*r.profile);
  return json;
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_array()) return '"' + fmt::format("{}", fmt::join(value.get<std::vector<double>>(), " ")) + '"';
  if (!value.is_string()) return value.dump();
  std::string quoted = "\"";
  for (const char c : value.get<std::string>()) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

} // namespace

void print_bench_markdown(const std::vector<measure::BenchRow>& rows) {
  std::vector<const Column*> shown;
  for (const Column& column : kColumns) {
    std::set<std::string> values;
    for (const measure::BenchRow& row : rows) values.insert(column.text(row));
    if (column.always || values.size() > 1) shown.push_back(&column);
  }
  print_rows(shown, rows);
  fmt::print("\n{}\n", fmt::join(distinct(rows, &measure::BenchRow::device), "; "));
  fmt::print("t/s: median of {} ± standard deviation; ridge {} ({})\n", rows[0].seconds.size(), RIDGE_VERSION,
             engine::kCommit);
  double least = rows[0].read_bytes_per_second, most = least;
  for (const measure::BenchRow& row : rows) {
    least = std::min(least, row.read_bytes_per_second);
    most = std::max(most, row.read_bytes_per_second);
  }
  const measure::BenchRow& r = rows[0];
  const auto or_unknown = [](double value, const char* unit) {
    return value > 0 ? fmt::format("{:.5g} {}", value, unit) : std::string("unknown");
  };
  fmt::print("roof: memory reads measured next to each test, {:.1f} to {:.1f} GB/s (datasheet: {})\n", least / 1e9,
             most / 1e9, or_unknown(r.datasheet ? r.datasheet->memory_bytes_per_second / 1e9 : 0, "GB/s"));
  if (std::ranges::any_of(rows, [](const measure::BenchRow& row) { return row.prompt > 0; }))
    fmt::print("MFU: share of {} measured, {:.2f} TFLOP/s (datasheet: {})\n", r.peak_name, r.peak_flops / 1e12,
               or_unknown(r.datasheet ? r.datasheet->tensor_f16_flops / 1e12 : 0, "TFLOP/s"));
  for (const measure::BenchRow& row : rows)
    if (row.profile) fmt::print("\n{} {}: {}", row.model, row.test(), measure::profile_table(*row.profile));
}

void print_bench_csv(const std::vector<measure::BenchRow>& rows) {
  std::vector<std::string> names = {"commit", "gpu", "cpu", "driver"};
  const Json machine = engine::machine_json(), gpu = machine["gpu"];
  const std::vector<Json> constants = {machine["commit"], gpu.is_null() ? Json(nullptr) : gpu["name"],
                                       machine["cpu"]["name"], gpu.is_null() ? Json(nullptr) : gpu["driver"]};
  const Json first = record(rows[0]);
  for (const auto& [key, value] : first.items())
    if (!value.is_object()) names.push_back(key);
  fmt::print("{}\n", fmt::join(names, ","));
  for (const measure::BenchRow& row : rows) {
    std::vector<std::string> fields;
    for (const Json& value : constants) fields.push_back(csv_field(value));
    const Json fields_of_row = record(row);
    for (const auto& [key, value] : fields_of_row.items())
      if (!value.is_object()) fields.push_back(csv_field(value));
    fmt::print("{}\n", fmt::join(fields, ","));
  }
}

void print_bench_json(const std::vector<measure::BenchRow>& rows) {
  Json tests = Json::array();
  for (const measure::BenchRow& row : rows) tests.push_back(record(row));
  print_report("bench", {{"tests", tests}});
}

void print_bench_json_line(const measure::BenchRow& row) { print_report("bench", record(row), -1); }

namespace {

std::string share_text(double value, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * value / whole) : "";
}

// Shortened, since the full name may reveal too much.
std::string system_name(const std::string& os) {
  const std::string name = os.substr(0, os.find(' '));
  return os.find("microsoft") != std::string::npos ? name + " (WSL)" : name;
}

std::string machine_text(const Json& machine) {
  const Json &cpu = machine["cpu"], &gpu = machine["gpu"];
  std::string text;
  if (!gpu.is_null())
    text = fmt::format("{} ({}, driver {}), ", gpu["name"].get<std::string>(),
                       core::human_bytes(gpu["memory_bytes"].get<double>()), gpu["driver"].get<std::string>());
  return text + fmt::format("{} ({} cores, {}), {} of memory, {}", cpu["name"].get<std::string>(),
                            cpu["cores"].get<int>(), cpu["instruction_set"].get<std::string>(),
                            core::human_bytes(cpu["memory_bytes"].get<double>()),
                            system_name(machine["os"].get<std::string>()));
}

std::string settings_of(const measure::BenchRow& row) {
  std::string text = row.backend == "CUDA" ? "" : fmt::format("{} threads, ", row.threads);
  if (row.backend == "CUDA+CPU") text += fmt::format("{} layers on the GPU, ", row.gpu_layers);
  return text + fmt::format("KV cache {} and {}", row.k_type, row.v_type);
}

} // namespace

std::string bench_as_shared(const std::vector<measure::BenchRow>& rows) {
  const Json machine = engine::machine_json();
  const measure::BenchRow& first = rows.at(0);
  std::vector<std::string> models, settings;
  std::string table =
      "| model | backend | test | tok/s | ± | GB/s | of measured reads | of the datasheet's | TFLOP/s |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  double least = first.read_bytes_per_second, most = least;
  for (const measure::BenchRow& row : rows) {
    const std::string model = fmt::format("{} ({})", row.model, core::human_bytes(static_cast<double>(row.file_bytes)));
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
    if (std::ranges::find(settings, settings_of(row)) == settings.end()) settings.push_back(settings_of(row));
    least = std::min(least, row.read_bytes_per_second);
    most = std::max(most, row.read_bytes_per_second);
    table += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} | {} | {} |\n", row.model, row.backend,
                         row.test(), row.rate(), row.rate_deviation(), row.bytes_per_second() / 1e9,
                         share_text(row.bytes_per_second(), row.read_bytes_per_second),
                         share_text(row.bytes_per_second(), row.datasheet ? row.datasheet->memory_bytes_per_second : 0),
                         row.prompt > 0 ? fmt::format("{:.2f}", row.flops_per_second() / 1e12) : "");
  }
  const bool gpu = first.backend != "CPU" && !machine["gpu"].is_null();
  const std::string title = gpu ? machine["gpu"]["name"].get<std::string>() : machine["cpu"]["name"].get<std::string>();
  return fmt::format("### {}\n\n{}\n- machine: {}\n- models: {}\n- settings: {}\n- memory reads measured next to the "
                     "tests: {:.1f} to {:.1f} GB/s; median of {} repetitions\n- build: ridge {} ({})\n",
                     title, table, machine_text(machine), fmt::join(models, ", "), fmt::join(settings, "; "),
                     least / 1e9, most / 1e9, first.seconds.size(), RIDGE_VERSION, engine::kCommit);
}

} // namespace ridge::app
