// What ridge can be asked to do, as plain data. The command line, the window's jobs and every other front end fill
// these structs; the functions that do the work take them. Text fields hold what a person would write on the command
// line; the function that does the work parses them and names the option in its error.
#pragma once

#include "core/sampler.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ridge::core {

// Which GPUs run a model.
struct GpuOptions {
  std::string gpus;            // their numbers, such as 0,1; empty: as few of them as hold the model
  int64_t tensor_parallel = 0; // ranks that every layer is shared out to; 0: one per GPU
  int64_t pipeline = 1;        // stages of some layers each, every one with such ranks
};

// A LoRA adapter, and how much of it counts where no request says more.
struct AdapterOption {
  std::string file; // GGUF
  double scale = 1;
};

// Which model runs, where, and with how much room.
struct ModelOptions {
  std::string model;                // a GGUF file; empty: the built-in guide
  std::string device = "auto";      // or cuda, cpu
  int64_t context = -1;             // tokens; -1: the model's own, at most engine::kDefaultContext; 0: the model's own
  int64_t batch = 2048, ubatch = 0; // tokens evaluated at once, the smaller one counts; ubatch 0: as many as pay
  int threads = 0;                  // of the CPU; 0: all cores
  int64_t gpu_layers = -1;          // the last so many layers run on the GPU; -1: all for which there is room
  bool experts_on_host = false;     // routed experts stay in the host's memory, with copies on the GPU
  std::string gpu_memory;           // that may be taken on a GPU, such as 8GiB; empty: what is free
  std::string host_memory;          // that experts in the host's memory may take; empty: what is free
  GpuOptions ranks;
  std::string k_type = "f16", v_type = "f16"; // of the KV cache: f16, f32 or q8_0
  std::string speculation = "auto";           // who guesses tokens ahead: auto, off, mtp, ngram or draft
  std::string draft_model;                    // a GGUF file that guesses; empty: none
  int64_t draft_tokens = 0;                   // guessed in a step; 0: as many as pay
  std::string mmproj;                         // a GGUF file that encodes pictures or sounds; empty: none
  std::vector<AdapterOption> adapters;
};

// How tokens are chosen and when generation ends.
struct SamplingOptions {
  SamplerParams params;
  std::vector<std::string> chosen; // names of the params that a person chose ("top-k"); a model's defaults leave them
  int64_t max_tokens = -1;         // -1: until the context is full
  std::vector<std::string> stop;   // the answer ends before any of these texts
  bool ignore_eos = false;
  std::string grammar, grammar_file, json_schema; // at most one of them: constrains the answer
  int64_t reasoning_budget = -1;                  // tokens of a chat's reasoning; -1: as many as the model wants
  std::string reasoning_message;                  // what ends the reasoning when they are used up
  std::vector<float> adapter_scales;              // of each of the model's adapters; empty: those it was loaded with
};

// Which chat template renders the messages, and how.
struct TemplateOptions {
  std::string name, file; // a built-in one, or a Jinja file; both empty: the model's own
  std::string thinking;   // on or off; empty: what the template does by itself
  std::string variables;  // a JSON object of further variables, such as {"enable_thinking": false}; empty: none
};

// Where prompts that were evaluated are kept, so that they are not read twice.
struct PrefixOptions {
  std::string size; // of host memory, such as 8GiB; 0: nowhere; empty: an eighth of it, 8 GiB at most
  std::string folder, folder_size = "32GiB"; // on disk, too; empty: not there
};

// One answer. A conversation reuses the request for each of its messages.
struct GenerateRequest {
  std::string prompt;             // the user's message; with `raw` the text to be continued
  bool raw = false;               // without a chat template and without a conversation
  std::string system;             // system prompt; empty: none
  std::vector<std::string> media; // files of pictures and sounds in front of the message
  bool keep_choices = false;      // also return, of each token, what else was likely; sampling then runs on the host
  SamplingOptions sampling;
  TemplateOptions chat_template;
};

// A Hugging Face checkpoint becomes a GGUF file, and another one where it has an encoder of pictures.
struct ConvertRequest {
  std::string input;      // the checkpoint's folder
  std::string output;     // the file to write; empty: only the encoder
  std::string type;       // f32, f16, bf16 or q8_0: what unquantized matrices become; empty: what they are
  std::string mmproj;     // the encoder's file; empty: "mmproj-" before the name of `output`
  bool text_only = false; // the encoder is left out
  std::string base;       // of a PEFT adapter: the folder with the config.json of the model that it is for
};

// A model is written in other types.
struct QuantizeRequest {
  std::string input;            // a GGUF file; empty: the guide
  std::string output;           // the file to write; empty: only plan
  std::string type;             // a recipe's name or COPY; empty where a target chooses the types
  std::string target_size;      // "4.2GiB": types are chosen by measured error for this size
  double target_bpw = 0;        // the same for so many bits per weight; 0: no target
  double target_divergence = 0; // the smallest file that is expected to diverge so little, nats per token; 0: no target
  bool explore = false;         // measure what recipes and mixes of types cost, and write nothing
  std::string method = "plain"; // or awq, gptq, awq+gptq; these three need `calibration`
  std::string calibration;      // a text file; targets are also measured on it
  int64_t calibration_tokens = 16384;
  bool parse_special = false; // special tokens in the text are tokens
  std::string imatrix;        // a file; empty: none
  std::string output_type, embedding_type;
  std::vector<std::string> tensor_types; // "PATTERN=TYPE"
  std::string split_size;                // "4GiB": of one file at most; empty: one file
  std::vector<AdapterOption> adapters;   // that are merged into the weights
  bool pure = false, leave_output = false, allow_requantize = false;
  std::string device = "auto";
  int threads = 0;

  bool has_target() const { return !target_size.empty() || target_bpw > 0 || target_divergence > 0; }
};

// Clients that send requests to one scheduler, as those of `ridge serve` do.
struct ClientLoad {
  int64_t clients = 0;  // with a request at once; 0: no such test
  int64_t requests = 0; // of all of them; 0: four each
  int64_t streams = 0;  // that run at once; 0: all
  int64_t shared = 0;   // tokens that all prompts begin with
  double arrivals = 0;  // requests a second, at random times; 0: a client sends its next one when it has its answer
};

// The speed of models. Lists are as in "512,1024" or "128-512+128"; every combination of them is one test.
struct BenchRequest {
  std::vector<std::string> files, shapes; // GGUF files ("": the guide) and synthetic models ("llama-1b:Q4_K_M")
  std::string prompts = "512", generated = "128", depths = "0"; // tokens; depths: in the context before the test
  std::string streams = "1";                                    // that generate together
  std::string verified; // tokens of one stream that a step evaluates with all their logits; empty: no such test
  // "synthetic:0.8": guesses that are right so often; "mtp": those of the file's draft heads; "eagle3": those of the
  // head in draft_model, or of the shape's; empty: no such test
  std::string speculation, draft_model;
  std::string accepted; // how often guesses of draft heads are taken for right: 0.8; empty: no such test
  std::string batches = "2048", ubatches = "0"; // tokens; ubatches 0: as many as pay
  std::string k_types = "f16", v_types = "f16"; // of the KV cache
  std::string threads = "0";                    // 0: all cores
  std::string gpu_layers = "-1";                // -1: all for which there is room
  bool experts_on_host = false;                 // routed experts stay in the host's memory, with copies on the GPU
  std::string gpu_memory;                       // that may be taken on a GPU, such as 8GiB; empty: what is free
  std::string host_memory;                      // that experts in the host's memory may take; empty: what is free
  GpuOptions ranks;
  std::vector<AdapterOption> adapters; // of `files`
  std::string device = "auto";
  std::string image;        // "1024x1024": a picture of so many pixels is encoded instead; empty: no such test
  double sound_seconds = 0; // a sound of so many seconds is encoded instead; 0: no such test
  std::string mmproj;       // the file of the encoder of `files`; a shape has its own
  ClientLoad load;          // with prompts and answers as long as `prompts` and `generated` say
  int repetitions = 5;      // after a warm-up
  bool profile = false;     // also measure a step op by op
};

// What the machine can do at most, and the kernels and steps of a model under that.
struct RooflineRequest {
  std::string file, shape; // whose kernels and steps are placed; both empty: the usual shape for the device
  std::string device = "auto";
  int threads = 0;
  bool ceilings_only = false; // only the machine
};

// A model comes from a hub.
struct PullRequest {
  std::string model; // hf:OWNER/REPO:Q4_K_M or https://HOST/FILE.gguf
};

// Work that can go on beside a conversation.
using JobRequest = std::variant<ConvertRequest, QuantizeRequest, BenchRequest, RooflineRequest, PullRequest>;
enum class JobKind : uint8_t { convert, quantize, bench, roofline, pull }; // in the order of JobRequest
inline JobKind kind_of(const JobRequest& request) { return static_cast<JobKind>(request.index()); }

} // namespace ridge::core
