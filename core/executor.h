// What runs a Program. The session talks to executors only through this interface.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

// How keys and values are cached. q8_0: 32 consecutive elements of a head share an f16 scale, 34 bytes together.
enum class KvType : uint8_t { f16, f32, q8_0 };
inline constexpr int64_t kQ8Block = 32;

constexpr int64_t head_bytes(KvType type, int64_t dim) { // of one head at one position
  return type == KvType::q8_0 ? dim / kQ8Block * (kQ8Block + 2) : dim * (type == KvType::f16 ? 2 : 4);
}
constexpr double bytes_per_element(KvType type) {
  return static_cast<double>(head_bytes(type, kQ8Block)) / static_cast<double>(kQ8Block);
}

// Sees what goes into the matrices while a Program runs: what calibration collects.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // `op`, a linear or expert_linear, is about to multiply its matrix number `matrix` (0, or the expert) with `rows`,
  // each as many f32 as the matrix has columns. Comes from any thread, for several ops at once, and must not throw.
  virtual void observe(const Op& op, int64_t matrix, std::span<const float* const> rows) = 0;
};

struct ExecutorConfig {
  int64_t context = 4096; // positions per stream that the KV cache holds
  int64_t streams = 1;
  int64_t max_batch = 512;  // tokens per forward(): bounds scratch memory
  int64_t max_outputs = 64; // logits rows per forward()
  KvType k_type = KvType::f16, v_type = KvType::f16;
  int threads = 0;    // 0: all cores
  bool exact = false; // no activation quantization
  InputObserver* observer = nullptr;
};

// Throws Error where a model's heads do not fit the cache types: q8_0 wants whole blocks of 32.
void check_cache_types(const Program& program, const ExecutorConfig& config);

// Tokens to run at once. Token i of stream s at position p sees the cache of s up to and including p; positions of one
// stream are consecutive and start where its cache is to be continued (what lay behind is overwritten).
struct Batch {
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions; // same length
  std::span<const int32_t> streams;   // same length, or empty: all 0
  std::span<const int32_t> outputs;   // indices into tokens whose logits are wanted, ascending
  std::span<const float> input = {};  // Program::input, [rows, width], where the Program has one
};

class Sampler;

// How long one part of a step took that is not divided further, such as a fused kernel.
struct OpTime {
  std::vector<int32_t> ops; // what it computes: indices into Program::ops
  double seconds = 0;       // from the end of the part before to its own
  // Where an executor can tell, else 0; a part is worked on in blocks, which start while the part before ends.
  double waiting = 0;    // of `seconds`, until a block had its input, on average
  double starts = 0;     // when the first block started, after the end of the part before: mostly negative
  double ends_apart = 0; // from the first block's end to the last one's
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the batch: fills the KV cache and computes logits for batch.outputs.
  virtual void forward(const Batch& batch) = 0;
  // Logits of the i-th wanted output of the last forward(): [vocab], valid until the next forward(). Of the first part
  // of a split Program: row i of its output, rows one after another in memory.
  virtual std::span<const float> logits(int64_t i) = 0;

  // Decoding one stream without the host between its tokens, where an executor can: it chooses each token itself, as
  // `sampler` would from the same logits, and goes on with it. start_decoding() follows a forward() whose only output
  // is the token before `position`; it returns false where the host must sample (an executor that cannot at all, or
  // not with these parameters). next_token() then gives one token after the other, -1 where the logits are unusable;
  // with `ahead`, the token is already being evaluated when it returns, and logits(0) will be what follows it. Without,
  // or before anything else is asked of the executor, decoding ends. The sampler is told of nothing.
  virtual bool start_decoding(const Sampler&, int32_t /*position*/, int32_t /*stream*/) { return false; }
  virtual int32_t next_token(bool /*ahead*/) { return -1; }

  virtual const ExecutorConfig& config() const = 0;
  virtual std::string_view description() const = 0; // "CPU, 8 threads, AVX3_DL"
  virtual double memory_bytes() const = 0;          // KV cache and scratch

  // Runs the batch `repetitions` times and says how long each part takes on average, in order. With waiting times the
  // parts are those of the batch as it always runs, and add up to it; without, they are held apart, so that together
  // they take longer than forward(). Empty where an executor cannot tell.
  virtual std::vector<OpTime> profile(const Batch&, int /*repetitions*/) { return {}; }

  // Median seconds of one decoding step: one token of each of `streams` streams at `position`, with its logits.
  // Measured `repetitions` times after a warm-up, with the host's clock around forward(); an executor that runs
  // asynchronously may time its own device instead. What the cache holds from `position` on is overwritten.
  virtual double time_decode(int64_t position, int64_t streams, int repetitions);
};

} // namespace ridge::core
