// ridge inspect: content of a GGUF file. Reads tensor data only for --tensor and --compare.
#include "app/cli/cli.h"
#include "app/cli/inspect_errors.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/npy.h"
#include "app/report/report.h"
#include "app/report/table.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/natural_order.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"
#include "core/units.h"
#include "engine/loading/machine.h"
#include "engine/pictures/picture_reader.h"
#include "engine/sampling_defaults.h"
#include "gguf/gguf.h"
#include "models/adapters/adapter_file.h"
#include "models/architecture.h"
#include "models/model.h"
#include "text/chat/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownElements = 8;
constexpr size_t kShownText = 100;
constexpr size_t kWholeArray = 32;

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// `full`: long arrays, too.
Json to_json(const gguf::Value& value, bool full) {
  if (value.is_array()) {
    const bool whole = full || value.size() <= kWholeArray;
    Json elements = Json::array();
    const uint64_t shown = whole ? value.size() : kShownElements;
    for (const gguf::Value& element : value.elements()) {
      if (elements.size() == shown) break;
      elements.push_back(to_json(element, full));
    }
    if (whole) return elements;
    return {{"array_of", gguf::name_of(value.element_type())}, {"length", value.size()}, {"first", elements}};
  }
  if (value.type() == gguf::ValueType::boolean) return *value.as_bool();
  if (value.type() == gguf::ValueType::u64 && !value.as_int()) { // exceeds i64
    uint64_t number;
    std::memcpy(&number, value.payload().data(), sizeof number);
    return number;
  }
  if (const auto integer = value.as_int()) return *integer;
  if (const auto number = value.as_float())
    return value.type() == gguf::ValueType::f32 ? Json(static_cast<float>(*number)) : Json(*number);
  return std::string(*value.as_string());
}

std::string shape_text(const gguf::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims, ", "));
}

struct TypeTotal {
  int64_t tensors = 0, weights = 0;
  uint64_t bytes = 0;
};

struct InspectCommand {
  std::string path, tensor, out, as, imatrix;
  std::vector<std::string> compared;
  bool json = false, full = false;

  void run() const {
    if (!compared.empty() && (compared.size() != 2 || !path.empty()))
      throw Error("inspect: --compare needs two files, A and B", Error::kUsage);
    if (!imatrix.empty() && as.empty()) throw Error("inspect: --imatrix needs --as TYPES", Error::kUsage);
    if (!compared.empty()) return compare_files(compared[0], compared[1], json);
    if (path.empty()) throw Error("inspect: give a FILE, or two files with --compare", Error::kUsage);
    const gguf::File file = gguf::File::open(path);
    if (!as.empty() && tensor.empty()) throw Error("inspect: --as needs --tensor NAME", Error::kUsage);
    if (!as.empty()) return show_tensor_as(file, tensor, as, imatrix, json);
    if (!tensor.empty()) return show_tensor(file);
    if (!out.empty()) throw Error("inspect: --out needs --tensor NAME", Error::kUsage);
    json ? print_json(file) : print_tables(file);
  }

  std::map<std::string, TypeTotal> totals(const gguf::File& file) const {
    std::map<std::string, TypeTotal> result;
    for (const gguf::Tensor& t : file.tensors()) {
      TypeTotal& total = result[std::string(t.type.name())];
      ++total.tensors;
      total.weights += t.weights();
      total.bytes += t.data.size();
    }
    return result;
  }

  static double bits_per_weight(uint64_t bytes, int64_t weights) {
    return weights ? 8.0 * static_cast<double>(bytes) / static_cast<double>(weights) : 0;
  }

  void print_json(const gguf::File& file) const {
    Json metadata = Json::object(), tensors = Json::array(), types = Json::object();
    for (const auto& [key, value] : file.metadata()) metadata[std::string(key)] = to_json(value, full);
    uint64_t bytes = 0;
    int64_t weights = 0;
    for (const gguf::Tensor& t : file.tensors()) {
      tensors.push_back({{"name", t.name},
                         {"type", t.type.name()},
                         {"shape", std::vector(t.dims.begin(), t.dims.begin() + t.n_dims)},
                         {"weights", t.weights()},
                         {"bytes", t.data.size()},
                         {"bits_per_weight", bits_per_weight(t.data.size(), t.weights())},
                         {"file_offset_bytes", t.file_offset},
                         {"shard", t.shard}});
      bytes += t.data.size();
      weights += t.weights();
    }
    for (const auto& [name, total] : totals(file))
      types[name] = {{"tensors", total.tensors}, {"weights", total.weights}, {"bytes", total.bytes}};
    print_report("inspect", {{"file", file.path()},
                             {"version", file.version()},
                             {"alignment_bytes", file.alignment()},
                             {"shards", file.shard_count()},
                             {"file_bytes", file.size_bytes()},
                             {"label", models::model_label(file)},
                             {"weights", weights},
                             {"tensor_bytes", bytes},
                             {"bits_per_weight", bits_per_weight(bytes, weights)},
                             {"types", types},
                             {"metadata", metadata},
                             {"tensors", tensors}});
  }

  static std::string encoder_fact(const gguf::File& file) {
    try {
      const engine::Encoders encoders(file);
      std::vector<std::string> kinds;
      if (encoders.pictures)
        kinds.push_back(fmt::format("an image encoder for {}", encoders.pictures->projector().models));
      if (encoders.sounds) kinds.push_back(fmt::format("an audio encoder for {}", encoders.sounds->kind().models));
      return fmt::format("{}: pass it to run, chat or serve with --mmproj", fmt::join(kinds, ", "));
    } catch (const Error& error) {
      return fmt::format("supported: no, {}", error.what());
    }
  }

  static std::string adapter_fact(const gguf::File& file) {
    try {
      const models::AdapterFile adapter(file.with({}));
      int64_t least = INT64_MAX, most = 0;
      for (const auto& [tensor, pair] : adapter.pairs()) {
        least = std::min(least, pair.rank);
        most = std::max(most, pair.rank);
      }
      return fmt::format(
          "a LoRA adapter for {} matrices of a {} model, rank {}{}{}: pass it to run, chat or serve with --lora",
          adapter.pairs().size(), core::printable(adapter.architecture()), least,
          least == most ? "" : fmt::format(" to {}", most),
          adapter.invocation().empty() ? "" : ", active from its invocation tokens on");
    } catch (const Error& error) {
      return fmt::format("supported: no, {}", error.what());
    }
  }

  // Facts for chats, one per line.
  static std::vector<std::string> chat_facts(const gguf::File& file) {
    std::vector<std::string> facts;
    if (models::is_adapter(file)) return {adapter_fact(file)};
    const std::string_view architecture = file.get_string("general.architecture", "");
    if (architecture == "clip")
      facts.push_back(encoder_fact(file));
    else if (!models::find_architecture(architecture))
      facts.push_back("supported: no, unknown architecture (see ridge models --architectures)");
    if (file.find("tokenizer.ggml.tokens")) {
      try {
        const text::ChosenTemplate chosen = text::choose_chat_template(file);
        facts.push_back(chosen.origin.empty()
                            ? fmt::format("chat template: none; using \"{}\"", chosen.chat_template.name())
                            : fmt::format("chat template: {}", chosen.origin));
      } catch (const Error& error) {
        facts.push_back(fmt::format("chat template: {}", error.what()));
      }
    }
    api::SamplingOptions sampling;
    const auto note = [&](const std::string& line) { facts.push_back(line); };
    if (const auto recommended = engine::take_model_defaults(sampling, file, note); !recommended.empty())
      facts.push_back(fmt::format("recommended sampling: {}", fmt::join(recommended, ", ")));
    return facts;
  }

  void print_tables(const gguf::File& file) const {
    uint64_t bytes = 0;
    for (const gguf::Tensor& t : file.tensors()) bytes += t.data.size();
    const int64_t weights = models::parameter_count(file);
    fmt::print("{}: GGUF v{}, {}{}\n", file.path(), file.version(),
               core::human_bytes(static_cast<double>(file.size_bytes())),
               file.shard_count() > 1 ? fmt::format(" in {} files", file.shard_count()) : "");
    fmt::print("{}: {} weights in {} tensors, {:.2f} bits per weight\n", models::model_label(file), weights,
               file.tensors().size(), bits_per_weight(bytes, weights));
    for (const std::string& fact : chat_facts(file)) fmt::print("{}\n", fact);
    fmt::print("\n");

    size_t key_width = 0;
    for (const auto& [key, value] : file.metadata()) key_width = std::max(key_width, key.size());
    const size_t beside = key_width + 11;
    const auto columns = static_cast<size_t>(terminal_columns());
    const size_t shown_text = columns == 0 ? kShownText : columns - std::min(columns - 1, beside);
    for (const auto& [key, value] : file.metadata()) {
      const Json shown = to_json(value, full);
      std::string text = dump(shown);
      if (value.is_array() && shown.is_object())
        text = fmt::format("{} × {}: {}", value.size(), gguf::name_of(value.element_type()), dump(shown["first"]));
      if (!full && text.size() > shown_text) {
        size_t cut = shown_text;
        while (cut > 0 && core::is_utf8_continuation(text[cut])) --cut;
        text = text.substr(0, cut) + "…";
      }
      fmt::print("{:<{}}  {:<6}  {}\n", dump(std::string(key)).substr(1, dump(std::string(key)).size() - 2), key_width,
                 gguf::name_of(value.type()), text);
    }

    fmt::print("\n");
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, total] : totals(file))
      rows.push_back(
          {name, fmt::format("{}", total.tensors), fmt::format("{}", total.weights),
           core::human_bytes(static_cast<double>(total.bytes)),
           fmt::format("{:.4f}", bits_per_weight(total.bytes, total.weights)),
           fmt::format("{:.1f} %", bytes ? 100.0 * static_cast<double>(total.bytes) / static_cast<double>(bytes) : 0)});
    print_table({{"type"}, {"tensors", true}, {"weights", true}, {"size", true}, {"bpw", true}, {"share", true}}, rows);

    fmt::print("\n");
    std::vector<const gguf::Tensor*> tensors;
    for (const gguf::Tensor& t : file.tensors()) tensors.push_back(&t);
    std::ranges::sort(tensors, core::natural_less, [](const gguf::Tensor* t) { return std::string_view(t->name); });
    rows.clear();
    for (const gguf::Tensor* t : tensors)
      rows.push_back({core::printable(t->name, 300), std::string(t->type.name()), shape_text(*t),
                      core::human_bytes(static_cast<double>(t->data.size()))});
    print_table({{"tensor", false, true}, {"type"}, {"shape"}, {"size", true}}, rows);
  }

  void show_tensor(const gguf::File& file) const {
    const gguf::Tensor* t = file.find_tensor(tensor);
    if (!t)
      throw_error("{}: has no tensor '{}'; run `ridge inspect` without --tensor to list the tensors", path, tensor);
    const quant::FormatInfo* format = t->type.format();
    if (!format) throw_error("{}: tensor {} has type {}, which is not a weight type", path, tensor, t->type.name());

    std::unique_ptr<NpyWriter> npy;
    if (!out.empty()) {
      std::vector<int64_t> shape(t->dims.begin(), t->dims.begin() + t->n_dims); // NumPy: contiguous dimension last
      std::ranges::reverse(shape);
      core::check_output(out, {path});
      npy = std::make_unique<NpyWriter>(out, shape);
    }
    const int64_t cols = t->dims[0], rows = t->weights() / cols;
    std::vector<float> row(cols), first;
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    int64_t not_finite = 0;
    for (int64_t r = 0; r < rows; ++r) {
      format->decode(t->data.data() + r * format->row_bytes(cols), cols, row.data());
      if (npy) npy->append(row);
      if (r == 0) first.assign(row.begin(), row.begin() + std::min<int64_t>(cols, kShownElements));
      for (const float w : row) {
        if (!std::isfinite(w)) {
          ++not_finite;
          continue;
        }
        sum += w;
        squares += static_cast<double>(w) * w;
        low = std::min<double>(low, w);
        high = std::max<double>(high, w);
      }
    }
    if (npy) {
      file.check();
      npy->finish();
    }
    const auto count = static_cast<double>(std::max<int64_t>(1, t->weights() - not_finite));
    const double rms = std::sqrt(squares / count);
    if (json) {
      print_report("inspect", {{"name", t->name},
                               {"type", format->name},
                               {"shape", std::vector(t->dims.begin(), t->dims.begin() + t->n_dims)},
                               {"bytes", t->data.size()},
                               {"bits_per_weight", format->bits_per_weight()},
                               {"min", low},
                               {"max", high},
                               {"mean", sum / count},
                               {"rms", rms},
                               {"not_finite", not_finite},
                               {"first", first}});
    } else {
      fmt::print("{}: {} {}, {}, {:.4f} bits per weight\n", t->name, format->name, shape_text(*t),
                 core::human_bytes(static_cast<double>(t->data.size())), format->bits_per_weight());
      fmt::print("min {:.6g}  max {:.6g}  mean {:.6g}  rms {:.6g}{}\n", low, high, sum / count, rms,
                 not_finite ? fmt::format("  non-finite: {}", not_finite) : "");
      fmt::print("first: {:.6g}\n", fmt::join(first, " "));
    }
    if (npy) write_stderr(fmt::format("wrote {}\n", out));
  }
};

} // namespace

void add_inspect_command(CLI::App& app) {
  auto options = std::make_shared<InspectCommand>();
  CLI::App* command = app.add_subcommand("inspect", "show a file's metadata, tensors and sizes");
  command->add_option("file", options->path, "GGUF file (any part of a split model)")->type_name(kModelType);
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--full", options->full, "show long arrays and strings in full");
  command->add_option("--tensor", options->tensor, "decode this tensor to f32 and show its statistics")
      ->type_name("NAME");
  command->add_option("--out", options->out, "with --tensor: write it as a NumPy file")->type_name("X.npy");
  command->add_option("--as", options->as, "with --tensor: estimate the error of these types, such as Q3_K,IQ4_XS")
      ->type_name("TYPES");
  command->add_option("--imatrix", options->imatrix, "with --as: use this importance matrix for encoding")
      ->type_name("FILE");
  command->add_option("--compare", options->compared, "show the error of each tensor of A against B")
      ->type_name(kModelType)
      ->expected(2);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
