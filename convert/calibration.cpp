#include "convert/calibration.h"

#include "core/error.h"
#include "core/sampler.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace ridge::convert {

std::vector<std::vector<int32_t>> calibration_chunks(const text::Tokenizer& tokenizer, std::string_view text,
                                                     bool parse_special, int64_t chunk_tokens, int64_t max_chunks) {
  const std::vector<int32_t> tokens = tokenizer.encode(text, {.parse_special = parse_special});
  const bool bos = tokenizer.add_bos() && tokenizer.bos() >= 0;
  const int64_t fresh = chunk_tokens - (bos ? 1 : 0);
  std::vector<std::vector<int32_t>> chunks;
  for (int64_t at = 0; at + fresh <= std::ssize(tokens) && std::ssize(chunks) < max_chunks; at += fresh) {
    std::vector<int32_t>& chunk = chunks.emplace_back();
    if (bos) chunk.push_back(tokenizer.bos());
    chunk.insert(chunk.end(), tokens.begin() + at, tokens.begin() + at + fresh);
  }
  if (chunks.empty())
    throw_error("the text has {} tokens, but at least one chunk of {} is needed; give more text or smaller chunks",
                tokens.size(), chunk_tokens);
  return chunks;
}

std::vector<std::vector<int32_t>> sample_text(const gguf::File& file, const core::Program& program,
                                              const core::MakeExecutor& make_executor, int threads) {
  constexpr int64_t kChunks = 8, kTokens = 256; // one token per chunk and step
  const int64_t length = std::min(kTokens, program.trained_context);
  core::ExecutorConfig config;
  config.context = length;
  config.streams = config.max_batch = config.max_outputs = kChunks;
  config.threads = threads;
  const auto executor = make_executor(program, config);
  const int64_t bos = file.get_int("tokenizer.ggml.bos_token_id", -1);
  std::vector<core::Sampler> samplers;
  std::vector<int32_t> tokens, positions(kChunks), streams(kChunks);
  std::iota(streams.begin(), streams.end(), 0);
  std::mt19937 random(1);
  for (int64_t i = 0; i < kChunks; ++i) {
    core::SamplerParams params;
    params.temp = 1;
    params.top_k = 0;
    params.top_p = 1;
    params.min_p = 0;
    params.seed = i;
    samplers.emplace_back(params, program.vocab);
    tokens.push_back(static_cast<int32_t>(bos >= 0 && bos < program.vocab ? bos : random() % program.vocab));
  }
  std::vector<std::vector<int32_t>> chunks(kChunks);
  for (int64_t at = 0;; ++at) {
    for (int64_t i = 0; i < kChunks; ++i) chunks[i].push_back(tokens[i]);
    if (at + 1 == length) return chunks;
    std::ranges::fill(positions, static_cast<int32_t>(at));
    executor->forward({tokens, positions, streams, streams});
    for (int64_t i = 0; i < kChunks; ++i) tokens[i] = samplers[i].sample(executor->logits(i));
  }
}

void run_chunk(core::Executor& executor, std::span<const int32_t> tokens,
               const std::function<void(int64_t, std::span<const float>)>& logits) {
  std::vector<int32_t> positions(tokens.size()), outputs(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), 0);
  const int64_t step = std::min(executor.config().max_batch, executor.config().max_outputs);
  for (int64_t at = 0; at < std::ssize(tokens); at += step) {
    const int64_t count = std::min(step, std::ssize(tokens) - at);
    executor.forward(
        {tokens.subspan(at, count), std::span(positions).subspan(at, count), {}, std::span(outputs).first(count)});
    for (int64_t i = 0; logits && i < count; ++i) logits(at + i, executor.logits(i));
  }
}

ImatrixCollector::ImatrixCollector(const core::Program& program, bool output)
    : program_(program), by_op_(program.ops.size()) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const core::Op& op = program.ops[i];
    if (op.kind != core::OpKind::linear && op.kind != core::OpKind::expert_linear) continue;
    if (op.outputs[0] == program.logits && !output) continue;
    const core::Weight& weight = program.weights[op.weights[0]];
    by_op_[i] = {&weight, std::vector<double>(static_cast<size_t>(weight.count * weight.cols)),
                 std::vector<double>(static_cast<size_t>(weight.count))};
    for (const core::Op& earlier : program.ops)
      if (earlier.kind == core::OpKind::permute && earlier.outputs[0] == op.inputs[0])
        by_op_[i].order = &program.weights[earlier.weights[0]];
  }
}

void ImatrixCollector::observe(const core::Op& op, int64_t matrix, std::span<const float* const> rows) {
  Sums& sums = by_op_[static_cast<size_t>(&op - program_.ops.data())];
  if (!sums.weight) return;
  const int64_t cols = sums.weight->cols;
  double* squares = sums.squares.data() + matrix * cols;
  // Parallel only under the CUDA executor: the CPU executor calls this within its parallel region.
  constexpr int64_t kPiece = 128;
#pragma omp parallel for schedule(static) if (std::ssize(rows) > 16)
  for (int64_t first = 0; first < cols; first += kPiece)
    for (const float* x : rows)
#pragma omp simd
      for (int64_t i = first; i < std::min(cols, first + kPiece); ++i) squares[i] += static_cast<double>(x[i]) * x[i];
  sums.counts[static_cast<size_t>(matrix)] += static_cast<double>(rows.size());
}

gguf::Imatrix ImatrixCollector::result() const {
  gguf::Imatrix imatrix;
  for (const Sums& sums : by_op_) {
    if (!sums.weight) continue;
    gguf::Imatrix::Entry& entry = imatrix.entries[sums.weight->name];
    entry = {{sums.squares.begin(), sums.squares.end()}, {sums.counts.begin(), sums.counts.end()}};
    if (!sums.order) continue;
    for (int64_t i = 0; i < sums.weight->cols; ++i) {
      int32_t column;
      std::memcpy(&column, sums.order->data + i * static_cast<int64_t>(sizeof column), sizeof column);
      entry.sum_of_squares[static_cast<size_t>(column)] = static_cast<float>(sums.squares[static_cast<size_t>(i)]);
    }
  }
  return imatrix;
}

} // namespace ridge::convert
