// The interface between ui/ and the engine: the engine publishes immutable Snapshots, the window sends Intents; neither
// waits.
#pragma once

#include "api/jobs.h"
#include "api/pictures.h"
#include "api/serving.h"
#include "core/ceiling.h"
#include "core/ops.h"
#include "core/sampler.h"
#include "core/token_choice.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ridge::api {

struct AnswerFacts {
  std::string model;
  int64_t prompt_tokens = 0, tokens = 0; // prompt_tokens: without cached ones
  double prompt_seconds = 0, seconds = 0, bytes_per_s = 0;
  double tokens_per_s() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

struct ChatMessage {
  bool user = false;
  std::string text, reasoning;
  std::string note;                                              // how the answer ended, if unusual
  std::shared_ptr<const std::vector<core::TokenChoice>> choices; // of an answer; null: not kept
  MessagePictures pictures;
  std::optional<AnswerFacts> facts = std::nullopt;
  std::string call = {};         // "files: read_file({…})"; `text` is the result
  std::string forming = {};      // a diffusion model's answer, while it forms
  int version = 0, versions = 1; // versions keep the messages after them
};

struct ConversationRow {
  std::string id, title;
  int64_t changed = 0; // seconds since 1970
  std::string excerpt; // around the search hit
};

struct ModelRow {
  std::string name, from, path;
  int64_t bytes = 0;
  std::string architecture, type;
  std::string problem; // why it cannot run; empty: none
  int64_t parameters = 0, trained_context = 0;
  int64_t context = 0;     // tokens that fit into memory
  double tokens_per_s = 0; // upper bound; 0: unknown
};

struct FirstModelRow {
  std::string name, reference, purpose, runs_on; // runs_on: "GPU"
  int64_t bytes = 0;
  bool best = false;
};

// A LoRA adapter of the open model, as the current conversation uses it.
struct AdapterRow {
  std::string name, path;
  float scale = 1;
  bool on = true;
};

struct ToolRow {
  std::string name, server, description;
  bool allowed = false;
};
struct ToolQuestion {
  uint64_t number = 0;
  std::string server, tool, arguments;
};

// Estimates for a model before it is opened, in bytes and tokens.
struct FitFacts {
  std::string path;
  std::string problem; // why it cannot be opened; empty: none
  int64_t context = 0, largest_context = 0, trained_context = 0;
  int64_t layers = 0, gpu_layers = 0; // the output counts as a layer
  struct Device {
    double weights = 0, cache = 0, scratch = 0, free = 0;
    double total() const { return weights + cache + scratch; }
  };
  std::optional<Device> cpu, gpu; // null: not used
  double cache_per_token = 0;
  double tokens_per_s = 0, full_tokens_per_s = 0; // upper bounds, full_ with a full context; 0: unknown
};

struct Preset {
  std::string name, system;
  core::SamplerParams sampling;
  int64_t max_tokens = -1;
};

enum class EngineState : uint8_t { loading, idle, reading, writing, measuring, failed };

struct Speed {
  double prompt_tokens_per_s = 0, tokens_per_s = 0; // of the last answer, or the last moments
  double bytes_per_s = 0;
  double roof_bytes_per_s = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;
  PicturesRead pictures;
  struct Sample {
    double seconds, tokens_per_s;
  };
  std::vector<Sample> history; // oldest first
};

struct KvUse {
  int64_t tokens = 0, context = 0;
  double bytes = 0, capacity_bytes = 0;
};

// Bytes that the next token moves (op_cost).
struct StepShare {
  std::string kind;
  double weight_bytes = 0, kv_bytes = 0, activation_bytes = 0;
};

// Readings of the driver's management library.
struct GpuGauge {
  std::string name;
  double power_watts = 0, power_limit_watts = 0, temperature_celsius = 0; // 0: unknown
  double sm_clock_hz = 0, sm_clock_max_hz = 0, memory_clock_hz = 0, memory_clock_max_hz = 0;
  double memory_used_bytes = 0, memory_bytes = 0;
  bool operator==(const GpuGauge&) const = default;
};

struct Roofs {
  std::string device;
  std::vector<core::Ceiling> ceilings;
  double read_bytes_per_s = 0, peak_ops_per_s = 0, ridge_ops_per_byte = 0;
  std::string peak_name;            // name of the ceiling in peak_ops_per_s
  std::vector<std::string> formats; // weight formats that PredictStep accepts
};

// Ops of a step in the roofline model, layers summed.
struct StepRoofline {
  struct Op {
    std::string name, kind;      // "attn_q", or "attn_q attn_k attn_v" if fused
    core::OpClass op_class = {}; // of the first op, if fused
    std::string shape;
    int64_t count = 0;
    double bytes = 0, flops = 0; // sums over layers, as all below
    double floor_seconds = 0;    // lower bound; 0: roofs not measured
    std::string bound_by;        // "memory", "compute", "latency" or "kernel"
    double seconds = 0;          // measured; 0: not measured
  };
  int64_t past = 0, streams = 1; // past: tokens in the context
  std::string format;            // of the weights; empty: as stored
  std::vector<Op> ops;           // in model order
  double seconds = 0;            // whole step; 0: not measured
};

// Immutable once published.
struct ModelFacts {
  struct Field {
    std::string key, type, value;
  };
  struct TensorRow {
    std::string name, type, shape;
    int layer = -1;
    int64_t weights = 0, bytes = 0;
    int64_t rows = 0, cols = 0;
    bool decodable = false;   // for the quant lab
    bool quantizable = false; // a matrix whose type quantization changes
    double bits_per_weight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(weights); }
  };
  bool built_in = false;
  struct OpRow {
    std::string kind, name, inputs, output, weights;
    double bytes = 0, flops = 0; // one token, empty context
  };
  std::string path, label, architecture, engine;
  int64_t parameters = 0, bytes = 0, vocab = 0, trained_context = 0;
  bool has_tokenizer = false;
  std::vector<Field> metadata;
  std::vector<TensorRow> tensors;
  std::vector<OpRow> ops;
};

struct Tokenized {
  std::string text;
  struct Piece {
    int32_t id;
    std::string text;
    bool special;
  };
  std::vector<Piece> pieces;
};

struct TensorStudy {
  std::string tensor, type;
  int64_t rows = 0, cols = 0, sampled = 0; // sampled: weights behind the statistics
  double low = 0, high = 0, mean = 0, rms = 0;
  std::vector<float> histogram; // counts over [low, high]
  struct Format {
    std::string name, meaning;                                        // meaning: of non-GGUF formats
    double bits_per_weight = 0, rmse = 0, sqnr_db = 0, max_error = 0; // against the stored weights
    std::vector<float> errors;                                        // counts over [-max_error, max_error]
    std::vector<float> errors_wide;                                   // counts over [-rms, rms], for all formats
    bool microscope = false;
    bool writable = false; // models can be written in it
    bool packable = false; // else only errors are known
  };
  std::vector<Format> formats;
  int formats_to_try = 0;
};

struct BlockStudy {
  std::string tensor, format;
  int64_t block = 0, blocks = 0;
  bool stored = false; // no original to compare with
  std::vector<uint8_t> bytes;
  struct Field {
    std::string name, meaning;
    int first_byte = 0, bytes = 0;
  };
  std::vector<Field> fields;
  struct Weight {
    float original = 0, decoded = 0;
    int32_t code = 0;
    std::vector<int> bits; // byte * 8 + bit, lowest first
  };
  std::vector<Weight> weights;
  std::vector<std::vector<float>> levels; // per 16 weights: values of their codes, ascending
};

// A piece of a tensor, as stored and in `format`.
struct SliceStudy {
  std::string tensor, format; // format empty: as stored
  int64_t first_row = 0, first_col = 0;
  int rows = 0, cols = 0;
  double rms = 0;
  std::vector<float> original, decoded;
  std::vector<std::string> bits; // [rows][cols], highest first; empty: no code per weight
};

struct Snapshot {
  EngineState state = EngineState::loading;
  std::string activity;
  std::string error;
  bool gpu_failed = false;                 // the latest error: UseCpu continues on the CPU
  uint64_t error_number = 0;               // makes repeated errors visible
  std::vector<std::string> notices;        // newest last
  uint64_t notice_number = 0;              // counts notices
  std::shared_ptr<const ModelFacts> model; // null until one is loaded
  std::vector<ChatMessage> messages;
  std::shared_ptr<const std::vector<ConversationRow>> conversations; // newest first; never null
  std::string searched;                                              // filter of `conversations`
  std::string conversation;                                          // id of the current one
  std::shared_ptr<const std::vector<std::string>> vocabulary;
  MessagePictures pictures;                               // of the draft message
  std::shared_ptr<const PictureFactsByKey> picture_facts; // facts of all pictures; never null
  std::shared_ptr<const EnlargedPicture> enlarged;        // null: none, or not decoded yet
  std::string encoder;                                    // of pictures; empty: none
  bool encoder_open = false;                              // false: opened for the first picture
  std::string no_microphone;                              // why nothing can be recorded; empty: perhaps it can
  bool listening = false;
  bool keep_choices = false;
  std::string system_prompt;
  std::vector<AdapterRow> adapters;
  core::SamplerParams sampling;
  int64_t max_tokens = -1;
  Speed speed;
  KvUse kv;
  std::shared_ptr<const Sequences> sequences; // never null
  std::vector<StepShare> step;
  double engine_bytes = 0;
  std::vector<GpuGauge> gpus;
  std::shared_ptr<const Roofs> roofs;
  std::shared_ptr<const StepRoofline> predicted, measured; // null until available
  std::shared_ptr<const Tokenized> tokenized;
  std::shared_ptr<const TensorStudy> tensor;
  std::shared_ptr<const BlockStudy> block;
  std::shared_ptr<const SliceStudy> slice;
  std::shared_ptr<const std::vector<Job>> jobs;
  std::shared_ptr<const JobChoices> job_choices; // never null
  std::shared_ptr<const Serving> serving;        // never null
  std::vector<std::string> recent;               // newest first
  std::shared_ptr<const std::vector<ModelRow>> models;
  std::shared_ptr<const std::vector<FirstModelRow>> first_models;
  std::shared_ptr<const std::vector<ToolRow>> tools; // null: none
  std::shared_ptr<const ToolQuestion> tool_question; // null: none
  ModelOptions options;
  std::shared_ptr<const FitFacts> fit; // null: none
  std::vector<Preset> presets;
};

namespace intent {
struct Send { // with the draft pictures
  std::string text;
};
struct EditAndResend { // replaces messages from number `message` on
  size_t message;
  std::string text;
};
struct AddPicture {                                  // to the draft message
  std::string path;                                  // or name, if `file` is given
  std::shared_ptr<const std::string> file = nullptr; // null: read `path`
};
struct RemovePicture {
  std::string key;
};
struct EditPictures { // copies another message's pictures
  size_t message;
};
struct EnlargePicture {
  std::string key;
};
struct Listen { // false: what was recorded goes to the draft message
  bool on;
};
struct Regenerate {
  std::optional<size_t> message = std::nullopt;    // none: the last answer
  std::optional<std::string> model = std::nullopt; // empty: the guide
};
struct ShowVersion { // with the messages after it
  size_t message;
  int version;
};
struct EditAnswer {
  size_t message;
  std::string text;
};
struct SearchConversations {
  std::string text;
};
struct ExportConversation {
  std::string path;
};
struct Compact {}; // replaces the conversation by the model's summary; the messages stay as another version
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
struct MeasureStep {
  int64_t past; // -1: the current conversation's
};
struct PredictStep {
  int64_t past, streams;
  std::string format; // of the weights; empty: as stored
};
struct SetSystemPrompt {
  std::string text;
};
struct SetSampling {
  core::SamplerParams params;
  int64_t max_tokens;
};
struct OpenModel {
  std::string path;
  std::optional<ModelOptions> options = std::nullopt; // none: unchanged
};
struct AddAdapter { // reopens the model
  std::string path;
};
struct RemoveAdapter {
  size_t number;
};
struct ScaleAdapter { // in the current conversation
  size_t number;
  float scale;
  bool on;
};
struct FitModel {
  std::string path;
  ModelOptions options;
};
struct SavePreset { // the current system prompt and sampling
  std::string name;
};
struct UsePreset {
  std::string name;
};
struct DeletePreset {
  std::string name;
};
enum class ToolPermission : uint8_t { no, yes, always }; // always: until the window closes
struct AnswerTool {
  uint64_t number;
  ToolPermission may;
};
struct ListModels {};
struct UseCpu {};
struct Tokenize {
  std::string text;
};
struct StudyTensor {
  std::string tensor;
};
struct StudyBlock {
  std::string tensor, format;
  int64_t block;
};
struct StudySlice {
  std::string tensor, format;
  int64_t first_row, first_col;
};
struct StartJob {
  JobRequest request;
};
struct CancelJob {
  uint64_t id;
};
struct ForgetJob { // a finished one
  uint64_t id;
};
struct StartServer { // stops a running server first
  std::string host;
  int port;        // 0: any free port
  int parallel;    // sequences per batch
  std::string key; // API key; empty: none
};
struct StopServer {};
} // namespace intent

using Intent =
    std::variant<intent::Send, intent::EditAndResend, intent::AddPicture, intent::RemovePicture, intent::EditPictures,
                 intent::EnlargePicture, intent::Listen, intent::Regenerate, intent::ShowVersion, intent::EditAnswer,
                 intent::SearchConversations, intent::ExportConversation, intent::Stop, intent::NewConversation,
                 intent::OpenConversation, intent::RenameConversation, intent::DeleteConversation, intent::KeepChoices,
                 intent::MeasureRoofs, intent::MeasureStep, intent::PredictStep, intent::SetSystemPrompt,
                 intent::SetSampling, intent::OpenModel, intent::FitModel, intent::SavePreset, intent::UsePreset,
                 intent::DeletePreset, intent::ListModels, intent::UseCpu, intent::Tokenize, intent::StudyTensor,
                 intent::StudyBlock, intent::StudySlice, intent::StartJob, intent::CancelJob, intent::ForgetJob,
                 intent::StartServer, intent::StopServer, intent::AnswerTool, intent::Compact, intent::AddAdapter,
                 intent::RemoveAdapter, intent::ScaleAdapter>;

} // namespace ridge::api
