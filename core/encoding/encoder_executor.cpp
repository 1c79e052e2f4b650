#include "core/encoding/encoder_executor.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ridge::core {
namespace {

struct Text {
  std::vector<int32_t> tokens; // the encoder's
  bool is_read = false;        // encoded and in the decoder's caches
};

struct DecoderBatch {
  std::vector<int32_t> tokens, positions, streams, outputs, text_ends;

  Batch batch() const {
    return {.tokens = tokens, .positions = positions, .streams = streams, .outputs = outputs, .block_ends = text_ends};
  }
};

class EncoderExecutor final : public Executor {
 public:
  EncoderExecutor(std::unique_ptr<Executor> encoder, const Program& decoder_program, std::unique_ptr<Executor> decoder)
      : program_(decoder_program), encoder_(std::move(encoder)), decoder_(std::move(decoder)),
        texts_(static_cast<size_t>(decoder_->config().streams)) {}

  void submit(const Batch& batch, const Choosing& choosing) override {
    check(batch);
    decoder_batch_ = {};
    auto output = batch.outputs.begin();
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      const bool wanted = output != batch.outputs.end() && *output == static_cast<int32_t>(i);
      if (wanted) ++output;
      take(batch.tokens[i], batch.positions[i], batch.streams.empty() ? 0 : batch.streams[i], wanted);
    }
    if (!decoder_batch_.tokens.empty()) decoder_->submit(decoder_batch_.batch(), choosing);
  }
  std::span<const int32_t> wait() override {
    return decoder_batch_.tokens.empty() ? std::span<const int32_t>() : decoder_->wait();
  }
  std::span<const float> logits(int64_t i) override { return decoder_->logits(i); }
  bool can_choose(const SamplerParams& params) const override { return decoder_->can_choose(params); }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    const int64_t text = std::ssize(texts_[from].tokens);
    texts_[to] = texts_[from];
    if (tokens > text) return decoder_->copy_cache(from, to, std::max(text, tokens - text));
    texts_[to].tokens.resize(tokens);
    texts_[to].is_read = false;
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    decoder_->set_adapters(stream, uses); // the encoder's Program has none
  }
  const ExecutorConfig& config() const override { return decoder_->config(); }
  std::string_view description() const override { return decoder_->description(); }
  double memory_bytes() const override { return encoder_->memory_bytes() + decoder_->memory_bytes(); }
  double time_decode(int64_t position, int64_t streams, int repetitions) override {
    return decoder_->time_decode(position, streams, repetitions);
  }

 private:
  void check(const Batch& batch) const {
    Program whole;
    whole.vocab = program_.vocab;
    check_batch(whole, config(), batch);
  }

  // Text tokens wait for the encoder; later ones are the decoder's.
  void take(int32_t token, int64_t position, int32_t stream, bool wanted) {
    Text& text = texts_[stream];
    if (position > std::ssize(text.tokens) && !text.is_read)
      throw_error("stream {} continues at position {}, but its text ends at {}", stream, position, text.tokens.size());
    const bool starts = position > 0 && token == program_.start_token;
    if (position < std::ssize(text.tokens) || (position == std::ssize(text.tokens) && !starts)) {
      text.tokens.resize(position);
      text.is_read = false;
    }
    if (!text.is_read && starts) read(text, stream);
    if (!text.is_read) {
      if (wanted) throw_error("tokens read by the encoder have no logits");
      return text.tokens.push_back(token);
    }
    DecoderBatch& to = decoder_batch_;
    if (wanted) to.outputs.push_back(static_cast<int32_t>(to.tokens.size()));
    to.tokens.push_back(token);
    to.positions.push_back(static_cast<int32_t>(position - std::ssize(text.tokens)));
    to.streams.push_back(stream);
    to.text_ends.push_back(static_cast<int32_t>(text.tokens.size()));
  }

  void read(Text& text, int32_t stream) {
    std::vector<int32_t> positions(text.tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    encoder_->forward({.tokens = text.tokens, .positions = positions, .streams = {}, .outputs = {}});
    const auto count = (text.tokens.size() + block_positions(program_) - 1) / block_positions(program_);
    while (blocks_.size() < count) blocks_.push_back(encoder_->make_block());
    std::vector<std::byte*> bytes;
    for (size_t i = 0; i < count; ++i) bytes.push_back(blocks_[i].get());
    encoder_->save_blocks(0, 0, bytes);
    decoder_->load_blocks(stream, 0, std::vector<const std::byte*>(bytes.begin(), bytes.end()));
    text.is_read = true;
  }

  const Program& program_; // the decoder's
  const std::unique_ptr<Executor> encoder_, decoder_;
  std::vector<Text> texts_; // by stream
  DecoderBatch decoder_batch_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
};

bool fit_each_other(const KvLayer& a, const KvLayer& b) {
  return a.heads == b.heads && a.k_dim == b.k_dim && a.v_dim == b.v_dim;
}

} // namespace

ExecutorConfig encoder_config(ExecutorConfig config) {
  config.max_batch = config.context;
  config.streams = config.max_outputs = 1;
  return config;
}

std::unique_ptr<Executor> make_encoder_executor(const Program& encoder_program, std::unique_ptr<Executor> encoder,
                                                const Program& decoder_program, std::unique_ptr<Executor> decoder) {
  if (!std::ranges::equal(encoder_program.kv_layers, decoder_program.kv_layers, fit_each_other) ||
      encoder->block_layout().empty() || encoder->block_layout() != decoder->block_layout() ||
      encoder->block_bytes() != decoder->block_bytes())
    throw_error("the encoder's output does not fit the decoder's caches");
  return std::make_unique<EncoderExecutor>(std::move(encoder), decoder_program, std::move(decoder));
}

int64_t find_start(const Program& decoder, std::span<const int32_t> tokens) {
  for (size_t i = 1; i < tokens.size(); ++i)
    if (tokens[i] == decoder.start_token) return static_cast<int64_t>(i);
  return -1;
}

} // namespace ridge::core
