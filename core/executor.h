// The interface to whatever runs a Program: CPU, GPU or several of them.
#pragma once

#include "core/kv_type.h"
#include "core/program.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

class Communicator;

// Collects the inputs of matrix products for calibration.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // Called before `op` multiplies its matrix number `matrix` (0, or the expert) with f32 `rows`. Called from any
  // thread, concurrently. Must not throw.
  virtual void observe(const Op& op, int64_t matrix, std::span<const float* const> rows) = 0;
};

struct ExecutorConfig {
  int64_t context = 4096; // KV cache positions per stream
  int64_t streams = 1;
  int64_t max_batch = 512;  // tokens per batch; bounds scratch memory
  int64_t max_outputs = 64; // logits rows per batch
  // Every stream can be rewound by this many tokens at least: window layers keep the window, these tokens and a batch
  // (cache/rings.h).
  int64_t rewind_tokens = 256;
  KvType k_type = KvType::f16, v_type = KvType::f16;
  int threads = 0;    // 0: all cores
  bool exact = false; // no activation quantization
  bool wide = false;  // quantized activations have at least 16 bits
  // A token's logits do not depend on which others are in its batch, to the bit. Always so on the CPU.
  bool batch_invariant = false;
  InputObserver* observer = nullptr;
  Communicator* communicator = nullptr; // for one rank's share (parallel/shard.h)
};

// Whether small activation errors may become large in the logits: close scores choose experts or positions, a recurrent
// state accumulates, or attention scores are not divided by the root of their width. NMSE of such random models: up to
// 8e-2 with 8-bit activations, 2e-3 with 16 bits.
bool amplifies_errors(const Program& program);

// Throws Error if a cache type has blocks of 32 and heads are not whole ones.
void check_cache_types(const Program& program, const ExecutorConfig& config);
// Throws Error if context, streams or max_batch is below 1, max_outputs or threads below 0, any of them above 2^31 - 1,
// or check_cache_types fails. Executors check memory themselves.
void check_config(const Program& program, const ExecutorConfig& config);

// Tokens of one forward pass. Each sees its stream's cache up to its own position. Positions of a stream are
// consecutive and overwrite the cache; they start at 0 if tokens see later ones (sees_ahead).
struct Batch {
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions;
  std::span<const int32_t> streams;  // empty: all 0
  std::span<const int32_t> outputs;  // indices of tokens whose logits are wanted, ascending
  std::span<const float> input = {}; // [rows, width] of Program::input
  bool input_taken = false;          // by Executor::take_input

  // For Program::has_token_coordinates, with the fields below: embeddings [rows, row_width]; token -1 - r reads row r.
  std::span<const float> rows = {};
  // [tokens, kPlaceAxes] coordinates for rope. Empty: the positions.
  std::span<const int32_t> axes = {};
  // End of each token's block, 0: none. With AttentionParams::block_ahead a token sees its stream up to there, with
  // in_blocks only the block, whose tokens are adjacent in the batch. Empty: no blocks.
  std::span<const int32_t> block_ends = {};
};

// Whether rope uses the picture coordinate, which is 0 for text.
bool rope_uses_picture_axis(const Program& program);

// Throws Error for batches that cannot run: empty, too large, spans of different lengths, indices out of range,
// incomplete texts if tokens see later ones.
void check_batch(const Program& program, const ExecutorConfig& config, const Batch& batch);

// Throws Error if set_adapters() would.
void check_adapters(const Program& program, const ExecutorConfig& config, int32_t stream,
                    std::span<const AdapterUse> uses);

// Positions per cache block: a multiple of layers' spans and executors' tiles.
int64_t block_positions(const Program& program);

class Sampler;
struct SamplerParams;

// Experts in host memory with copies on the GPU.
struct ExpertUse {
  int64_t experts = 0, copies = 0; // per layer; experts 0: none
  int64_t on_host = 0;             // per layer; the others are in the file
  int64_t hits = 0, misses = 0;    // copies used and missed, in total
  int64_t file_reads = 0;          // misses read from the file
  double hit_rate() const { return static_cast<double>(hits) / static_cast<double>(hits + misses); }
};

// Time of one op or fused kernel.
struct OpTime {
  std::vector<int32_t> ops; // indices into Program::ops
  double seconds = 0;       // since the end of the previous part
  // 0 if not measured. Blocks may start while the previous part ends.
  double waiting = 0;     // average seconds until a block had its input
  double start_delay = 0; // first block's start after the previous end, mostly negative
  double end_spread = 0;  // last block's end after the first one's
  // Set if it only prepares the next part: "to_half".
  std::string prepares = {};
};

// Decoding of one stream without the host: the executor keeps a sampler's state and evaluates what it chooses.
enum class Chain : uint8_t {
  none,
  begin,  // with the batch's only output, by its only sampler
  resume, // by the sampler that began the chain; any other evaluation ends it. Axes continue those of the last token
};

// Which tokens an executor chooses: those that samplers would draw. Sampler states stay.
struct Choosing {
  std::span<const Sampler* const> samplers = {}; // per output; null: the host samples. Empty: no choice
  Chain chain = Chain::none;
  // How many of the last tokens are guesses, for a resumed chain whose tokens were all waited for. Outputs are the last
  // known token and the guesses; a token is chosen after that token and after each right guess.
  int64_t guesses = 0;
};
// The only token of a resumed chain's batch: the last one chosen, which the host need not know.
inline constexpr int32_t kChosenToken = std::numeric_limits<int32_t>::min();

class Executor {
 public:
  virtual ~Executor() = default;
  // Memory for `floats` elements of Program::input, fast to copy from.
  virtual std::shared_ptr<float> make_input(int64_t floats);
  // Sets Program::input of the next batch to rows `which` of the last forward() of `from`, zeros for negative ones.
  // False, without effect, if they share no memory.
  virtual bool take_input(const Executor& /*from*/, std::span<const int32_t> /*which*/) { return false; }

  // Fills the KV cache, computes logits for batch.outputs and chooses tokens from them. May return before that is done.
  // Throws like check_batch, before running anything.
  virtual void submit(const Batch& batch, const Choosing& choosing = {}) = 0;
  // Waits for the oldest batch not waited for. Returns its chosen tokens, valid until the next submit() or wait(): as
  // many as samplers, anything for null ones; -1 for unusable logits, which end the chosen tokens after guesses.
  virtual std::span<const int32_t> wait() = 0;
  void forward(const Batch& batch) {
    submit(batch);
    wait();
  }
  // Whether submit() takes such samplers; whether a chain may begin with one.
  virtual bool can_choose(const SamplerParams&) const { return false; }
  virtual bool can_chain(const SamplerParams&) const { return false; }

  // Logits [vocab] of the i-th output of the last batch, valid until the next; of a split Program's first part: row i
  // of its output. Rows are contiguous.
  virtual std::span<const float> logits(int64_t i) = 0;
  // Copies the first `count` result rows of a part of a Program or an encoder. The memory may outlive the executor and
  // is fast.
  virtual std::shared_ptr<const float> copy_result_rows(int64_t count);
  // Rows of Program::hidden, valid until the next evaluation; empty if there are none. After Chain::resume: of the
  // batch last waited for, without the one that began the chain.
  virtual std::span<const float> hidden() { return {}; }

  // Greedy continuation: chooses `count` tokens after the batch, whose only output is its last token; the last one is
  // not evaluated. With Program::input, each token reads the previous token's hidden row. Ends early with -1 for
  // unusable logits. hidden() is that of the last evaluation. `greedy` has no penalties.
  virtual std::vector<int32_t> continue_greedily(const Batch& batch, Sampler& greedy, int64_t count);

  // Whether the stream's recurrent state and windows allow a batch at `position` (StreamPositions).
  virtual bool can_resume_at(int32_t /*stream*/, int64_t /*position*/) const { return true; }
  // saved_floats() of recurrent state and window caches, which resuming at `position` needs beside full caches. Any
  // stream with these caches may load it (copy_cache). An empty `state` changes nothing, for measurements.
  virtual int64_t saved_floats() const { return 0; }
  virtual std::shared_ptr<float> make_state(); // memory for one, fast to copy
  virtual void save_state(int32_t /*stream*/, std::span<float> /*state*/, int64_t /*position*/) {
    unsupported("saved state");
  }
  virtual void load_state(int32_t /*stream*/, std::span<const float> /*state*/, int64_t /*position*/) {
    unsupported("saved state");
  }
  // mark_state() copies one stream's recurrent state inside the executor, restore_mark() restores it.
  virtual void mark_state(int32_t /*stream*/) { unsupported("marked state"); }
  virtual void restore_mark() { unsupported("marked state"); }

  // Copies full caches of the first `tokens` tokens and all window caches, but no recurrent state. `to` can resume at
  // `tokens` if `from` can.
  virtual void copy_cache(int32_t /*from*/, int32_t /*to*/, int64_t /*tokens*/) { unsupported("copies of caches"); }

  // Sets the scales of adapters for the stream's later tokens; initially usual_adapters().
  virtual void set_adapters(int32_t /*stream*/, std::span<const AdapterUse> /*uses*/) { unsupported("adapters"); }

  // Host copies of full caches, for executors of equal block_layout(). Block i has positions from i *
  // block_positions(program) on; those not evaluated are undefined. No layout: nothing is saved.
  virtual std::string block_layout() const { return {}; }
  virtual int64_t block_bytes() const { return 0; }
  virtual std::shared_ptr<std::byte> make_block(); // memory for one, fast to copy
  // Hint: allocates `count` blocks in the background if that is slow.
  virtual void expect_blocks(int64_t /*count*/) {}
  virtual void save_blocks(int32_t /*stream*/, int64_t /*first*/, std::span<std::byte* const> /*blocks*/) {
    unsupported("saved blocks");
  }
  virtual void load_blocks(int32_t /*stream*/, int64_t /*first*/, std::span<const std::byte* const> /*blocks*/) {
    unsupported("saved blocks");
  }

  virtual ExpertUse expert_use() { return {}; }

  virtual const ExecutorConfig& config() const = 0;
  virtual std::string_view description() const = 0; // "CPU, 8 threads, AVX3_DL"
  virtual double memory_bytes() const = 0;          // KV cache and scratch

  // Average time of each part, in order; empty if unsupported. With waiting times, parts run as usual and add up to
  // forward(); else each runs alone, and the sum is larger.
  virtual std::vector<OpTime> profile(const Batch&, int /*repetitions*/) { return {}; }

  // One line per kernel; empty if unsupported.
  virtual std::string describe_plan(const Batch&) { return {}; }

  // Median seconds of a step with one token of each stream at `position`, after a warm-up, by the host's or device's
  // clock. Overwrites the cache from `position` on.
  virtual double time_decode(int64_t position, int64_t streams, int repetitions);

 protected:
  // Throws std::logic_error: a caller asked for what can_…, saved_floats() or block_layout() denied.
  [[noreturn]] void unsupported(std::string_view what) const;
};

} // namespace ridge::core
