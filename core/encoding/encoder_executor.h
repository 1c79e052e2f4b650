// A model whose encoder reads a text whole and whose decoder writes behind it, as one executor. To its callers a stream
// is the text, then the decoder's start token (Program::start_token) and what follows it, at consecutive positions.
// Only tokens from the start token on have logits.
#pragma once

#include "core/executor.h"

#include <memory>

namespace ridge::core {

// Two executors of the same kind of device: the encoder's, made for encoder_config(), and the decoder's, made for
// `config`. The encoder runs when a text's start token comes, and what it keeps for the decoder is copied to the
// decoder's caches. `decoder_program` must outlive the executor. Throws Error where the caches do not fit each other.
std::unique_ptr<Executor> make_encoder_executor(const Program& encoder_program, std::unique_ptr<Executor> encoder,
                                                const Program& decoder_program, std::unique_ptr<Executor> decoder);

// How an encoder is configured: it evaluates one text at a time, whole.
ExecutorConfig encoder_config(ExecutorConfig config);

// The place of the start token in `tokens`, behind a text of a token at least; -1: there is none.
int64_t find_start(const Program& decoder, std::span<const int32_t> tokens);

} // namespace ridge::core
