// Requests of front ends as plain data. Text fields have the command line's syntax; the functions that do the work
// parse them.
#pragma once

#include "core/sampler.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ridge::api {

struct GpuOptions {
  std::string gpus;            // "0,1"; empty: as few as hold the model
  int64_t tensor_parallel = 0; // ranks per layer; 0: one per GPU
  int64_t pipeline = 1;        // groups of layers with such ranks
};

struct AdapterOption {
  std::string file; // GGUF
  double scale = 1;
};

struct ModelOptions {
  std::string model;                // empty: the guide
  std::string device = "auto";      // or cuda, cpu
  int64_t context = -1;             // tokens; 0: the model's; -1: at most engine::kDefaultContext
  int64_t batch = 2048, ubatch = 0; // tokens per batch, the smaller one counts; ubatch 0: automatic
  int threads = 0;                  // 0: all cores
  int64_t gpu_layers = -1;          // the last ones; -1: as many as fit
  bool experts_on_host = false;     // routed experts in host memory, cached on the GPU
  bool cpu_experts = false;         // the CPU computes some of these
  std::string gpu_memory;           // "8GiB"; empty: what is free
  std::string host_memory;          // for experts; empty: what is free
  GpuOptions ranks;
  std::string k_type = "f16", v_type = "f16"; // core/kv_type.h
  std::string speculation = "auto";           // auto, off, mtp, ngram or draft
  std::string draft_model;                    // GGUF file; empty: none
  int64_t draft_tokens = 0;                   // per step; 0: automatic
  bool batch_invariant = false;               // core::ExecutorConfig's
  std::string mmproj;                         // GGUF encoder of pictures or sounds; empty: none
  std::vector<AdapterOption> adapters;
};

struct SamplingOptions {
  core::SamplerParams params;
  std::vector<std::string> chosen; // "top-k"; not overridden by a model's defaults
  int64_t max_tokens = -1;         // -1: until the context is full
  std::vector<std::string> stop;   // stop texts, excluded from the answer
  bool ignore_eos = false;
  std::string grammar, grammar_file, json_schema; // at most one of them
  int64_t reasoning_budget = -1;                  // tokens; -1: unlimited
  std::string reasoning_message;                  // ends the reasoning after the budget
  std::vector<float> adapter_scales;              // per adapter; empty: defaults
};

struct TemplateOptions {
  std::string name, file; // built-in, or a Jinja file; empty: the model's
  std::string thinking;   // on, off; empty: the template's default
  std::string variables;  // JSON object; empty: none
};

// The prefix cache.
struct PrefixOptions {
  std::string size;                          // of memory; 0: none; empty: an eighth, at most 8 GiB
  std::string folder, folder_size = "32GiB"; // on disk; empty: none
};

// Reused for each message of a conversation.
struct GenerateRequest {
  std::string prompt;             // with `raw`: a text to continue
  bool raw = false;               // without template and conversation
  std::string system;             // empty: none
  std::vector<std::string> media; // pictures and sounds before the message
  bool keep_choices = false;      // keeps likely alternatives; samples on the host
  SamplingOptions sampling;
  TemplateOptions chat_template;
};

// Hugging Face to GGUF; picture encoders to a second file.
struct ConvertRequest {
  std::string input;      // the checkpoint's folder
  std::string output;     // empty: only the encoder
  std::string type;       // of unquantized matrices: f32, f16, bf16 or q8_0; empty: unchanged
  std::string mmproj;     // encoder; empty: "mmproj-" + output's name
  bool text_only = false; // omit the encoder
  std::string base;       // folder of a PEFT adapter's base model; of an EAGLE-3 head's, or its GGUF file
};

struct QuantizeRequest {
  std::string input;            // empty: the guide
  std::string output;           // empty: only plan
  std::string type;             // a recipe or COPY, without a target
  std::string target_size;      // "4.2GiB": types by measured error
  double target_bpw = 0;        // bits per weight; 0: none
  double target_divergence = 0; // smallest file up to this, nats per token; 0: none
  bool explore = false;         // only measure recipes and mixes
  std::string method = "plain"; // or awq, gptq, round, awq+…, with `calibration`
  std::string calibration;      // text file; targets use it too
  int64_t calibration_tokens = 16384;
  bool parse_special = false; // special tokens in the text
  std::string imatrix;        // file; empty: none
  std::string output_type, embedding_type;
  std::vector<std::string> tensor_types; // "PATTERN=TYPE"
  std::string split_size;                // per file; empty: one file
  std::vector<AdapterOption> adapters;   // merged into the weights
  bool pure = false, leave_output = false, allow_requantize = false;
  std::string device = "auto";
  int threads = 0;

  bool has_target() const { return !target_size.empty() || target_bpw > 0 || target_divergence > 0; }
};

// As of `ridge serve`.
struct ClientLoad {
  int64_t clients = 0;  // 0: no such test
  int64_t requests = 0; // total; 0: four per client
  int64_t streams = 0;  // at once; 0: all
  int64_t shared = 0;   // tokens of a common prefix
  double arrivals = 0;  // per second, at random; 0: after each answer
};

// Runs every combination of the lists, such as "512,1024" or "128-512+128".
struct BenchRequest {
  std::vector<std::string> files, shapes; // files ("": the guide); synthetic models ("llama-1b:Q4_K_M")
  std::string prompts = "512", generated = "128", depths = "0"; // tokens; depths: previous context
  std::string streams = "1";                                    // generating together
  std::string verified;                                         // tokens per verification step; empty: none
  // "synthetic:0.8" (hit rate), "mtp" (the file's heads), "eagle3" (draft_model's or the shape's head); empty: none
  std::string speculation, draft_model;
  std::string accepted;                         // assumed acceptance of draft heads, 0.8; empty: none
  std::string batches = "2048", ubatches = "0"; // tokens; ubatches 0: automatic
  std::string k_types = "f16", v_types = "f16"; // of the KV cache
  bool batch_invariant = false;                 // core::ExecutorConfig's
  std::string threads = "0";                    // 0: all cores
  std::string gpu_layers = "-1";
  bool experts_on_host = false;
  bool cpu_experts = false;
  std::string gpu_memory;
  std::string host_memory;
  GpuOptions ranks;
  std::vector<AdapterOption> adapters; // of `files`
  std::string device = "auto";
  std::string image;        // "1024x1024" to encode instead; empty: none
  double sound_seconds = 0; // to encode instead; 0: none
  std::string mmproj;       // encoder of `files`
  ClientLoad load;
  int repetitions = 5;  // after a warm-up
  bool profile = false; // also time each op
};

// Limits of the machine, and a model's kernels and steps below them.
struct RooflineRequest {
  std::string file, shape; // empty: the device's default
  std::string device = "auto";
  int threads = 0;
  bool ceilings_only = false;
};

struct PullRequest {
  std::string model; // hf:OWNER/REPO:Q4_K_M or https://HOST/FILE.gguf
};

using JobRequest = std::variant<ConvertRequest, QuantizeRequest, BenchRequest, RooflineRequest, PullRequest>;
enum class JobKind : uint8_t { convert, quantize, bench, roofline, pull }; // in the order of JobRequest
inline JobKind kind_of(const JobRequest& request) { return static_cast<JobKind>(request.index()); }

} // namespace ridge::api
