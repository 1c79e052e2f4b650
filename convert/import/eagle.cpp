#include "convert/import/eagle.h"

#include "core/error.h"
#include "gguf/gguf.h"
#include "models/file/hparams.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

namespace ridge::convert::import {
namespace {

constexpr int64_t kRows = 3;

// Numbers of layers whose inputs the head reads.
std::vector<uint32_t> layers_of(const Config& config) {
  const Fields fields = config.fields();
  const auto read = [&](const Fields& from, int64_t shift) {
    std::vector<uint32_t> layers;
    const Json* list = from.find("eagle_aux_hidden_state_layer_ids");
    if (!list || !list->is_array() || list->empty()) return layers;
    for (const Json& layer : *list)
      if (layer.is_number_integer() && layer >= 0 && layer < models::kMaxLayers)
        layers.push_back(static_cast<uint32_t>(layer.get<int64_t>() + shift));
    if (std::ssize(layers) != kRows || list->size() != layers.size())
      throw_error("{}: expected the numbers of {} layers", from.where("eagle_aux_hidden_state_layer_ids"), kRows);
    return layers;
  };
  // Speculators count what goes into a layer, SpecForge and ModelOpt what comes out.
  if (std::vector<uint32_t> layers = read(fields, 0); !layers.empty()) return layers;
  const Json* own = fields.find("eagle_config");
  return own && own->is_object() ? read(Fields(*own, fields.where("eagle_config")), 1) : std::vector<uint32_t>();
}

int64_t count_layers(const std::string& base) {
  if (!std::filesystem::is_directory(base)) {
    const gguf::File file = gguf::File::open(base);
    return models::Hparams(file).layers();
  }
  JsonFiles files(base);
  gguf::Metadata unused;
  return read_config(files, unused).layers;
}

} // namespace

void read_eagle_target(const Config& config, const gguf::Safetensors& tensors, const std::string& base,
                       gguf::Metadata& metadata) {
  std::vector<uint32_t> layers = layers_of(config);
  if (layers.empty()) {
    if (base.empty())
      throw_error(
          "{}: does not say which layers of the model the head reads; name the model, a checkpoint's folder or a "
          "GGUF file, with --base",
          config.path);
    const int64_t count = count_layers(base);
    constexpr int64_t kFewest = 5;
    if (count < kFewest) throw_error("{}: has {} layers, a head reads three of {} or more", base, count, kFewest);
    for (const int64_t layer : {int64_t{2}, count / 2, count - 3}) layers.push_back(static_cast<uint32_t>(layer));
  }
  const gguf::SafeTensor* fc = tensors.find("fc.weight");
  if (!fc || fc->shape.size() != 2 || fc->shape[1] % kRows != 0)
    throw_error("{}: tensor fc.weight is missing or does not join {} rows: no EAGLE-3 head", config.path, kRows);
  metadata.set("eagle3.target_layers", layers);
  metadata.set("eagle3.target_hidden_size", static_cast<uint32_t>(fc->shape[1] / kRows));
}

Output draft_vocabulary(const gguf::SafeTensor& tensor, const std::string& path, int64_t vocab) {
  const bool wide = tensor.dtype == gguf::Dtype::I64;
  if ((!wide && tensor.dtype != gguf::Dtype::I32) || tensor.shape.size() != 1)
    throw_error("{}: tensor {}: expected a list of integers", path, tensor.name);
  std::vector<int64_t> tokens(tensor.elements());
  std::set<int64_t> seen;
  for (int64_t i = 0; i < std::ssize(tokens); ++i) {
    int32_t narrow = 0;
    if (wide)
      std::memcpy(&tokens[i], tensor.data.data() + i * sizeof(int64_t), sizeof(int64_t));
    else
      std::memcpy(&narrow, tensor.data.data() + i * sizeof narrow, sizeof narrow);
    const int64_t step = wide ? tokens[i] : narrow;
    tokens[i] = step >= -i && step < vocab - i ? i + step : -1;
    if (tokens[i] < 0 || !seen.insert(tokens[i]).second)
      throw_error("{}: tensor {}: entry {} is {}, expected each of the model's {} tokens once at most", path,
                  tensor.name, i, step, vocab);
  }
  return {{tensor.name, gguf::PlainType::I64, {std::ssize(tokens)}},
          [tokens](const Sink& sink) { sink(std::as_bytes(std::span(tokens))); },
          {&tensor}};
}

StandIn stand_in_for_target(const Config& config, const gguf::Metadata& head) {
  const gguf::OwnedValue* own = head.find("eagle3.target_hidden_size");
  const int64_t width = own ? *own->view().as_int() : config.width;
  StandIn model;
  model.metadata.set("general.architecture", "llama");
  model.metadata.set("llama.block_count", uint32_t{1});
  model.metadata.set("llama.embedding_length", static_cast<uint32_t>(width));
  for (const char* name : {"token_embd.weight", "output.weight"})
    model.shapes.push_back({name, quant::Type::F16, {width, config.vocab}});
  return model;
}

} // namespace ridge::convert::import
