#include "convert/import/peft.h"

#include "convert/import/config/config.h"
#include "convert/import/config/names.h"
#include "convert/import/matrices/matrix.h"
#include "convert/import/matrices/rows.h"
#include "core/error.h"
#include "core/files/mapped_file.h"
#include "core/strings/printable.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "models/adapters/adapter_file.h"
#include "quant/encode/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace ridge::convert::import {
namespace {

namespace fs = std::filesystem;
using models::Change, models::Rows, models::TensorRule;

constexpr std::string_view kConfig = "adapter_config.json", kTensors = "adapter_model.safetensors",
                           kPrefix = "base_model.model.";
constexpr int64_t kMaxRank = 8192;

struct Floats {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;

  void pick_rows(const std::vector<int64_t>& order) {
    std::vector<float> picked;
    for (const int64_t row : order)
      picked.insert(picked.end(), values.begin() + row * cols, values.begin() + (row + 1) * cols);
    rows = std::ssize(order);
    values = std::move(picked);
  }
  Floats transposed() const {
    Floats other{cols, rows, std::vector<float>(values.size())};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) other.values[c * rows + r] = values[r * cols + c];
    return other;
  }
};

// A [rank, inputs], B [outputs, rank]. Token tables: an input per token.
struct Pair {
  const gguf::SafeTensor *a = nullptr, *b = nullptr;
};

struct Target {
  std::string name;
  const TensorRule* rule;
};

class PeftConversion {
 public:
  explicit PeftConversion(const api::ConvertRequest& request)
      : request_(request), files_(request.input), settings_(files_.get(kConfig), files_.path(kConfig)),
        mapped_(files_.path(kTensors)), tensors_(gguf::Safetensors::from_span(mapped_.bytes(), files_.path(kTensors))) {
  }

  ConvertReport run() {
    check_settings();
    read_base();
    find_pairs();
    for (const auto& [module, pairs] : pairs_) add_module(module, pairs);
    return write();
  }

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
    throw_error("{}: {}", settings_.where(key), why);
  }
  bool has(std::string_view key) const {
    const Json* value = settings_.find(key);
    return value && *value != false && !(value->is_structured() && value->empty());
  }

  void check_settings() {
    if (const std::string type = settings_.get_string("peft_type"); type != "LORA")
      refuse("peft_type",
             fmt::format("'{}' is not supported; only LoRA adapters can be converted", core::printable(type)));
    if (has("use_dora"))
      refuse("use_dora", "DoRA also scales whole columns of the model's matrices, which a GGUF adapter cannot express: "
                         "merge it into the model with PEFT (merge_and_unload) and convert the model");
    if (has("modules_to_save"))
      refuse("modules_to_save", "the adapter has full weights besides its low-rank matrices, which a GGUF adapter "
                                "cannot contain: merge it into the model with PEFT and convert the model");
    for (const char* key : {"layer_replication", "trainable_token_indices", "lora_bias", "target_parameters",
                            "use_qalora", "arrow_config", "use_bdlora", "kasa_config"})
      if (has(key)) refuse(key, "not supported in a GGUF adapter: merge it into the model with PEFT");
    if (const Json* bias = settings_.find("bias"); bias && *bias != "none")
      refuse("bias",
             "the adapter changes biases, which a GGUF adapter cannot express: merge it into the model with PEFT");
    if (const Json* init = settings_.find("init_lora_weights"); init && init->is_string())
      for (const char* changes : {"pissa", "olora", "corda", "loftq"})
        if (init->get<std::string>().starts_with(changes))
          refuse("init_lora_weights", fmt::format("'{}' also changes the model's own weights: first save it as a plain "
                                                  "LoRA adapter with PEFT (path_initial_model_for_weight_conversion)",
                                                  core::printable(init->get<std::string>())));
    alpha_ = settings_.get_number("lora_alpha", 8);
    if (!(alpha_ > 0 && std::isfinite(alpha_))) refuse("lora_alpha", fmt::format("is {}", alpha_));
    is_rs_ = settings_.get_bool("use_rslora", false);
    if (const Json* patterns = settings_.find("alpha_pattern")) {
      const Fields all(*patterns, settings_.where("alpha_pattern"));
      for (const auto& [pattern, unused] : patterns->items()) {
        if (pattern.find_first_of("*+?()[]|{}\\") != std::string::npos)
          refuse("alpha_pattern", fmt::format("'{}' is a regular expression; only module names are supported",
                                              core::printable(pattern)));
        alphas_[pattern] = all.get_number(pattern, alpha_);
      }
    }
  }

  void read_base() {
    std::string folder = request_.base;
    if (folder.empty()) folder = settings_.find_string("base_model_name_or_path").value_or("");
    if (folder.empty() || !fs::exists(fs::path(folder) / "config.json"))
      throw_error("{}: the base model is missing; give the folder with the config.json of {} with --base",
                  request_.input, folder.empty() ? "the base model" : core::printable(folder));
    JsonFiles files(folder);
    gguf::Metadata unused;
    config_ = read_config(files, unused);
  }

  // Groups tensors by module; experts share a name with {} as number.
  void find_pairs() {
    constexpr std::string_view kOwn = ".base_layer.weight";
    constexpr std::string_view kEnds[] = {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B"};
    for (const gguf::SafeTensor& tensor : tensors_.tensors()) {
      std::string_view name = tensor.name;
      if (name.ends_with(kOwn)) {
        notes_.push_back(fmt::format("{}, a weight of the base model, is left out", core::printable(tensor.name)));
        continue;
      }
      const auto end = std::ranges::find_if(kEnds, [&](std::string_view each) { return name.ends_with(each); });
      if (end == std::end(kEnds) || !name.starts_with(kPrefix))
        throw_error("{}: tensor {} does not belong to a plain LoRA adapter{}", tensors_.path_of(tensor),
                    core::printable(tensor.name),
                    name.find("magnitude") != std::string_view::npos ? ", but to DoRA" : "");
      if (tensor.shape.size() != 2 || tensor.elements() == 0)
        throw_error("{}: tensor {} is not a matrix", tensors_.path_of(tensor), core::printable(tensor.name));
      name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - end->size());
      const auto [module, expert] = without_expert(std::string(name));
      Pair& pair = pairs_[module][expert];
      (end->ends_with("_A") || end->ends_with("_A.weight") ? pair.a : pair.b) = &tensor;
    }
    if (pairs_.empty()) throw_error("{}: contains no adapter matrices", files_.path(kTensors));
    for (const auto& [module, pairs] : pairs_)
      for (const auto& [expert, pair] : pairs)
        if (!pair.a || !pair.b) throw_error("{}: {} has only one of its two matrices", files_.path(kTensors), module);
  }

  static std::pair<std::string, int64_t> without_expert(std::string module) {
    constexpr std::string_view kExperts = ".experts.";
    const size_t at = module.find(kExperts);
    if (at == std::string::npos) return {module, 0};
    const size_t begin = at + kExperts.size(), end = std::min(module.find('.', begin), module.size());
    int64_t expert = 0;
    const auto [read, error] = std::from_chars(module.data() + begin, module.data() + end, expert);
    if (error != std::errc() || read != module.data() + end || expert < 0) return {module, 0};
    return {module.replace(begin, end - begin, "{}"), expert};
  }

  std::vector<Target> targets_of(const std::string& module) const {
    const ModulePlace place = place_of(module);
    static constexpr TensorRule kHead{"lm_head", "output"};
    const std::string to =
        place.layer < 0 ? std::string() : fmt::format("{}blk.{}.", config_.checkpoint().stack, place.layer);
    std::vector<std::span<const TensorRule>> levels;
    for (const models::Checkpoint* rules = &config_.checkpoint(); rules; rules = rules->base)
      levels.push_back(rules->tensors);
    if (place.below == kHead.from)
      levels.emplace_back(&kHead, 1);
    else
      levels.push_back(place.layer < 0 ? model_rules() : layer_rules());
    std::vector<Target> targets;
    for (const std::span<const TensorRule> level : levels) {
      for (const TensorRule& rule : level)
        if (rule.from == place.below && config_.applies(rule.how.only)) {
          std::string name = to + std::string(rule.to);
          targets.push_back({name.ends_with(".weight") ? name : name + ".weight", &rule});
        }
      if (!targets.empty()) break;
    }
    if (targets.empty() || (place.layer >= config_.layers && place.layer >= 0))
      throw_error("{}: {} does not exist in a {} model: the adapter belongs to another model than {} describes",
                  files_.path(kTensors), core::printable(module), config_.architecture->name, config_.path);
    return targets;
  }

  double alpha_of(const std::string& module) const {
    for (const auto& [pattern, alpha] : alphas_) {
      std::string_view name = pattern;
      const bool whole = name.starts_with('^');
      if (whole) name.remove_prefix(1);
      if (name.ends_with('$')) name.remove_suffix(1);
      if (module == name || (!whole && module.ends_with("." + std::string(name)))) return alpha;
    }
    return alpha_;
  }

  Floats read(const gguf::SafeTensor& tensor) const {
    Floats matrix{tensor.shape[0], tensor.shape[1], std::vector<float>(tensor.elements())};
    read_floats(tensor, 0, tensor.elements(), matrix.values.data());
    return matrix;
  }

  void add_module(const std::string& module, const std::map<int64_t, Pair>& pairs) {
    const bool experts = module.find("{}") != std::string::npos;
    const int64_t count = experts ? config_.experts : 1;
    if (pairs.rbegin()->first >= count)
      throw_error("{}: {} has an expert {}, but the model has {}", files_.path(kTensors), module, pairs.rbegin()->first,
                  count);
    for (const Target& target : targets_of(module)) {
      const bool is_table = target.name == models::kEmbeddingTable;
      std::vector<Floats> first(count), second(count);
      int64_t rank = 0;
      for (const auto& [expert, pair] : pairs) {
        first[expert] = read(*pair.a);
        second[expert] = read(*pair.b);
        if (first[expert].rows != second[expert].cols || first[expert].rows > kMaxRank)
          throw_error("{}: the matrices of {} do not match", files_.path(kTensors), module);
        rank = std::max(rank, first[expert].rows);
        change(first[expert], second[expert], target, module, expert);
      }
      add(target.name, first, second, rank, is_table, pairs.begin()->second.a->dtype);
    }
  }

  // Transforms A and B like the target's matrix.
  void change(Floats& a, Floats& b, const Target& target, const std::string& module, int64_t expert) {
    const models::Making& how = target.rule->how;
    const double rank = static_cast<double>(a.rows);
    std::string own = module;
    if (const size_t at = own.find("{}"); at != std::string::npos) own.replace(at, 2, std::to_string(expert));
    double factor = alpha_of(own) / alpha_ * (is_rs_ ? std::sqrt(rank) : 1); // relative to alpha / rank in the file
    if (!how.scale.empty()) factor *= config_.evaluate(how.scale).value_or(1);
    if (factor != 1)
      for (float& v : b.values) v = static_cast<float>(v * factor);
    if (how.rows == Rows::mla_keys || how.rows == Rows::mla_values || how.change == Change::plus_one ||
        how.change == Change::negative_exp)
      throw_error("{}: {} is split by heads in GGUF, which low-rank matrices cannot be: merge the adapter into the "
                  "model with PEFT",
                  files_.path(kTensors), module);
    if (how.change == Change::value_head_columns)
      if (const auto order = row_order(Rows::value_heads, a.cols, config_, target.name); !order.empty()) {
        Floats columns = a.transposed();
        columns.pick_rows(order);
        a = columns.transposed();
      }
    if (how.change == Change::ssm_multipliers) {
      const auto scale = ssm_multipliers(config_);
      for (int64_t r = 0; r < b.rows; ++r)
        for (int64_t c = 0; c < b.cols; ++c) b.values[r * b.cols + c] *= scale(r);
    }
    if (const auto order = row_order(how.rows, b.rows, config_, target.name); !order.empty()) b.pick_rows(order);
  }

  // Zeros for missing experts and smaller ranks.
  void add(const std::string& name, std::vector<Floats>& first, std::vector<Floats>& second, int64_t rank,
           bool is_table, gguf::Dtype dtype) {
    const auto filled = [&](std::vector<Floats>& parts, bool by_rows, const char* suffix) {
      const auto known = std::ranges::find_if(parts, [](const Floats& part) { return !part.values.empty(); });
      const int64_t other = by_rows ? known->cols : known->rows;
      Floats all{0, by_rows ? other : rank, {}};
      for (const Floats& part : parts) {
        if (!part.values.empty() && (by_rows ? part.cols : part.rows) != other)
          throw_error("{}: {}: the experts have different shapes", files_.path(kTensors), name);
        const int64_t rows = by_rows ? rank : other;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < all.cols; ++c)
            all.values.push_back(r < part.rows && c < part.cols ? part.values[r * part.cols + c] : 0);
        all.rows += rows;
      }
      const int64_t count = std::ssize(parts);
      const int64_t rows = all.rows / count;
      std::vector<int64_t> dims = {all.cols, rows};
      if (count > 1) dims.push_back(count);
      write_later(name + suffix, std::move(dims), std::move(all), dtype);
    };
    if (!names_.insert(name).second) throw_error("{}: two modules map to {}", files_.path(kTensors), name);
    if (is_table) first[0] = first[0].transposed();
    // alpha / rank of a smaller expert differs from the file's single factor.
    for (size_t e = 0; e < first.size(); ++e)
      if (const int64_t own = is_table ? rank : first[e].rows; own > 0 && own != rank)
        for (float& v : second[e].values) v *= static_cast<float>(rank) / static_cast<float>(own);
    if (is_table) {
      filled(first, false, ".lora_a");
      filled(second, false, ".lora_b");
    } else {
      filled(first, true, ".lora_a");
      filled(second, false, ".lora_b");
    }
  }

  void write_later(std::string name, std::vector<int64_t> dims, Floats matrix, gguf::Dtype dtype) {
    quant::Type type = dtype == gguf::Dtype::F16    ? quant::Type::F16
                       : dtype == gguf::Dtype::BF16 ? quant::Type::BF16
                                                    : quant::Type::F32;
    if (const quant::FormatInfo* wanted = quant::find_format(request_.type)) type = wanted->type;
    if (matrix.cols % quant::format(type).block_weights != 0) type = quant::Type::F16;
    std::vector<std::byte> bytes(quant::format(type).row_bytes(matrix.cols) * matrix.rows);
    quant::encode_rows(type, matrix.values.data(), matrix.rows, matrix.cols, {}, bytes.data());
    infos_.push_back({std::move(name), type, std::move(dims)});
    data_.push_back(std::move(bytes));
  }

  ConvertReport write() {
    gguf::Metadata metadata;
    fs::path folder = fs::weakly_canonical(request_.input);
    if (folder.filename().empty()) folder = folder.parent_path();
    metadata.set("general.architecture", std::string(config_.architecture->name));
    metadata.set("general.type", "adapter");
    metadata.set("general.name", folder.filename().string());
    metadata.set("adapter.type", "lora");
    metadata.set("adapter.lora.alpha", static_cast<float>(alpha_));
    if (const Json* tokens = settings_.find("alora_invocation_tokens")) {
      std::vector<uint32_t> ids;
      for (const Json& token : *tokens) {
        if (!token.is_number_unsigned() || token.get<uint64_t>() > INT32_MAX)
          refuse("alora_invocation_tokens", "not a list of tokens");
        ids.push_back(token.get<uint32_t>());
      }
      if (!ids.empty()) metadata.set("adapter.alora.invocation_tokens", ids);
    }
    gguf::Writer writer(request_.output, metadata, infos_);
    for (const std::vector<std::byte>& bytes : data_) writer.write(bytes);
    tensors_.check();
    writer.finish();
    const models::AdapterFile checked = models::AdapterFile::open(request_.output);
    return {{{request_.output, std::ssize(checked.file().tensors()), static_cast<int64_t>(writer.size_bytes())}},
            notes_};
  }

  const api::ConvertRequest& request_;
  JsonFiles files_;
  const Fields settings_;
  const core::MappedFile mapped_;
  const gguf::Safetensors tensors_;
  double alpha_ = 0;
  bool is_rs_ = false;
  std::map<std::string, double> alphas_;
  Config config_;
  std::map<std::string, std::map<int64_t, Pair>> pairs_;
  std::set<std::string> names_;
  std::vector<std::string> notes_;
  std::vector<gguf::TensorInfo> infos_;
  std::vector<std::vector<std::byte>> data_;
};

} // namespace

bool is_peft_folder(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / kConfig, ignored);
}

ConvertReport convert_peft(const api::ConvertRequest& request) {
  if (request.output.empty() || !request.mmproj.empty() || request.text_only)
    throw Error("convert: for an adapter, give the output file with -o, without --mmproj and --text-only",
                Error::kUsage);
  if (!fs::exists(fs::path(request.input) / kTensors)) throw_error("{}: has no {}", request.input, kTensors);
  return PeftConversion(request).run();
}

} // namespace ridge::convert::import
