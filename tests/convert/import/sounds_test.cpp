// tests/cross_check/sounds_check.py compares outputs with transformers.
#include "engine/pictures/picture_reader.h"
#include "sound_checkpoints.h"

#include <cmath>
#include <cstring>

using namespace ridge;
using namespace ridge::tests;
using namespace ridge::tests::encoders;

namespace {

Floats floats_of(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  REQUIRE_MESSAGE(tensor, name);
  REQUIRE(tensor->type == quant::Type::F32);
  Floats values(tensor->weights());
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

Dims shape_of(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  REQUIRE_MESSAGE(tensor, name);
  return {tensor->dims.begin(), tensor->dims.begin() + tensor->n_dims};
}

bool has_words(const std::string& message, std::string_view part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}

int64_t tokens_of(const Encoder& e, double seconds) {
  engine::PictureReader reader(e.folder / "mmproj.gguf", {.threads = 1, .exact = true});
  CHECK(reader.row_width() == kText);
  return reader.count_tokens(media::Sound{16000, std::vector<float>(static_cast<size_t>(16000 * seconds), 0.1f)});
}

} // namespace

TEST_CASE("convert: encoders of sound of every family become files that make rows of sounds") {
  for (const auto& [projector, make] : kAllOfSound) {
    CAPTURE(projector);
    const Encoder e = make();
    CAPTURE(e.config["architectures"].dump());
    const gguf::File file = e.converted();
    const bool both = std::string_view(projector) == "gemma4a";
    CHECK(file.get_bool("clip.has_audio_encoder", false));
    CHECK(file.get_bool("clip.has_vision_encoder", false) == both);
    CHECK(file.get_string(both ? "clip.audio.projector_type" : "clip.projector_type") == projector);
    if (both) CHECK(file.get_string("clip.vision.projector_type") == "gemma4v");
    CHECK(file.get_int("clip.audio.projection_dim") == kText);
    CHECK(file.get_int("clip.audio.block_count") == 1);
    CHECK(tokens_of(e, 0.4) > 0);
  }
}

TEST_CASE("convert: kernels, positions and biases of Whisper's encoders are as readers want them") {
  const gguf::File file = qwen2_audio().converted("q8_0");
  CHECK(file.find_tensor("a.conv1d.1.weight")->type == quant::Type::F16);
  CHECK(shape_of(file, "a.conv1d.1.weight") == Dims{3, kBands, kWidth});
  CHECK(shape_of(file, "a.conv1d.2.bias") == Dims{1, kWidth});
  CHECK(shape_of(file, "a.position_embd.weight") == Dims{kWidth, kPlaces});
  CHECK(floats_of(file, "a.position_embd.weight")[kWidth + 2] == kWidth + 2);
  CHECK(!file.find_tensor("a.blk.0.attn_k.bias"));
  CHECK(!file.find("clip.audio.chunk_size"));
  CHECK(file.get_int("clip.audio.num_mel_bins") == kBands);
  CHECK(voxtral().converted().get_int("clip.audio.projector.stack_factor") == 4);
  CHECK(ultravox().converted().get_int("clip.audio.projector.stack_factor") == 8);
  const Encoder all_rows = voxtral();
  CHECK(all_rows.converted().get_int("clip.audio.projector.pool") == 1);
  CHECK(tokens_of(all_rows, 1) == 375);
}

TEST_CASE("convert: waves that a checkpoint leaves out are written") {
  for (const gguf::File& file : {qwen25_omni().converted(), qwen3_asr().converted()}) {
    const Floats table = floats_of(file, "a.position_embd.weight");
    REQUIRE(table.size() == kPlaces * kWidth);
    for (const int64_t place : {0, 1, 7, 1499})
      for (int64_t i = 0; i < kWidth / 2; ++i) {
        const double angle = static_cast<double>(place) * std::pow(10000.0, -static_cast<double>(i) / (kWidth / 2 - 1));
        CHECK(table[place * kWidth + i] == doctest::Approx(std::sin(angle)).epsilon(1e-4));
        CHECK(table[place * kWidth + kWidth / 2 + i] == doctest::Approx(std::cos(angle)).epsilon(1e-4));
      }
  }
  CHECK(shape_of(qwen3_omni().converted(), "a.conv2d.2.bias") == Dims{1, 1, 4});
}

TEST_CASE("convert: Qwen2.5-Omni's sounds have as many tokens as they are long, Qwen2-Audio's do not") {
  const Encoder omni = qwen25_omni(), audio = qwen2_audio();
  CHECK(omni.converted().get_int("clip.audio.chunk_size") == 200);
  audio.converted();
  CHECK(tokens_of(omni, 0.01) == 1);
  CHECK(tokens_of(omni, 1) == 25);
  CHECK(tokens_of(omni, 2.05) == 51); // 205 frames, 103 rows
  CHECK(tokens_of(omni, 30.01) == 750);
  CHECK(tokens_of(omni, 31) == 775);
  CHECK(tokens_of(audio, 1) == 750);
}

TEST_CASE("convert: Gemma 4's scales, norms and limits of sounds") {
  const gguf::File file = gemma4_sound().converted();
  const Floats scales = floats_of(file, "a.blk.0.per_dim_scale.weight");
  for (int i = 0; i < 4; ++i) CHECK(scales[i] == doctest::Approx(std::log(1 + std::exp(i))));
  CHECK(floats_of(file, "a.blk.0.conv_norm.weight")[3] == 0.5f);
  CHECK(floats_of(file, "a.blk.0.norm_conv.weight")[3] == 3);
  CHECK(shape_of(file, "a.blk.0.conv_dw.weight") == Dims{5, kWidth});
  CHECK(floats_of(file, "a.blk.0.attn_q.input_max") == Floats{2});
  CHECK(shape_of(file, "a.conv1d.1.weight") == Dims{3, 3, 4, 2});
  CHECK(file.get_int("clip.audio.feed_forward_length") == 4 * kWidth);
  CHECK(file.get_int("clip.audio.num_mel_bins") == 128);
  CHECK(gemma4_sound().converted("q8_0").find_tensor("a.blk.0.conv_dw.weight")->type == quant::Type::F32);
}

TEST_CASE("convert: Gemma 4 without an encoder has columns by color, positions by axis, and samples") {
  constexpr int64_t kPlaces = 40, kPixelsOfAColor = 16;
  const Encoder e = gemma4_unified();
  const gguf::File file = e.converted();
  CHECK(file.get_string("clip.vision.projector_type") == "gemma4uv");
  CHECK(file.get_string("clip.audio.projector_type") == "gemma4ua");
  CHECK(file.get_int("clip.vision.block_count") == 0);
  CHECK(file.get_int("clip.vision.projector.scale_factor") == 2);
  for (const char* name : {"v.patch_norm.1.weight", "v.patch_norm.1.bias", "v.patch_embd.weight"}) {
    CAPTURE(name);
    const Floats values = floats_of(file, name);
    CHECK(values[1] == 3);               // red of the second pixel
    CHECK(values[kPixelsOfAColor] == 1); // green of the first
  }
  CHECK(shape_of(file, "v.position_embd.weight") == Dims{kWidth, kPlaces, 2});
  const Floats places = floats_of(file, "v.position_embd.weight");
  CHECK(places[kWidth] == 2 * kWidth);       // the second place of the first axis
  CHECK(places[kPlaces * kWidth] == kWidth); // the first place of the second axis
  CHECK(tokens_of(e, 0.4) == 10);
  engine::PictureReader reader(e.folder / "mmproj.gguf", {.threads = 1, .exact = true});
  CHECK(reader.count_tokens(media::Picture(40, 40)) >= 70);
}

TEST_CASE("convert: LFM2-Audio's batch norm becomes a factor and a shift") {
  const gguf::File file = lfm2_audio().converted();
  const Floats factor = floats_of(file, "a.blk.0.conv_norm.weight"), shift = floats_of(file, "a.blk.0.conv_norm.bias");
  for (const int i : {0, 1, 5, 511}) { // weight, bias, mean and variance are i
    const double expected = i / std::sqrt(i + 1e-5);
    CHECK(factor[i] == doctest::Approx(expected));
    CHECK(shift[i] == doctest::Approx(i - i * expected));
  }
  CHECK(shape_of(file, "a.blk.0.conv_pw1.weight") == Dims{512, 1024});
  CHECK(shape_of(file, "a.conv1d.3.bias") == Dims{1, 1, 4});
}

TEST_CASE("convert: settings of encoders of sound that cannot be run are named") {
  const auto problem_of = [](Encoder e, const char* section, const char* key, Json value) {
    (*section ? e.config[section] : e.config)[key] = std::move(value);
    return e.problem();
  };
  CHECK(has_words(problem_of(qwen2_audio(), "audio_config", "activation_function", "relu"),
                  "audio_config.activation_function: relu: this variant is not supported yet"));
  CHECK(has_words(problem_of(ultravox(), "", "projector_ln_mid", false), "projector_ln_mid: is 0, not 1"));
  CHECK(has_words(problem_of(ultravox(), "", "projector_act", "gelu"), "projector_act: is gelu, not swiglu"));
  CHECK(has_words(problem_of(voxtral(), "audio_config", "intermediate_size", 12), "rows of 8 values cannot be joined"));
  CHECK(has_words(problem_of(qwen3_asr(), "audio_config", "n_window", 100), "n_window: is 100, not 50"));
  CHECK(has_words(problem_of(gemma4_sound(), "audio_config", "attention_chunk_size", 8), "is 8, not 12"));
  CHECK(has_words(problem_of(lfm2_audio(), "encoder", "d_model", 256), "d_model: is 256, not 512"));
}

TEST_CASE("convert: every tensor of an encoder of sound has its place and shape") {
  for (const auto& [projector, make] : kAllOfSound) {
    CAPTURE(projector);
    const Encoder whole = make();
    CAPTURE(whole.config["architectures"].dump());
    for (const auto& [name, entry] : whole.file.tensors) {
      const bool needed = name.ends_with(".weight") || name.ends_with(".running_mean");
      const bool of_sound = name.find("vision") == std::string::npos && name.find("bos_eos") == std::string::npos;
      if (!needed || !of_sound || entry.shape.empty()) continue;
      CAPTURE(name);
      Encoder e = make();
      e.file.tensors.erase(name);
      const std::string problem = e.problem(); // in the second case, of its bias
      CHECK((has_words(problem, "missing") || has_words(problem, "is not used")));
      Dims shape = entry.shape;
      shape.back() += 1;
      e.add(name, shape);
      CHECK(e.problem() != "");
    }
    Encoder e = make();
    for (const auto& [name, entry] : whole.file.tensors)
      if (name.find("layers.0.") != std::string::npos && name.find("vision") == std::string::npos) {
        e.add(name + "_unheard_of", {3});
        break;
      }
    CHECK(has_words(e.problem(), "unheard_of is not used"));
  }
}

TEST_CASE("convert: hostile hyperparameters of encoders of sound give one line of error, or a file that builds") {
  const std::vector<Json> values = {nullptr,        0,         -1, 1, 3, 1LL << 40, 1e300, "text", true, Json::array(),
                                    Json::object(), {1, 2, 3}, 0.3};
  for (const auto& [projector, make] : kAllOfSound) {
    if (std::string_view(projector) == "lfm2a") continue; // its tensors are large
    CAPTURE(projector);
    const Encoder whole = make();
    const bool thinks = whole.config.contains("thinker_config");
    const Json& section = thinks ? whole.config["thinker_config"]["audio_config"] : whole.config["audio_config"];
    for (const auto& [key, old] : section.items())
      for (const Json& value : values) {
        CAPTURE(key);
        CAPTURE(value.dump());
        Encoder e = make();
        (thinks ? e.config["thinker_config"] : e.config)["audio_config"][key] = value;
        e.problem();
      }
  }
  for (const Json& value : values) {
    Encoder e = qwen25_omni();
    e.config["thinker_config"] = value;
    CHECK(e.problem() != "");
  }
}
