// What the window draws and what it asks for: the whole interface between ui/ and the engine, plain data both ways.
//
// The engine publishes Snapshots, whole and immutable, as often as a screen can show them; the window sends Intents.
// Neither waits for the other, and the window can be drawn from a Snapshot that no engine made.
#pragma once

#include "core/ceiling.h"
#include "core/ops.h"
#include "core/sampler.h"
#include "core/sampling/token_choice.h"
#include "core/view/jobs.h"
#include "core/view/pictures.h"
#include "core/view/serving.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ridge::core {

// How an answer was made.
struct AnswerFacts {
  std::string model;
  int64_t prompt_tokens = 0, tokens = 0; // prompt_tokens: those that were not known from before
  double prompt_seconds = 0, seconds = 0, bytes_per_s = 0;
  double tokens_per_s() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

struct ChatMessage {
  bool user = false; // else the model's
  std::string text, reasoning;
  std::string note; // how it ended, where that is worth saying: "stopped", "cut: the context is full"
  std::shared_ptr<const std::vector<TokenChoice>> choices; // of an answer that is written; null: not kept
  MessagePictures pictures;                                // before the text
  std::optional<AnswerFacts> facts = std::nullopt;         // of an answer that is written
  std::string call = {}; // of a tool, "files: read_file({…})"; the text is what it gave. Empty: no such message
  int version = 0, versions = 1; // others were written in its place, and are kept with what follows them
};

struct ConversationRow {
  std::string id, title;
  int64_t changed = 0; // seconds since 1970
  std::string excerpt; // where what is searched for stands in it; empty: in the title, or nothing is
};

// A model that lies on this machine, opened or not.
struct ModelRow {
  std::string name, from, path;
  int64_t bytes = 0;
  // Once the file was looked into:
  std::string architecture, type;
  std::string problem; // why it cannot be run, in one line; empty: it can
  int64_t parameters = 0, trained_context = 0;
  int64_t context = 0;     // tokens for which it fits into memory, at most trained_context
  double tokens_per_s = 0; // at most, by the memory bandwidth that was measured; 0: not known
};

// A model to begin with, that fits this machine and is not here yet.
struct FirstModelRow {
  std::string name, reference, purpose, runs_on; // runs_on: "GPU"
  int64_t bytes = 0;
  bool best = false;
};

// A tool that the model may call, and a call that a person is asked about.
struct ToolRow {
  std::string name, server, description;
  bool allowed = false; // without a question
};
struct ToolQuestion {
  uint64_t number = 0; // counts them
  std::string server, tool, arguments;
};

// How a model that is to be opened would fit into this machine's memory, and how fast it could be.
struct FitFacts {
  std::string path;
  std::string problem; // why it cannot be opened so, and what would fit; empty: it can
  int64_t context = 0, largest_context = 0, trained_context = 0; // tokens
  int64_t layers = 0, gpu_layers = 0;                            // the output is one
  struct Device {
    double weights = 0, cache = 0, scratch = 0, free = 0; // bytes
    double total() const { return weights + cache + scratch; }
  };
  std::optional<Device> cpu, gpu;                 // what it has a part of
  double cache_per_token = 0;                     // bytes of a further one
  double tokens_per_s = 0, full_tokens_per_s = 0; // at most, with the context full; 0: memory was not measured
};

// What a conversation may begin with: a system prompt and the sampling, by name.
struct Preset {
  std::string name, system;
  SamplerParams sampling;
  int64_t max_tokens = -1;
};

enum class EngineState : uint8_t { loading, idle, reading, writing, measuring, failed };
// reading the prompt, writing the answer; measuring the machine or a step

// Speeds, 0 where nothing was measured yet. Bytes are those that op_cost says had to move.
struct Speed {
  double prompt_tokens_per_s = 0, tokens_per_s = 0; // of the last answer; while it is written, of the last moments
  double bytes_per_s = 0;                           // likewise, while tokens are generated
  double roof_bytes_per_s = 0;                      // measured: what this machine's memory gives
  int64_t prompt_tokens = 0, answer_tokens = 0;
  PicturesRead pictures; // of the conversation
  struct Sample {
    double seconds, tokens_per_s; // seconds of generation since the start of the session
  };
  std::vector<Sample> history; // oldest first
};

struct KvUse {
  int64_t tokens = 0, context = 0;
  double bytes = 0, capacity_bytes = 0;
};

// Bytes that the next token moves, by kind of op, as op_cost says; and what the engine holds beside the model.
struct StepShare {
  std::string kind;
  double weight_bytes = 0, kv_bytes = 0, activation_bytes = 0;
};

// What the driver's management library says of a GPU, some times a second.
struct GpuGauge {
  std::string name;
  double power_watts = 0, power_limit_watts = 0, temperature_celsius = 0; // 0: it does not say
  double sm_clock_hz = 0, sm_clock_max_hz = 0, memory_clock_hz = 0, memory_clock_max_hz = 0;
  double memory_used_bytes = 0, memory_bytes = 0; // of all programs
  bool operator==(const GpuGauge&) const = default;
};

// What the machine can do at most, measured as `ridge roofline` does.
struct Roofs {
  std::string device;
  std::vector<Ceiling> ceilings;
  double read_bytes_per_s = 0, peak_ops_per_s = 0, ridge_ops_per_byte = 0;
  std::string peak_name;            // the ceiling that peak_ops_per_s is
  std::vector<std::string> formats; // that weights can be imagined in
};

// The ops of one step under the roofs, layers together.
struct StepRoofline {
  struct Op {
    std::string name, kind;      // "attn_q", or "attn_q attn_k attn_v" where they run as one; "linear"
    OpClass op_class = {};       // of the first, where several run as one
    std::string shape;           // "256 → 768, Q6_K"
    int64_t count = 0;           // of layers that have it
    double bytes = 0, flops = 0; // as op_cost says; of all of them together, like the following
    double floor_seconds = 0;    // the least time the roofs allow; 0: the roofs are not measured
    std::string bound_by;        // what most of its time is: "memory", "compute", "latency" or "kernel"
    double seconds = 0;          // measured; 0: not measured
  };
  int64_t past = 0, streams = 1; // tokens in the context before; sequences that decode together
  std::string format;            // of the weights; empty: as they are stored
  std::vector<Op> ops;           // in order of the model
  double seconds = 0;            // the measured step, undivided; 0: not measured
};

// A model file in words and numbers; never changes once published.
struct ModelFacts {
  struct Field {
    std::string key, type, value;
  };
  struct TensorRow {
    std::string name, type, shape;
    int layer = -1; // -1: outside the layers
    int64_t weights = 0, bytes = 0;
    int64_t rows = 0, cols = 0;
    bool decodable = false;   // holds weights that the quant lab can look at
    bool quantizable = false; // a matrix that quantizing gives another type
    double bits_per_weight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(weights); }
  };
  bool built_in = false; // the guide, not a file
  struct OpRow {
    std::string kind, name, inputs, output, weights;
    double bytes = 0, flops = 0; // of one token at the start of the context
  };
  std::string path, label, architecture, engine; // engine: "CPU, 8 threads, AVX3_DL"
  int64_t parameters = 0, bytes = 0, vocab = 0, trained_context = 0;
  bool has_tokenizer = false;
  std::vector<Field> metadata;
  std::vector<TensorRow> tensors;
  std::vector<OpRow> ops;
};

struct Tokenized {
  std::string text; // what was asked
  struct Piece {
    int32_t id;
    std::string text; // made printable
    bool special;
  };
  std::vector<Piece> pieces;
};

// Some weights of one tensor, decoded.
struct TensorStudy {
  std::string tensor, type;
  int64_t rows = 0, cols = 0, sampled = 0;     // weights that the numbers below are from
  double low = 0, high = 0, mean = 0, rms = 0; // of the sampled weights
  std::vector<float> histogram;                // counts over [low, high]
  struct Format {
    std::string name, meaning;                                        // meaning: of those that are no GGUF type
    double bits_per_weight = 0, rmse = 0, sqnr_db = 0, max_error = 0; // against the weights as the file has them
    std::vector<float> errors;                                        // counts over [-max_error, max_error]
    std::vector<float> errors_wide; // counts over [-rms, rms] of the tensor: one scale for all formats
    bool microscope = false;        // a block of it can be drawn bit by bit
    bool writable = false;          // a model can be written in it
    bool packable = false;          // pieces of a tensor can be packed in it; else only its errors are known
  };
  std::vector<Format> formats; // grows while they are tried
  int formats_to_try = 0;
};

// One block, bit by bit.
struct BlockStudy {
  std::string tensor, format;
  int64_t block = 0, blocks = 0; // number of the block, and how many the tensor has
  bool stored = false;           // the file's own bytes: there is nothing to compare them with
  std::vector<uint8_t> bytes;
  struct Field {
    std::string name, meaning;
    int first_byte = 0, bytes = 0;
  };
  std::vector<Field> fields;
  struct Weight {
    float original = 0, decoded = 0;
    int32_t code = 0;
    std::vector<int> bits; // numbers of its bits in the block, lowest first: byte * 8 + bit
  };
  std::vector<Weight> weights;
  std::vector<std::vector<float>> levels; // of each 16 weights: the values that their codes can name, ascending
};

// A piece of a tensor as stored and as a format would have it.
struct SliceStudy {
  std::string tensor, format; // format empty: as stored
  int64_t first_row = 0, first_col = 0;
  int rows = 0, cols = 0;
  double rms = 0;                       // of the piece
  std::vector<float> original, decoded; // [rows][cols]
  std::vector<std::string> bits;        // likewise, highest first; empty: the format has no code for each weight
};

struct Snapshot {
  EngineState state = EngineState::loading;
  std::string activity;             // what it is doing, for the status line
  std::string error;                // the last one; empty: none
  bool gpu_failed = false;          // that was it: UseCpu goes on without
  uint64_t error_number = 0;        // counts them, so that the same error twice is seen twice
  std::vector<std::string> notices; // what the engine says besides, since the model was opened, the last one last
  uint64_t notice_number = 0;       // counts them
  std::shared_ptr<const ModelFacts> model;                           // null until one is loaded
  std::vector<ChatMessage> messages;                                 // the last one grows while the state is writing
  std::shared_ptr<const std::vector<ConversationRow>> conversations; // the kept ones, the newest first; never null
  std::string searched;                                              // these are the ones that have it; empty: all
  std::string conversation;                                          // the id of the one that is shown
  std::shared_ptr<const std::vector<std::string>> vocabulary;        // the tokens' texts, made printable
  MessagePictures pictures;                                          // of the message that is being written
  std::shared_ptr<const PictureFactsByKey> picture_facts;            // of all these pictures; never null
  std::shared_ptr<const EnlargedPicture> enlarged;                   // null: none is, or it is not decoded yet
  std::string encoder;                                               // the model's file for pictures; empty: none
  bool encoder_open = false;                                         // else it is with the first picture
  bool keep_choices = false;                                         // of the answers to come
  std::string system_prompt;
  SamplerParams sampling;
  int64_t max_tokens = -1;
  Speed speed;
  KvUse kv;
  std::shared_ptr<const Sequences> sequences; // of the conversation; never null
  std::vector<StepShare> step;
  double engine_bytes = 0;
  std::vector<GpuGauge> gpus;                              // all that this process sees
  std::shared_ptr<const Roofs> roofs;                      // null until measured
  std::shared_ptr<const StepRoofline> predicted, measured; // null likewise
  std::shared_ptr<const Tokenized> tokenized;
  std::shared_ptr<const TensorStudy> tensor;
  std::shared_ptr<const BlockStudy> block;
  std::shared_ptr<const SliceStudy> slice;
  std::shared_ptr<const std::vector<Job>> jobs;        // newest first
  std::shared_ptr<const JobChoices> job_choices;       // never null
  std::shared_ptr<const Serving> serving;              // never null
  std::vector<std::string> recent;                     // model files that were open, the last one first
  std::shared_ptr<const std::vector<ModelRow>> models; // on this machine, by name; null until it was looked for them
  std::shared_ptr<const std::vector<FirstModelRow>> first_models; // null: there are models here
  std::shared_ptr<const std::vector<ToolRow>> tools;              // of MCP servers; null: none
  std::shared_ptr<const ToolQuestion> tool_question;              // that waits for a person; null: none
  ModelOptions options;                                           // that the next model is opened with
  std::shared_ptr<const FitFacts> fit;                            // of what was asked for last; null: nothing was
  std::vector<Preset> presets;                                    // by name
};

namespace intent {
struct Send { // the text, and the pictures of the message that is being written
  std::string text;
};
struct EditAndResend { // messages from number `message` on are dropped, and this is sent in their place
  size_t message;
  std::string text;
};
struct AddPicture {                                  // to the message that is being written
  std::string path;                                  // of its file, or what it is called
  std::shared_ptr<const std::string> file = nullptr; // its bytes; null: they are to be read
};
struct RemovePicture {
  std::string key; // empty: all
};
struct EditPictures { // the message that is being written gets those of another one
  size_t message;
};
struct EnlargePicture {
  std::string key; // empty: none any more
};
struct Regenerate {
  std::optional<size_t> message = std::nullopt;    // an answer; nothing: the last one
  std::optional<std::string> model = std::nullopt; // that is opened for it; empty: the guide
};
struct ShowVersion { // of a message, and what followed it
  size_t message;
  int version;
};
struct EditAnswer { // what follows it stays
  size_t message;
  std::string text;
};
struct SearchConversations {
  std::string text;
};
struct ExportConversation { // the one that is shown, as Markdown
  std::string path;
};
struct Stop {};
struct NewConversation {};
struct OpenConversation {
  std::string id;
};
struct RenameConversation {
  std::string id, title;
};
struct DeleteConversation {
  std::string id;
};
struct KeepChoices {
  bool keep;
};
struct MeasureRoofs {};
struct MeasureStep { // op by op
  int64_t past;      // tokens in the context before it; -1: as many as the conversation has
};
struct PredictStep { // from the roofs
  int64_t past, streams;
  std::string format; // of the weights; empty: as they are stored
};
struct SetSystemPrompt {
  std::string text;
};
struct SetSampling {
  SamplerParams params;
  int64_t max_tokens;
};
struct OpenModel {
  std::string path;
  std::optional<ModelOptions> options = std::nullopt; // from then on; nothing: as before
};
struct FitModel { // that is not opened yet
  std::string path;
  ModelOptions options;
};
struct SavePreset { // the system prompt and the sampling as they are, instead of one with this name
  std::string name;
};
struct UsePreset {
  std::string name;
};
struct DeletePreset {
  std::string name;
};
enum class MayCall : uint8_t { no, yes, always }; // always: until the window closes
struct AnswerTool {                               // the question with this number
  uint64_t number;
  MayCall may;
};
struct ListModels {}; // on this machine
struct UseCpu {};     // opens the model again, on the CPU; the conversation goes on
struct Tokenize {
  std::string text;
};
struct StudyTensor {
  std::string tensor;
};
struct StudyBlock {
  std::string tensor, format; // format empty: as stored
  int64_t block;
};
struct StudySlice {
  std::string tensor, format; // format empty: as stored
  int64_t first_row, first_col;
};
struct StartJob {
  JobRequest request;
};
struct CancelJob {
  uint64_t id;
};
struct ForgetJob { // takes one that is over off the list
  uint64_t id;
};
struct StartServer { // of the open model; one that is on ends first
  std::string host;
  int port;        // 0: a free one
  int parallel;    // requests evaluated together
  std::string key; // that requests must carry; empty: none
};
struct StopServer {};
} // namespace intent

using Intent =
    std::variant<intent::Send, intent::EditAndResend, intent::AddPicture, intent::RemovePicture, intent::EditPictures,
                 intent::EnlargePicture, intent::Regenerate, intent::ShowVersion, intent::EditAnswer,
                 intent::SearchConversations, intent::ExportConversation, intent::Stop, intent::NewConversation,
                 intent::OpenConversation, intent::RenameConversation, intent::DeleteConversation, intent::KeepChoices,
                 intent::MeasureRoofs, intent::MeasureStep, intent::PredictStep, intent::SetSystemPrompt,
                 intent::SetSampling, intent::OpenModel, intent::FitModel, intent::SavePreset, intent::UsePreset,
                 intent::DeletePreset, intent::ListModels, intent::UseCpu, intent::Tokenize, intent::StudyTensor,
                 intent::StudyBlock, intent::StudySlice, intent::StartJob, intent::CancelJob, intent::ForgetJob,
                 intent::StartServer, intent::StopServer, intent::AnswerTool>;

} // namespace ridge::core
