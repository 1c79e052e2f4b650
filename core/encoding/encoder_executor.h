// Encoder and decoder as one executor: a stream is the encoder's text, the start token (Program::start_token) and what
// follows, at consecutive positions. Logits exist from the start token on.
#pragma once

#include "core/executor.h"

#include <memory>

namespace ridge::core {

// Both executors are for the same kind of device; the encoder has encoder_config(). The start token runs the encoder
// and copies its caches to the decoder. `decoder_program` must outlive the result. Throws Error for incompatible
// caches.
std::unique_ptr<Executor> make_encoder_executor(const Program& encoder_program, std::unique_ptr<Executor> encoder,
                                                const Program& decoder_program, std::unique_ptr<Executor> decoder);

// The encoder evaluates one whole text per batch.
ExecutorConfig encoder_config(ExecutorConfig config);

// Index of the start token after at least one token, or -1.
int64_t find_start(const Program& decoder, std::span<const int32_t> tokens);

} // namespace ridge::core
