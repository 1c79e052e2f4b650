#include "app/cli/choose_model.h"

#include "app/models/first_models.h"
#include "app/report/table.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "hub/local_models.h"
#include "hub/names.h"
#include "hub/pull.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <optional>

namespace ridge::app {
namespace {

constexpr size_t kLocalShown = 6;
constexpr int kMaxFound = 8;

std::string size_text(int64_t bytes) { return core::human_bytes(static_cast<double>(bytes)); }

struct Choice {
  std::string model;
  std::vector<hub::OfferedModel> types;
};

std::string room_text(const engine::Room& room) {
  double gpus = room.gpus.empty() ? room.gpu : 0;
  for (const double bytes : room.gpus) gpus += bytes;
  return gpus > 0 ? fmt::format("{} of GPU memory and {} of CPU memory are free", core::human_bytes(gpus),
                                core::human_bytes(room.cpu))
                  : fmt::format("{} of memory are free", core::human_bytes(room.cpu));
}

void list_local(std::vector<Choice>& rows) {
  std::vector<std::vector<std::string>> table;
  size_t more = 0;
  for (const hub::LocalModel& model : hub::local_models(hub::places())) {
    if (!model.whole) continue;
    if (rows.size() == kLocalShown) {
      ++more;
      continue;
    }
    rows.push_back({model.path, {}});
    table.push_back({fmt::format("{}", rows.size()), model.name, size_text(model.bytes),
                     fmt::format("{}: {}", hub::name_of(model.source), model.origin)});
  }
  if (rows.empty()) return;
  fmt::print("Models on this machine:\n");
  print_table({{"", true}, {"NAME", false, true}, {"SIZE", true}, {"FROM", false, true, 1}}, table);
  if (more > 0) fmt::print("and {} more: run `ridge models`\n", more);
  fmt::print("\n");
}

// Returns the row that an empty line chooses.
size_t list_first(std::vector<Choice>& rows, const engine::Room& room, bool numbered) {
  const FirstChoice choice = first_choice(room);
  if (choice.models.empty()) {
    fmt::print("None of the suggested models fits this machine: {}.\n", room_text(room));
    return 0;
  }
  fmt::print("Models that fit this machine ({}):\n", room_text(room));
  std::vector<std::vector<std::string>> table;
  std::vector<TableColumn> columns = {{"NAME"}, {"SIZE", true}, {"RUNS ON", false, false, 1}, {"FOR", false, true}};
  if (numbered)
    columns.insert(columns.begin(), {"", true});
  else
    columns.push_back({"MODEL"});
  for (const FirstModel* model : choice.models) {
    rows.push_back({std::string(model->reference), {}});
    std::vector<std::string>& cells = table.emplace_back();
    if (numbered) cells.push_back(fmt::format("{}", rows.size()));
    cells.emplace_back(model->name);
    cells.push_back(size_text(model->bytes));
    cells.emplace_back(words_for(runs_on(model->bytes, room)));
    cells.emplace_back(model->purpose);
    if (!numbered) cells.emplace_back(model->reference);
  }
  print_table(columns, table);
  return rows.size() - choice.models.size() + choice.best + 1;
}

std::string downloads_text(int64_t count) {
  if (count >= 1'000'000) return fmt::format("{:.1f} million downloads", static_cast<double>(count) / 1e6);
  return fmt::format("{} downloads", count);
}

std::string usual_of(const FoundModels& found, const engine::Room& room) {
  std::vector<hub::RemoteModel> fitting;
  for (const hub::OfferedModel& model : found.models)
    if (runs_on(model.bytes, room) != RunsOn::nothing) fitting.push_back({model.reference, {}});
  if (fitting.empty()) return "";
  for (hub::RemoteModel& model : fitting) { // the type is at the end of a name
    if (hub::is_gguf_file(model.name)) model.name.resize(model.name.size() - 5);
    if (const size_t colon = model.name.rfind(':'); colon != 2) model.name[colon] = '-';
  }
  const hub::RemoteModel* usual = hub::model_of_type(fitting, "");
  const auto index = usual ? usual - fitting.data() : std::ssize(fitting) - 1;
  return found.models[static_cast<size_t>(index)].reference; // fitting types are smaller and come first
}

void list_found(const std::vector<FoundModels>& all, std::vector<Choice>& rows, const engine::Room& room,
                bool numbered) {
  const int indent = numbered ? 4 : 2;
  for (const FoundModels& found : all) {
    const std::string usual = usual_of(found, room);
    std::vector<std::string> fitting, others;
    for (const hub::OfferedModel& model : found.models) {
      const bool fits = runs_on(model.bytes, room) != RunsOn::nothing;
      (fits ? fitting : others)
          .push_back(fmt::format("{}{} {}", model.reference == usual ? "*" : "",
                                 model.type.empty() ? core::printable(model.reference, 200) : model.type,
                                 size_text(model.bytes)));
    }
    rows.push_back({usual, found.models});
    const std::string head =
        fmt::format("hf:{}, {}{}", found.repository.name, downloads_text(found.repository.downloads),
                    found.repository.gated ? ", license must be accepted first" : "");
    if (numbered)
      print_row(fmt::format("{:>2}", rows.size()), indent, head);
    else
      fmt::print("{}\n", head);
    if (!fitting.empty()) print_row("", indent, fmt::format("fits: {}", fmt::join(fitting, ", ")));
    if (!others.empty()) print_row("", indent, fmt::format("too large: {}", fmt::join(others, ", ")));
    if (found.models.empty()) print_row("", indent, "no complete GGUF model visible");
  }
}

std::optional<std::string> read_answer() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  const size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, last - first + 1);
}

// "3" or "3:Q8_0" -> a value for -m. Throws Error for an unknown row.
std::optional<std::string> chosen(const std::string& line, const std::vector<Choice>& rows) {
  size_t number = 0;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number);
  const std::string rest(end, line.data() + line.size());
  if (problem != std::errc() || !(rest.empty() || rest[0] == ':')) return std::nullopt;
  if (number < 1 || number > rows.size()) throw_error("the list has no number {}", number);
  const Choice& row = rows[number - 1];
  if (rest.empty()) {
    if (row.model.empty()) throw_error("{0}: no file fits this machine; {0}:TYPE downloads one anyway", number);
    return row.model;
  }
  for (const hub::OfferedModel& model : row.types)
    if (core::lower(model.type) == core::lower(rest.substr(1))) return model.reference;
  throw_error("{} has no {}", number, core::printable(rest.substr(1), 60));
}

NextCommand chat_with(const std::string& model) { return {"chat", "-m", model}; }

bool can_ask() { return stdin_is_terminal() && stdout_is_terminal(); }

// `best`: row that an empty line chooses; 0: none.
NextCommand ask(std::vector<Choice> rows, size_t best, const engine::Room& room) {
  while (true) {
    const std::string enter = best > 0 ? fmt::format("Enter: {}; ", best) : "";
    fmt::print("\nEnter a number to chat with that model, words to search Hugging Face, or `guide` for the built-in "
               "model\n({}Ctrl-D quits): ",
               enter);
    std::fflush(stdout);
    const std::optional<std::string> line = read_answer();
    if (!line) {
      fmt::print("\n");
      return {};
    }
    if (line->empty() && best == 0) return {};
    if (*line == "guide") return {"chat"};
    try {
      if (const auto model = chosen(line->empty() ? fmt::format("{}", best) : *line, rows)) return chat_with(*model);
      if (hub::parse_reference(*line)) return chat_with(*line);
      const std::vector<FoundModels> found = search_hub(*line, kMaxFound);
      if (found.empty()) throw_error("no matching repository with GGUF files");
      rows.clear();
      best = 0;
      fmt::print("\n");
      list_found(found, rows, room, true);
    } catch (const Error& error) {
      if (error.exit_code != Error::kFailed && error.exit_code != Error::kUsage) throw;
      note(error.what());
    }
  }
}

} // namespace

NextCommand choose_first_model(bool with_local) {
  const engine::Room room = engine::free_room();
  const bool asks = can_ask();
  std::vector<Choice> rows;
  if (with_local) list_local(rows);
  const bool is_here = !rows.empty();
  const size_t recommended = list_first(rows, room, asks);
  if (asks) return ask(std::move(rows), is_here ? 1 : recommended, room);
  fmt::print("`ridge chat -m MODEL` downloads one of them and starts a chat; `ridge search WORDS` finds others.\n");
  return {};
}

std::vector<FoundModels> search_hub(const std::string& words, int most) {
  const InterruptFlag interrupt;
  Progress bar("searching Hugging Face");
  hub::PullOptions options = hub::pull_options();
  options.policy.cancel = interrupt.flag();
  hub::Connection connection(options.policy);
  std::vector<FoundModels> all;
  for (hub::FoundRepository& repository : hub::search(connection, words, most)) {
    FoundModels& found = all.emplace_back();
    found.repository = std::move(repository);
    bar.update(static_cast<int64_t>(all.size()), most);
    try {
      const std::vector<hub::RemoteFile> files =
          hub::list_files(connection, {.repository = found.repository.name}, "main");
      found.models = hub::offered_models(found.repository.name, hub::models_of(files));
    } catch (const Error&) {
      options.policy.throw_if_cancelled("the search"); // its files are not visible
    }
  }
  return all;
}

NextCommand choose_found_model(const std::vector<FoundModels>& found) {
  const engine::Room room = engine::free_room();
  std::vector<Choice> rows;
  list_found(found, rows, room, can_ask());
  return can_ask() ? ask(std::move(rows), 0, room) : NextCommand();
}

} // namespace ridge::app
