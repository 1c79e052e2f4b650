#include "models/model.h"

#include "core/error.h"
#include "core/strings/closest.h"
#include "core/strings/printable.h"
#include "models/adapters/adapter_file.h"
#include "models/architecture.h"
#include "models/blocks/blocks.h"
#include "models/dflash.h"
#include "models/eagle.h"
#include "models/file/planar.h"
#include "models/recipes.h"

#include <algorithm>
#include <map>
#include <set>

namespace ridge::models {

namespace {

std::string count_label(int64_t parameters) {
  const auto n = static_cast<double>(parameters);
  if (n >= 9.95e9) return fmt::format("{:.0f}B", n / 1e9);
  if (n >= 1e9) return fmt::format("{:.1f}B", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.0f}M", n / 1e6);
  return fmt::format("{:.0f}K", n / 1e3);
}

core::Program build(const gguf::File& file, Ending ending, std::optional<int64_t> draft_head,
                    const gguf::File* partner = nullptr) {
  const std::string_view name = file.get_string("general.architecture");
  if (is_adapter(file))
    throw_error("{}: this is an adapter for a {} model; give the model with -m and this file with --lora", file.path(),
                core::printable(name));
  if (name == "clip")
    throw_error("{}: this is an encoder of images or audio; give the model with -m and this file with --mmproj",
                file.path());
  const Architecture* architecture = find_architecture(name);
  if (!architecture) {
    std::vector<std::string> known;
    for (const Architecture& row : architecture_table()) known.emplace_back(row.name);
    const std::string near = core::closest(name, known);
    throw_error("{}: unknown architecture '{}'{}; `ridge models --architectures` lists the supported ones", file.path(),
                core::printable(name), near.empty() ? "" : fmt::format(" (closest supported: '{}')", near));
  }
  Builder builder(file, ending, draft_head, partner);
  architecture->file.build(builder);
  core::Program program = std::move(builder).finish();
  program.label = model_label(file);
  return program;
}

} // namespace

core::Program build_program(const gguf::File& file, Ending ending) { return build(file, ending, {}); }

core::Program build_drafted(const gguf::File& model, const gguf::File& head, Ending ending) {
  return build(model, ending, {}, &head);
}

core::Program build_eagle_head(const gguf::File& head, const gguf::File& model, Ending ending) {
  return build(head, ending, {}, &model);
}

core::Program build_dflash_head(const gguf::File& head, const gguf::File& model) {
  return build(head, Ending::logits, {}, &model);
}

int64_t draft_heads(const gguf::File& file) {
  if (!find_architecture(file.get_string("general.architecture", ""))) return 0;
  const Hparams hparams(file);
  int64_t il = hparams.layers();
  const auto has_head = [&] {
    const std::string matrix = fmt::format("blk.{}.nextn.eh_proj.weight", il);
    return file.find_tensor(matrix) || PlanarWeight::find(file, matrix);
  };
  while (il < hparams.blocks() && has_head()) ++il;
  return il - hparams.layers();
}

core::Program build_draft_head(const gguf::File& file, int64_t head, Ending ending) {
  const int64_t heads = draft_heads(file);
  if (heads == 0) {
    const Hparams hparams(file);
    throw_error("{}: has no draft head (a file with one has {} and tensors blk.{}.nextn.*)", file.path(),
                hparams.key("nextn_predict_layers"), hparams.layers());
  }
  if (head < 0 || head >= heads) throw_error("{}: has {} draft heads, but no number {}", file.path(), heads, head);
  return build(file, ending, head);
}

void cut_vocabulary(core::Program& head, int64_t tokens) {
  core::Op& output = head.ops.back();
  if (tokens >= head.choices() || output.kind != core::OpKind::linear || output.weights.size() != 1) return;
  const core::WeightId whole = output.weights[0];
  const bool shared = std::ranges::any_of(
      head.ops, [&](const core::Op& op) { return &op != &output && std::ranges::count(op.weights, whole) > 0; });
  if (shared) {
    output.weights[0] = static_cast<core::WeightId>(head.weights.size());
    head.weights.push_back(head.weights[whole]);
  }
  core::Weight& part = head.weights[output.weights[0]];
  part.rows = tokens;
  part.part = fmt::format("of {} tokens", tokens);
  head.values[head.logits].width = tokens;
}

int64_t parameter_count(const gguf::File& file) {
  int64_t count = 0;
  std::set<const gguf::Tensor*> parts;
  for (const std::string& name : PlanarWeight::names(file)) {
    const auto weight = PlanarWeight::find(file, name);
    if (!weight) continue;
    count += weight->cols() * weight->rows() * weight->count();
    for (const gguf::Tensor* part : weight->tensors()) parts.insert(part);
  }
  for (const gguf::Tensor& tensor : file.tensors())
    if (!parts.contains(&tensor)) count += tensor.weights();
  return count;
}

std::string file_type_label(const gguf::File& file) {
  if (const gguf::Value* value = file.find("general.file_type"))
    if (const auto id = value->as_int())
      if (const std::string_view name = file_type_name(*id); !name.empty()) return std::string(name);
  if (file.find("ridge.quant.scheme")) return core::printable(file.get_string("ridge.quant.scheme", "?"));
  std::map<uint32_t, int64_t> weights_of_type;
  for (const gguf::Tensor& tensor : file.tensors())
    if (tensor.n_dims > 1) weights_of_type[static_cast<uint32_t>(tensor.type)] += tensor.weights();
  const quant::FormatInfo* most = nullptr;
  int64_t most_weights = 0;
  for (const auto& [type, weights] : weights_of_type) {
    if (weights <= most_weights || !quant::find_format(type)) continue;
    most = quant::find_format(type);
    most_weights = weights;
  }
  return most ? std::string(most->name) : "no weights";
}

std::string model_label(const gguf::File& file) {
  return fmt::format("{} {} {}", core::printable(file.get_string("general.architecture", "?")),
                     count_label(parameter_count(file)), file_type_label(file));
}

} // namespace ridge::models
