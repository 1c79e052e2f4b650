// What runs a Program. The session talks to executors only through this interface.
#pragma once

#include "core/kv_type.h"
#include "core/program.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

class Communicator; // parallel/communicator.h

// Sees what goes into the matrices while a Program runs. Calibration collects it.
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
  // Tokens that every stream can go back, at least. What a window sees behind so many and a batch is kept, the rest of
  // its cache is not (cache/rings.h); as large as the context: all is.
  int64_t going_back = 256;
  KvType k_type = KvType::f16, v_type = KvType::f16;
  int threads = 0;    // 0: all cores
  bool exact = false; // no activation quantization
  bool wide = false;  // activations are quantized to 16 bits at least, as in Programs that amplify errors
  InputObserver* observer = nullptr;
  Communicator* communicator = nullptr; // of a Program that is one rank's share (parallel/shard.h)
};

// Whether a small error of activations may become a large one in the logits: where experts or positions are chosen by
// scores that may lie close together, a recurrent state adds up what it is given, or attention sharpens its scores
// instead of dividing them by the root of their width. Fast against exact mode, random models of such kinds differ by
// an NMSE of up to 8e-2 with activations of 8 bits, and by 2e-3 with 16.
bool amplifies_errors(const Program& program);

// Throws Error if a model's heads do not fit the cache types: q8_0 needs whole blocks of 32.
void check_cache_types(const Program& program, const ExecutorConfig& config);
// Throws Error if an executor cannot be made with this configuration: context, streams and max_batch below 1,
// max_outputs or threads below 0, one of them above 2^31 - 1, or cache types that do not fit. What a machine has memory
// for is up to the executors.
void check_config(const Program& program, const ExecutorConfig& config);

// Tokens to run at once. Token i of stream s at position p sees the cache of s up to and including p. Positions of one
// stream are consecutive and start where its cache is to be continued; what lay behind is overwritten. Where tokens see
// later ones (sees_ahead), positions of each stream start at 0.
struct Batch {
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions; // same length
  std::span<const int32_t> streams;   // same length, or empty: all 0
  std::span<const int32_t> outputs;   // indices into tokens whose logits are wanted, ascending
  std::span<const float> input = {};  // Program::input, [rows, width], where the Program has one
  bool input_taken = false;           // it was given by Executor::take_input instead

  // The following are for Programs with Program::has_places. Rows that replace embeddings, [rows, row_width]: a token
  // whose number is -1 - r reads row r.
  std::span<const float> rows = {};
  // Where each token is, for rope: [tokens, kPlaceAxes], as time, row, column and picture. Empty: its position, in all.
  std::span<const int32_t> axes = {};
  // The end of the block of each token, 0 of one in none. It sees all positions of its stream before that end, also
  // those behind its own, where AttentionParams::block_ahead says so; with in_blocks those of the block only, which are
  // next to each other in the batch. Empty: no token is in a block.
  std::span<const int32_t> block_ends = {};
};

// Whether rope turns some pairs by the number of a picture, the last of a token's places. Text has 0 there, so places
// do not all grow with the position then.
bool turns_by_picture(const Program& program);

// Throws Error if forward() cannot run the batch: it has no tokens, more tokens or outputs than the configuration
// allows, spans of different lengths, a token, position, stream or output out of range, or part of a text where tokens
// see later ones. Executors call it in forward().
void check_batch(const Program& program, const ExecutorConfig& config, const Batch& batch);

// Throws Error if set_adapters() cannot take these.
void check_adapters(const Program& program, const ExecutorConfig& config, int32_t stream,
                    std::span<const AdapterUse> uses);

// Positions of a block, in which caches are copied to and from the host: whole entries of every layer, and whole tiles
// of what executors keep together.
int64_t block_positions(const Program& program);

class Sampler;
struct SamplerParams;

// Experts that stay in the host's memory, of which a GPU keeps copies.
struct ExpertUse {
  int64_t experts = 0, copies = 0; // of a layer; experts 0: none stay there
  int64_t on_host = 0;             // of a layer that the host's memory has room for; the others stay in the file
  int64_t found = 0, missed = 0;   // wanted ones that there was a copy of, and others, of all steps so far
  int64_t read = 0;                // of the missed ones: from the file
  double found_share() const { return static_cast<double>(found) / static_cast<double>(found + missed); }
};

// How long one part of a step took. A part is not divided further; a fused kernel is one.
struct OpTime {
  std::vector<int32_t> ops; // what it computes: indices into Program::ops
  double seconds = 0;       // from the end of the part before to its own
  // 0 where an executor does not measure them. A part is worked on in blocks, which start while the part before ends.
  double waiting = 0;    // of `seconds`, until a block had its input, on average
  double starts = 0;     // when the first block started, after the end of the part before: mostly negative
  double ends_apart = 0; // from the first block's end to the last one's
  // How it only prepares the part behind it, of the same ops ("to_half"); else empty.
  std::string prepares = {};
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Memory for so many elements of Program::input, from which copies are fast.
  virtual std::shared_ptr<float> make_input(int64_t floats);
  // Makes rows of what `from` computed in its last forward() Program::input of the next batch, `which` of them one
  // after another; zeros for a number below 0. False, and nothing done, where the two do not share memory.
  virtual bool take_input(const Executor& /*from*/, std::span<const int32_t> /*which*/) { return false; }
  // Runs the batch: fills the KV cache and computes logits for batch.outputs. Throws what check_batch throws, and runs
  // nothing then.
  virtual void forward(const Batch& batch) = 0;
  // Logits of the i-th wanted output of the last forward(): [vocab], valid until the next forward(). The first part of
  // a split Program gives row i of its output, rows one after another in memory.
  virtual std::span<const float> logits(int64_t i) = 0;
  // Copies the first `count` rows of the last forward()'s result, where the Program is a part of another or an encoder.
  // Their memory outlives the executor, and copies from it are fast.
  virtual std::shared_ptr<const float> take_rows(int64_t count);
  // Program::hidden of the last forward(): all its rows, one after another, valid until something else is evaluated.
  // While decoding: of the batch that the tokens were chosen behind that next_token() or chosen_tokens() gave last;
  // none of the forward() before start_decoding(). Empty where the Program keeps none.
  virtual std::span<const float> hidden() { return {}; }

  // Choosing tokens where the logits are, for several sequences. choose() follows a forward() and gives what each of
  // the samplers, one for each wanted output, would draw from it; -1 where the logits are unusable. A null one's token
  // means nothing. The samplers' states do not change. Valid until the next call.
  virtual bool can_choose(const SamplerParams&) const { return false; }
  virtual std::span<const int32_t> choose(std::span<const Sampler* const>) { return {}; }

  // Decoding one stream without the host between its tokens, where an executor can: it chooses each token itself, as
  // `sampler` would from the same logits, and goes on with it. Its places follow those of the token before
  // (Batch::axes, with which guesses are evaluated, too). start_decoding() follows a forward() whose only output is the
  // token before `position`; it returns false where the host must sample (an executor that cannot at all, or not with
  // these parameters). next_token() then gives one token after the other, -1 where the logits are unusable; with
  // `ahead`, the token is already being evaluated when it returns, and logits(0) will be what follows it. Decoding ends
  // with a call without `ahead`, or when something else is evaluated. The sampler's state does not change.
  virtual bool start_decoding(const Sampler&, int32_t /*position*/, int32_t /*stream*/) { return false; }
  virtual int32_t next_token(bool /*ahead*/) { return -1; }

  // Decoding with guesses, after start_decoding() and once every chosen token was given: evaluates `tokens` from
  // `position` on, the last `guesses` of which may turn out wrong. Chooses the token behind the last one before them,
  // and behind each guess, as long as the guesses up to there are what was chosen. chosen_tokens() waits for these 1 to
  // guesses + 1 tokens; the last one is -1 where the logits are unusable. Without guesses, next_token() may give the
  // token instead and decoding goes on as before.
  virtual void decode_guesses(std::span<const int32_t> /*tokens*/, int64_t /*guesses*/, int32_t /*position*/) {}
  virtual std::span<const int32_t> chosen_tokens() { return {}; }

  // How a text goes on: evaluates the batch, whose only output is its last token, chooses a token behind it, evaluates
  // that, and so on, until `count` of them were chosen; the last one is not evaluated. The sampler is greedy, without
  // penalties. Where the Program has an input, each token reads the last row of Program::hidden of the one before it.
  // Ends early, with -1, where logits are unusable. hidden() is then that of what was evaluated last. An executor that
  // chooses tokens itself takes no turn of the host between them.
  virtual std::vector<int32_t> go_on(const Batch& batch, Sampler& greedy, int64_t count);

  // Whether the next batch of a stream may start at `position`, the tokens before being those that it has evaluated:
  // the recurrent state is that of this position, and windows have all that is seen from there (StreamPositions).
  virtual bool continues_at(int32_t /*stream*/, int64_t /*position*/) const { return true; }
  // What a stream has to have to go on at `position`, where it can, beside caches that are whole: saved_floats() of
  // recurrent state and of what windows see. Where a stream went back to `position` on the host's side, load_state
  // gives it what was saved there, and the next batch may start there. Another stream, too, that has the caches
  // (copy_cache). An empty `state` leaves what is there, for measurements.
  virtual int64_t saved_floats() const { return 0; }
  virtual std::shared_ptr<float> make_state(); // memory for one copy, to which and from which copies are fast
  virtual void save_state(int32_t /*stream*/, std::span<float> /*state*/, int64_t /*position*/) {}
  virtual void load_state(int32_t /*stream*/, std::span<const float> /*state*/, int64_t /*position*/) {}
  // Copies the recurrent state of a stream within the executor's memory, over the copy before; and gives the stream of
  // the last mark_state() the state that it had then.
  virtual void mark_state(int32_t /*stream*/) {}
  virtual void return_to_mark() {}

  // Gives a stream what another one's caches hold of its first `tokens` tokens, both being the same up to there.
  // A recurrent state is not copied. The stream gets all of the windows that the other one has, and goes on at `tokens`
  // where that one does. Costs a copy of so much memory.
  virtual void copy_cache(int32_t /*from*/, int32_t /*to*/, int64_t /*tokens*/) {}

  // How much of each of Program::adapters counts for what a stream evaluates from now on. Streams begin with
  // usual_adapters().
  virtual void set_adapters(int32_t /*stream*/, std::span<const AdapterUse> /*uses*/) {}

  // Copies of caches in the host's memory. A block has the rows that all layers keep of block_positions(program)
  // positions; block i those from position i times that on. It gives any stream of an executor with the same
  // block_layout() the bytes that were saved. What a block has of positions that were not evaluated means nothing. An
  // executor without a layout saves nothing.
  virtual std::string block_layout() const { return {}; }
  virtual int64_t block_bytes() const { return 0; }
  virtual std::shared_ptr<std::byte> make_block(); // memory for one, from which copies are fast
  // So many may be wanted soon. Where their memory takes long to get, it is got meanwhile.
  virtual void expect_blocks(int64_t /*count*/) {}
  virtual void save_blocks(int32_t /*stream*/, int64_t /*first*/, std::span<std::byte* const> /*blocks*/) {}
  virtual void load_blocks(int32_t /*stream*/, int64_t /*first*/, std::span<const std::byte* const> /*blocks*/) {}

  virtual ExpertUse expert_use() { return {}; }

  virtual const ExecutorConfig& config() const = 0;
  virtual std::string_view description() const = 0; // "CPU, 8 threads, AVX3_DL"
  virtual double memory_bytes() const = 0;          // KV cache and scratch

  // Runs the batch `repetitions` times and says how long each part takes on average, in order. With waiting times the
  // parts are those of the batch as it always runs, and add up to it. Without, each part runs by itself, so their sum
  // is longer than forward(). Empty where an executor has no times.
  virtual std::vector<OpTime> profile(const Batch&, int /*repetitions*/) { return {}; }

  // What an executor launches for a batch, a line per kernel. Empty where it has no such plan.
  virtual std::string describe_plan(const Batch&) { return {}; }

  // Median seconds of one decoding step: one token of each of `streams` streams at `position`, with its logits.
  // Measured `repetitions` times after a warm-up, with the host's clock around forward(); an executor that runs
  // asynchronously may time its own device instead. What the cache holds from `position` on is overwritten.
  virtual double time_decode(int64_t position, int64_t streams, int repetitions);
};

} // namespace ridge::core
