#include "convert/import/encoders/fields.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/file/hparams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::Kind, models::vision::Media;

constexpr int64_t kMaxOfAKey = 1 << 28;

constexpr auto kOfPictures = std::to_array<FieldRule>({
    {"embedding_length", Kind::count, "vision_config.hidden_size"},
    {"feed_forward_length", Kind::count, "vision_config.intermediate_size"},
    {"block_count", Kind::count, "vision_config.num_hidden_layers | vision_config.depth"},
    {"attention.head_count", Kind::count, "vision_config.num_attention_heads | vision_config.num_heads"},
    {"patch_size", Kind::count, "vision_config.patch_size.0 | vision_config.patch_size"},
});
constexpr auto kOfSounds = std::to_array<FieldRule>({
    {"embedding_length", Kind::count, "audio_config.d_model | audio_config.hidden_size"},
    {"feed_forward_length", Kind::count, "audio_config.encoder_ffn_dim | audio_config.intermediate_size"},
    {"block_count", Kind::count, "audio_config.encoder_layers | audio_config.num_hidden_layers"},
    {"attention.head_count", Kind::count, "audio_config.encoder_attention_heads | audio_config.num_attention_heads"},
    {"num_mel_bins", Kind::count, "audio_config.num_mel_bins"},
});
constexpr std::string_view kPatch = "vision_config.patch_size",
                           kEpsilon = "vision_config.layer_norm_eps | vision_config.rms_norm_eps";
constexpr FieldRule kImageSize = {"image_size", Kind::count, "vision_config.image_size.0 | vision_config.image_size"};

void write_field(EncoderFields& fields, const FieldRule& rule, bool required) {
  if (fields.has(rule.key) || (!required && !rule.absent && !fields.number(rule.fields))) return;
  if (rule.kind == Kind::real)
    return fields.set(rule.key, static_cast<float>(fields.number(rule.fields).value_or(rule.absent.value_or(0))));
  const auto absent = rule.absent ? std::optional(static_cast<int64_t>(*rule.absent)) : std::nullopt;
  fields.set_count(rule.key, fields.count(rule.fields, 0, kMaxOfAKey, absent));
}

// For pictures, neither clip.use_gelu nor clip.use_silu: quick GELU. Encoders of sound have only the usual one.
void write_activation(const EncoderFamily& family, const EncoderFields& fields, gguf::Metadata& metadata) {
  std::string name(family.activation);
  std::string_view field = "hidden_act";
  for (const std::string_view key : {"hidden_activation", "hidden_act", "activation_function"})
    if (const auto found = fields.word(key)) {
      name = *found;
      field = key;
    }
  const bool of_pictures = family.media == Media::picture;
  if (of_pictures && name.starts_with("gelu"))
    metadata.set("clip.use_gelu", true);
  else if (of_pictures && (name == "silu" || name == "swish"))
    metadata.set("clip.use_silu", true);
  else if (name != (of_pictures ? "quick_gelu" : family.activation))
    throw_error("{}: {}: this variant is not supported yet", fields.where(fmt::format("{}.{}", family.section, field)),
                core::printable(name));
}

std::array<float, 3> colors(const Fields& preprocessor, const char* key, const std::array<float, 3>& otherwise) {
  const Json* list = preprocessor.find(key);
  if (!list) return otherwise;
  std::array<float, 3> made = {};
  const bool three = list->is_array() && list->size() == 3 &&
                     std::ranges::all_of(*list, [](const Json& number) { return number.is_number(); });
  if (!three) throw_error("{}: expected three values", preprocessor.where(key));
  for (size_t i = 0; i < made.size(); ++i) made[i] = (*list)[i].get<float>();
  return made;
}

void write_colors(const EncoderFamily& family, const Fields& preprocessor, EncoderFields& fields) {
  constexpr double kUsualScale = 1.0 / 255;
  const double scale = preprocessor.get_number("rescale_factor", kUsualScale);
  if (!preprocessor.get_bool("do_rescale", true) || std::abs(scale / kUsualScale - 1) > 1e-4)
    throw_error("{}: is not 1/255: this variant is not supported yet", preprocessor.where("rescale_factor"));
  std::array<float, 3> mean = {}, deviation = {1, 1, 1};
  if (preprocessor.get_bool("do_normalize", true)) {
    mean = colors(preprocessor, "image_mean", family.mean);
    deviation = colors(preprocessor, "image_std", family.deviation);
  }
  if (std::ranges::any_of(deviation, [](float each) { return !(each > 0); }))
    throw_error("{}: expected numbers above 0", preprocessor.where("image_std"));
  fields.set("image_mean", std::vector<float>(mean.begin(), mean.end()));
  fields.set("image_std", std::vector<float>(deviation.begin(), deviation.end()));
}

// Newer writers nest it in another file. Returns it with its path for messages.
std::pair<Json, std::string> find_preprocessor(JsonFiles& files) {
  if (const Json& own = files.get("preprocessor_config.json"); own.is_object())
    return {own, files.path("preprocessor_config.json")};
  const std::string path = files.path("processor_config.json");
  if (const Json& all = files.get("processor_config.json"); all.is_object())
    if (const Json* own = Fields(all, path).find("image_processor"); own && own->is_object())
      return {*own, path + ": image_processor"};
  return {Json::object(), files.path("preprocessor_config.json")};
}

void check_layers(const EncoderFamily& family, const EncoderFields& fields) {
  if (family.layer.empty()) return;
  if (const int64_t layers = fields.written("block_count"); layers < 1 || layers > models::kMaxLayers)
    throw_error("{}: has {} layers, expected 1 to {}", fields.where(family.section), layers, models::kMaxLayers);
}

void read_picture(const EncoderFamily& family, const Fields& preprocessor, EncoderFields& fields) {
  for (const FieldRule& rule : kOfPictures) write_field(fields, rule, true);
  fields.set("attention.layer_norm_epsilon", static_cast<float>(fields.number(kEpsilon).value_or(family.epsilon)));
  check_layers(family, fields);
  if (fields.written("patch_size") < 1) throw_error("{}: is 0", fields.where(kPatch));
  if (family.more) family.more(fields);
  write_field(fields, kImageSize, true);
  write_colors(family, preprocessor, fields);
}

void read_sound(const EncoderFamily& family, EncoderFields& fields) {
  for (const FieldRule& rule : kOfSounds) write_field(fields, rule, true);
  check_layers(family, fields);
  fields.set("attention.layer_norm_epsilon", static_cast<float>(family.epsilon));
  if (family.more) family.more(fields);
}

} // namespace

EncoderFields::EncoderFields(const EncoderFamily& family, const Config& config, const Json& preprocessor,
                             gguf::Metadata& metadata)
    : family_(family), config_(config), metadata_(metadata) {
  Json document = *config.document;
  document["preprocessor"] = preprocessor;
  config_.document = std::make_shared<const Json>(std::move(document));
}

int64_t EncoderFields::count(std::string_view expression, int64_t low, int64_t high,
                             std::optional<int64_t> absent) const {
  const std::optional<double> found = number(expression);
  if (!found && !absent) throw_error("{}: is missing", where(expression));
  const double value = found.value_or(static_cast<double>(absent.value_or(0)));
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high) && value == std::floor(value)))
    throw_error("{}: is {}, expected an integer of {} to {}", where(expression), value, low, high);
  return static_cast<int64_t>(value);
}

const Json* EncoderFields::find(std::string_view key) const {
  return Fields(config_.document->at(family_.section), where(family_.section)).find(key);
}

std::optional<std::string> EncoderFields::word(std::string_view key) const {
  return Fields(config_.document->at(family_.section), where(family_.section)).find_string(key);
}

void EncoderFields::require_word(std::string_view field, std::string_view word, std::string_view absent) const {
  const std::string found = config_.fields().find_string(field).value_or(std::string(absent));
  if (found != word)
    throw_error("{}: is {}, not {}: this variant is not supported yet", where(field), core::printable(found), word);
}

std::vector<int64_t> EncoderFields::layers_of(std::string_view key) const {
  const Json* list = find(key);
  const int64_t layers = written("block_count");
  std::vector<int64_t> found;
  if (!list) return found;
  const auto refuse = [&] {
    throw_error("{}: expected a list of layers from 0 to {}", where(fmt::format("{}.{}", family_.section, key)),
                layers - 1);
  };
  if (!list->is_array() || std::ssize(*list) > layers) refuse();
  for (const Json& layer : *list) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() >= static_cast<uint64_t>(layers)) refuse();
    found.push_back(layer.get<int64_t>());
  }
  return found;
}

std::string EncoderFields::in_file(std::string_view key) const {
  return fmt::format("clip.{}.{}", family_.media == Media::picture ? "vision" : "audio", key);
}

void EncoderFields::set(std::string_view key, gguf::OwnedValue value) {
  if (!has(key)) metadata_.set(in_file(key), std::move(value));
}

bool EncoderFields::has(std::string_view key) const { return metadata_.find(in_file(key)) != nullptr; }

int64_t EncoderFields::written(std::string_view key) const {
  const gguf::OwnedValue* value = metadata_.find(in_file(key));
  return value ? value->view().as_int().value_or(0) : 0;
}

EncoderFields read_encoder_fields(const EncoderFamily& family, const Config& config, JsonFiles& files, bool is_alone,
                                  gguf::Metadata& metadata, std::vector<std::string>& notes) {
  const bool of_pictures = family.media == Media::picture;
  const auto [preprocessor, path] = find_preprocessor(files);
  if (of_pictures && preprocessor.empty())
    notes.push_back(fmt::format("no {}: using the usual colour scaling of such models", path));
  metadata.set("general.architecture", "clip");
  metadata.set(of_pictures ? "clip.has_vision_encoder" : "clip.has_audio_encoder", true);
  EncoderFields fields(family, config, preprocessor, metadata);
  if (is_alone)
    metadata.set("clip.projector_type", family.projector);
  else
    fields.set("projector_type", family.projector);
  for (const models::FixedField& fixed : family.fixed)
    if (const double found = fields.number(fixed.field).value_or(fixed.absent); found != fixed.value)
      throw_error("{}: is {}, not {}: this variant is not supported yet", fields.where(fixed.field), found,
                  fixed.value);
  for (const FieldRule& rule : family.fields) write_field(fields, rule, false);
  if (of_pictures)
    read_picture(family, Fields(preprocessor, path), fields);
  else
    read_sound(family, fields);
  fields.set_count("projection_dim", config.width);
  write_activation(family, fields, metadata);
  return fields;
}

} // namespace ridge::convert::import
