#include "convert/import/dflash.h"

#include "core/error.h"
#include "models/file/hparams.h"

#include <cmath>

namespace ridge::convert::import {
namespace {

// Layers, counted by what comes out, at equal distances from the second to the third to last one.
std::vector<int64_t> usual_layers(int64_t model_layers, int64_t count) {
  if (count == 1) return {model_layers / 2};
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < count; ++i) // halves to even, as Python's round()
    layers.push_back(std::lrint(1 + static_cast<double>(i * (model_layers - 4)) / static_cast<double>(count - 1)));
  return layers;
}

} // namespace

void read_dflash_target(const Config& config, gguf::Metadata& metadata) {
  const Fields fields = config.fields();
  const Json* inner = fields.find("dflash_config");
  const Fields own = inner && inner->is_object() ? Fields(*inner, fields.where("dflash_config")) : fields;
  const auto of = [&](const char* name) -> const Fields& { return own.find(name) ? own : fields; };

  constexpr const char *kLayers = "target_layer_ids", *kMask = "mask_token_id", *kCount = "num_target_layers";
  std::vector<int64_t> layers;
  if (const Json* list = of(kLayers).find(kLayers)) {
    if (!list->is_array() || list->empty())
      throw_error("{}: expected the numbers of layers", of(kLayers).where(kLayers));
    for (const Json& layer : *list) {
      if (!layer.is_number_integer() || layer < 0 || layer >= models::kMaxLayers)
        throw_error("{}: expected the numbers of layers", of(kLayers).where(kLayers));
      layers.push_back(layer.get<int64_t>());
    }
  } else if (fields.find(kCount)) {
    layers = usual_layers(fields.get_int(kCount, 5, models::kMaxLayers), config.layers);
  } else {
    throw_error("{}: does not say which layers of the model the head reads", fields.where(kLayers));
  }
  std::vector<uint32_t> inputs; // counted by what goes in
  for (const int64_t layer : layers) inputs.push_back(static_cast<uint32_t>(layer + 1));
  metadata.set("dflash.target_layers", inputs);
  metadata.set("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(of(kMask).get_int(kMask, 0, config.vocab - 1)));
}

} // namespace ridge::convert::import
