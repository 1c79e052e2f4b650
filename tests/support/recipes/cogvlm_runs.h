// CogVLM's matrices of texts and pictures: a tiny random model, and what must agree.
#pragma once

#include "core/error.h"
#include "gguf/writer.h"
#include "models/model.h"
#include "quant/encode/encode.h"
#include "support/executor_runs.h"
#include "support/numerics.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

class CogVlm {
 public:
  static constexpr int64_t kVocab = 96, kWidth = 64, kFfn = 96, kLayers = 2;

  // Matrices of pictures' feed-forward results have a type of their own. `exchanged`: texts have those of pictures.
  CogVlm(quant::Type of_pictures_down, bool exchanged) : of_pictures_down_(of_pictures_down), exchanged_(exchanged) {
    gguf::Metadata metadata;
    metadata.set("general.architecture", std::string("cogvlm"));
    metadata.set("tokenizer.ggml.model", std::string("none"));
    const auto count = [&](const char* key, int64_t value) {
      metadata.set(fmt::format("cogvlm.{}", key), static_cast<uint32_t>(value));
    };
    count("vocab_size", kVocab), count("context_length", 64), count("embedding_length", kWidth);
    count("block_count", kLayers), count("feed_forward_length", kFfn), count("attention.head_count", 2);
    metadata.set("cogvlm.attention.layer_norm_rms_epsilon", 1e-5f);
    add("token_embd", kWidth, kVocab), add("output_norm", kWidth, 1), add("output", kWidth, kVocab);
    for (int64_t il = 0; il < kLayers; ++il) {
      const std::string blk = fmt::format("blk.{}.", il);
      add(blk + "attn_norm", kWidth, 1), add(blk + "ffn_norm", kWidth, 1);
      for (const char* qkv : {"attn_qkv", "vis_attn_qkv"}) add(blk + qkv, kWidth, 3 * kWidth);
      for (const char* out : {"attn_output", "vis_attn_output"}) add(blk + out, kWidth, kWidth);
      for (const char* in : {"ffn_gate", "ffn_up", "vis_gate", "vis_up"}) add(blk + in, kWidth, kFfn);
      for (const char* down : {"ffn_down", "vis_down"}) add(blk + down, kFfn, kWidth);
    }
    auto image = std::make_shared<std::vector<std::byte>>();
    gguf::Writer writer(*image, metadata, infos_);
    for (const std::vector<std::byte>& bytes : contents_) writer.write(bytes);
    writer.finish();
    file_ = std::make_unique<gguf::File>(gguf::File::from_bytes(std::move(image), "cogvlm"));
  }

  core::Program program(models::Ending ending) const { return models::build_program(*file_, ending); }
  std::vector<float> embeddings() const { return values("token_embd.weight", kWidth * kVocab, 1); }

 private:
  static constexpr std::pair<const char*, const char*> kTwins[] = {{"attn_qkv", "vis_attn_qkv"},
                                                                   {"attn_output", "vis_attn_output"},
                                                                   {"ffn_gate", "vis_gate"},
                                                                   {"ffn_up", "vis_up"},
                                                                   {"ffn_down", "vis_down"}};
  static std::vector<float> values(const std::string& name, int64_t count, double amplitude) {
    std::mt19937 random(static_cast<uint32_t>(std::accumulate(
        name.begin(), name.end(), 7u, [](uint32_t sum, char c) { return 31 * sum + static_cast<unsigned char>(c); })));
    std::vector<float> made(count);
    for (float& v : made) v = static_cast<float>((static_cast<double>(random()) / 0x1p31 - 1) * amplitude);
    return made;
  }
  std::string origin_of(std::string name) const {
    for (const auto& [text, picture] : kTwins)
      for (int64_t il = 0; il < kLayers && exchanged_; ++il) {
        const std::string of_text = fmt::format("blk.{}.{}", il, text),
                          of_picture = fmt::format("blk.{}.{}", il, picture);
        if (name == of_text) return of_picture;
        if (name == of_picture) return of_text;
      }
    return name;
  }
  void add(const std::string& name, int64_t cols, int64_t rows) {
    const std::string origin = origin_of(name);
    const bool is_norm = rows == 1, is_own = origin.ends_with("vis_down");
    std::vector<float> made = values(origin + ".weight", cols * rows,
                                     is_norm                ? 0.3
                                     : name == "token_embd" ? 1
                                                            : 2 / std::sqrt(static_cast<double>(cols)));
    if (is_norm)
      for (float& v : made) v += 1;
    const quant::Type type = is_own ? of_pictures_down_ : quant::Type::F32;
    infos_.push_back({name + ".weight", type, is_norm ? std::vector<int64_t>{cols} : std::vector<int64_t>{cols, rows}});
    contents_.emplace_back(quant::format(type).row_bytes(cols) * rows);
    quant::encode_rows(type, made.data(), rows, cols, {}, contents_.back().data());
  }

  quant::Type of_pictures_down_;
  bool exchanged_;
  std::vector<gguf::TensorInfo> infos_;
  std::vector<std::vector<std::byte>> contents_;
  std::unique_ptr<gguf::File> file_;
};

// Logits of all tokens; those of `rows` begin with token -1. Batches end at `ends`.
inline std::vector<float> cogvlm_logits(const core::Program& program, std::span<const int32_t> tokens,
                                        std::span<const float> rows, std::vector<int64_t> ends,
                                        const core::ExecutorConfig& config, const MakeExecutor& make_executor) {
  const auto executor = make_executor(program, config);
  std::vector<float> logits;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    Steps steps;
    for (int64_t i = begin; i < end; ++i) {
      steps.tokens.push_back(tokens[i]);
      steps.positions.push_back(static_cast<int32_t>(i));
      steps.streams.push_back(0);
      steps.outputs.push_back(static_cast<int32_t>(i - begin));
    }
    core::Batch batch = steps.batch();
    if (program.has_token_coordinates) batch.rows = rows;
    executor->forward(batch);
    for (int64_t i = begin; i < end; ++i) {
      const std::span<const float> row = executor->logits(i - begin);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    begin = end;
  }
  return logits;
}

inline void check_cogvlm(core::ExecutorConfig config, double most_error, const MakeExecutor& make_executor) {
  constexpr int64_t kTokens = 24, kFirst = 5, kBehind = 17;
  config.context = config.max_batch = config.max_outputs = kTokens;
  for (const quant::Type type : {quant::Type::F32, quant::Type::Q8_0}) {
    CAPTURE(quant::format(type).name);
    const CogVlm model(type, false), exchanged(type, true);
    const core::Program whole = model.program(models::Ending::pictures),
                        of_text = model.program(models::Ending::logits),
                        of_pictures = exchanged.program(models::Ending::logits);
    std::vector<int32_t> tokens, as_rows, mixed;
    std::vector<float> rows;
    const std::vector<float> table = model.embeddings();
    for (int32_t i = 0; i < kTokens; ++i) {
      tokens.push_back((7 * i + 3) % CogVlm::kVocab);
      as_rows.push_back(-1 - i);
      mixed.push_back(i >= kFirst && i < kBehind ? -1 - i : tokens.back());
      const auto row = std::span(table).subspan(tokens.back() * CogVlm::kWidth, CogVlm::kWidth);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const auto logits = [&](const core::Program& program, std::span<const int32_t> of, std::vector<int64_t> ends) {
      return cogvlm_logits(program, of, rows, std::move(ends), config, make_executor);
    };
    CHECK(nmse(logits(whole, tokens, {kTokens}), logits(of_text, tokens, {kTokens})) < most_error);
    CHECK(nmse(logits(whole, as_rows, {kTokens}), logits(of_pictures, tokens, {kTokens})) < most_error);
    const std::vector<float> at_once = logits(whole, mixed, {kTokens});
    CHECK(nmse(logits(whole, mixed, {kFirst, kBehind, kTokens}), at_once) < most_error);
    CHECK(nmse(logits(whole, mixed, {3, 4, 9, 20, 21, kTokens}), at_once) < most_error);
    CHECK(nmse(logits(of_text, tokens, {kTokens}), at_once) > 0.01);
  }
}

} // namespace ridge::tests
