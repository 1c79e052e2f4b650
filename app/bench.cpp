// ridge bench: tokens per second for prompts (pp) and generation (tg), beside what they mean: bytes moved per second
// and their share of the read bandwidth that this machine gave in the same process, operations per second and their
// share of the measured peak. Every combination of the lists given is one test.
#include "app/bench_report.h"
#include "app/cli.h"
#include "app/count_list.h"
#include "app/loaded_model.h"
#include "app/options.h"
#include "app/peaks.h"
#include "app/terminal.h"
#include "core/error.h"
#include "core/sampler.h"
#include "gguf/writer.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace ridge::app {
namespace {

constexpr int64_t kMostTokens = 1 << 20;

// What an executor is made for; the tests of one setting share it.
struct Setting {
  int64_t batch, ubatch, threads, streams, gpu_layers;
  std::string k_type, v_type;
};

// Runs tests on one executor.
class Bench {
 public:
  Bench(LoadedModel& model, BenchRow common, const Setting& setting, Peaks& peaks, int repetitions, bool profile)
      : model_(model), common_(std::move(common)), setting_(setting), peaks_(peaks), repetitions_(repetitions),
        profile_(profile) {}

  // `prompt` tokens in batches, logits of the last only.
  BenchRow run_prompt(int64_t prompt, int64_t depth) {
    BenchRow row = common_;
    row.prompt = prompt;
    return measure(std::move(row), depth, [&] { feed(prompt, depth); });
  }

  // `count` tokens one after another, of each stream, each with its logits. Of one stream on a GPU, each is chosen from
  // them by the default sampler chain, as `ridge run` does it.
  BenchRow run_generation(int64_t count, int64_t depth) {
    BenchRow row = common_;
    row.generated = count;
    row.streams = setting_.streams;
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    return measure(std::move(row), depth, [&] {
      step(depth);
      core::Executor& executor = *model_.executor;
      const bool decoding =
          setting_.streams == 1 && executor.start_decoding(sampler, static_cast<int32_t>(depth + 1), 0);
      for (int64_t i = 1; i < count; ++i) {
        if (!decoding) {
          step(depth + i);
          continue;
        }
        executor.next_token(true);
        cost_ += core::program_cost(model_.program, step_at(1, depth + i, 1, 1));
      }
      if (decoding) executor.next_token(false); // waits for the last
    });
  }

 private:
  int32_t random_token() { return static_cast<int32_t>(random_() % model_.program.vocab); }

  core::Step step_at(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const {
    const core::ExecutorConfig& config = model_.executor->config();
    return {
        tokens, past, streams, outputs, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};
  }

  // Evaluates `count` random tokens of one stream from `position` on and adds up what op_cost says of it. They are
  // handed over -b at once and evaluated -ub at once, so a -b that is no multiple of -ub leaves short pieces.
  void feed(int64_t count, int64_t position, int32_t stream = 0) {
    int64_t handed_over = 0; // of the current -b
    while (count > 0) {
      const int64_t rows = std::min({count, setting_.ubatch, setting_.batch - handed_over});
      handed_over = (handed_over + rows) % setting_.batch;
      std::vector<int32_t> tokens(rows), positions(rows);
      const std::vector<int32_t> streams(rows, stream);
      for (int64_t i = 0; i < rows; ++i) {
        tokens[i] = random_token();
        positions[i] = static_cast<int32_t>(position + i);
      }
      const auto last = static_cast<int32_t>(rows - 1);
      core::Batch batch{tokens, positions, streams, {}};
      if (rows == count) batch.outputs = {&last, 1};
      model_.executor->forward(batch);
      cost_ += core::program_cost(model_.program, step_at(rows, position, 1, rows == count ? 1 : 0));
      position += rows;
      count -= rows;
    }
  }

  // One token of every stream.
  void step(int64_t position) {
    const int64_t n = setting_.streams;
    std::vector<int32_t> tokens(n), positions(n, static_cast<int32_t>(position)), streams(n);
    for (int64_t i = 0; i < n; ++i) {
      tokens[i] = random_token();
      streams[i] = static_cast<int32_t>(i);
    }
    model_.executor->forward({tokens, positions, streams, streams});
    cost_ += core::program_cost(model_.program, step_at(n, position, n, n));
  }

  BenchRow measure(BenchRow row, int64_t depth, const std::function<void()>& work) {
    row.depth = depth;
    if (depth > 0)
      for (int64_t stream = 0; stream < row.streams; ++stream) feed(depth, 0, static_cast<int32_t>(stream));
    work(); // warm-up: pages are read, threads started, graphs captured
    // The roof moves with whatever else the machine does, so it is measured right before and after.
    const double roof_before = peaks_.read_bytes_per_second();
    for (int i = 0; i < repetitions_; ++i) {
      cost_ = {};
      const auto start = std::chrono::steady_clock::now();
      work();
      row.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    row.bytes = cost_.bytes();
    row.flops = cost_.flops;
    row.read_bytes_per_second = (roof_before + peaks_.read_bytes_per_second()) / 2;
    if (profile_ && row.generated > 0 && row.streams == 1)
      row.profile = profile_step(*model_.executor, model_.program, random_token(), depth, row.read_bytes_per_second);
    row.peak_name = peaks_.products().how;
    row.peak_flops = peaks_.products().value;
    return row;
  }

  LoadedModel& model_;
  const BenchRow common_;
  const Setting setting_;
  Peaks& peaks_;
  const int repetitions_;
  const bool profile_;
  std::mt19937 random_{1};
  core::Cost cost_;
};

struct BenchCommand {
  std::vector<std::string> files, shapes;
  std::string save, output = "md", device = "auto";
  std::string gpu_layers = "-1", prompts = "512", generated = "128", depths = "0", batches = "2048", ubatches = "512",
              threads = "0", streams = "1";
  std::string k_types = "f16", v_types = "f16";
  int repetitions = 5;
  bool profile = false, json = false;

  std::vector<int64_t> prompt_counts, generated_counts, depth_counts;
  std::vector<BenchRow> rows;

  void run() {
    if (json) output = "json";
    if (!save.empty() && (shapes.size() != 1 || !files.empty()))
      throw Error("bench: --save writes the model of one --shape", Error::kUsage);
    if (files.empty() && shapes.empty()) files.emplace_back(); // the guide
    prompt_counts = parse_counts(prompts, "--n-prompt", 0, kMostTokens);
    generated_counts = parse_counts(generated, "--n-gen", 0, kMostTokens);
    depth_counts = parse_counts(depths, "--n-depth", 0, kMostTokens);
    std::erase(prompt_counts, 0);
    std::erase(generated_counts, 0);
    if (prompt_counts.empty() && generated_counts.empty())
      throw Error("bench: -p 0 and -n 0 leave nothing to measure", Error::kUsage);
    std::vector<Setting> settings;
    for (const int64_t batch : parse_counts(batches, "--batch-size", 1, 1 << 20))
      for (const int64_t ubatch : parse_counts(ubatches, "--ubatch-size", 1, 1 << 16))
        for (const int64_t thread_count : parse_counts(threads, "--threads", 0, 1024))
          for (const std::string& k_type : parse_words(k_types, "--cache-type-k", {"f16", "f32", "q8_0"}))
            for (const std::string& v_type : parse_words(v_types, "--cache-type-v", {"f16", "f32", "q8_0"}))
              for (const int64_t layers : gpu_layer_counts())
                for (const int64_t stream_count : parse_counts(streams, "--batch", 1, 4096))
                  settings.push_back(
                      {batch, std::min(batch, ubatch), thread_count, stream_count, layers, k_type, v_type});

    for (const std::string& file : files) run_model(open_model(file), "", settings);
    for (const std::string& shape : shapes) {
      LoadedModel loaded = open_model(gguf::File::from_bytes(models::synthetic_model(shape), shape));
      if (!save.empty()) save_model(loaded.file);
      run_model(std::move(loaded), shape, settings);
    }
    if (output == "md") print_bench_markdown(rows);
    if (output == "csv") print_bench_csv(rows);
    if (output == "json") print_bench_json(rows);
  }

  std::vector<int64_t> gpu_layer_counts() const {
    if (gpu_layers == "-1") return {-1};
    return parse_counts(gpu_layers, "--gpu-layers", 0, 100000);
  }

  void save_model(const gguf::File& file) const {
    gguf::Writer writer(save, gguf::Metadata::of(file), gguf::tensor_infos(file));
    for (const gguf::Tensor& tensor : file.tensors()) writer.write(tensor.data);
    writer.finish();
    note(fmt::format("saved {}", save));
  }

  void run_model(LoadedModel loaded, const std::string& shape, const std::vector<Setting>& settings) {
    for (const Setting& setting : settings) {
      // Prompts are of one stream: they are measured once, not again for every --batch.
      const bool with_prompts = setting.streams == settings[0].streams && !prompt_counts.empty();
      if (!with_prompts && generated_counts.empty()) continue;
      ModelOptions options;
      options.ubatch = setting.ubatch;
      options.threads = static_cast<int>(setting.threads);
      options.k_type = setting.k_type;
      options.v_type = setting.v_type;
      options.context = std::ranges::max(depth_counts) + longest(with_prompts);
      core::ExecutorConfig config = options.executor_config(loaded.program.trained_context);
      config.streams = config.max_outputs = setting.streams;
      config.max_batch = std::max(config.max_batch, setting.streams);
      loaded.executor.reset(); // its memory is needed again
      start_executor(loaded, config, device, setting.gpu_layers);
      Peaks peaks(loaded);

      BenchRow row;
      row.model = shape.empty() ? models::model_label(loaded.file) : shape;
      row.file_bytes = loaded.file.size_bytes();
      row.parameters = models::parameter_count(loaded.file);
      row.backend = loaded.gpu_share == 1 ? "CUDA" : loaded.gpu_share == 0 ? "CPU" : "CUDA+CPU";
      row.device = loaded.executor->description();
      row.batch_tokens = setting.batch;
      row.ubatch_tokens = setting.ubatch;
      row.k_type = setting.k_type;
      row.v_type = setting.v_type;
      row.threads = options.threads;
      row.gpu_layers = setting.gpu_layers;
      row.datasheet = peaks.datasheet();
      Bench bench(loaded, row, setting, peaks, repetitions, profile);
      for (const int64_t depth : depth_counts) {
        if (with_prompts)
          for (const int64_t prompt : prompt_counts) add(bench.run_prompt(prompt, depth));
        for (const int64_t count : generated_counts) add(bench.run_generation(count, depth));
      }
    }
  }

  int64_t longest(bool with_prompts) const {
    int64_t most = 1;
    if (with_prompts) most = std::max(most, std::ranges::max(prompt_counts));
    if (!generated_counts.empty()) most = std::max(most, std::ranges::max(generated_counts));
    return most;
  }

  void add(BenchRow row) {
    if (output == "jsonl") print_bench_json_line(row);
    rows.push_back(std::move(row));
  }
};

} // namespace

void add_bench_command(CLI::App& app) {
  auto o = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "measure prompt and generation speed against the memory roofline");
  command->footer("N is a count or a list of them: 512 or 512,1024 or 128-512+128 or 128-1024*2");
  command->add_option("-m,--model", o->files, "GGUF file (repeatable; default: the built-in guide)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE");
  command->add_option("--shape", o->shapes, "a synthetic model instead, e.g. llama-1b:Q4_K_M (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME:TYPE");
  command->add_option("--save", o->save, "also write the synthetic model as a GGUF file")->type_name("FILE");
  command->add_option("--device", o->device, "auto (the GPU where there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  const auto list = [&](const char* name, std::string& variable, const char* help, const char* type = "N") {
    command->add_option(name, variable, help)->capture_default_str()->type_name(type);
  };
  list("-p,--n-prompt", o->prompts, "prompt tokens; 0: no prompt test");
  list("-n,--n-gen", o->generated, "generated tokens; 0: no generation test");
  list("-d,--n-depth", o->depths, "tokens already in the context");
  list("--batch", o->streams, "streams that generate together");
  list("-b,--batch-size", o->batches, "prompt tokens handed to the engine at once");
  list("--ubatch-size", o->ubatches, "of these, evaluated at once (-ub)");
  list("--cache-type-k", o->k_types, "KV cache type of keys: f16, f32, q8_0 (-ctk)", "TYPE");
  list("--cache-type-v", o->v_types, "KV cache type of values: f16, f32, q8_0 (-ctv)", "TYPE");
  list("--gpu-layers,--n-gpu-layers", o->gpu_layers,
       "the last N layers on the GPU, the output being one of them (-ngl); -1: all for which there is room");
  list("-t,--threads", o->threads, "CPU threads; 0: all cores");
  command->add_option("-r,--repetitions", o->repetitions, "repetitions after a warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--profile", o->profile, "where the time of one step goes, op by op");
  command->add_option("-o,--output", o->output, "md, csv, json or jsonl (a line per test, as it ends)")
      ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  command->add_flag("--json", o->json, "as -o json");
  command->callback([o] { o->run(); });
}

} // namespace ridge::app
