// ridge bench: tokens per second for prompts (pp) and generation (tg), beside what they mean: bytes moved per second
// and the share of the read bandwidth that this machine gave in the same process with the same threads.
#include "app/cli.h"
#include "app/loaded_model.h"
#include "app/options.h"
#include "app/terminal.h"
#include "core/error.h"
#include "core/sampler.h"
#include "gguf/writer.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace ridge::app {
namespace {

struct Result {
  std::string test;
  double tokens_per_second, deviation; // median and standard deviation over the repetitions
  double bytes_per_second;
  double flops_per_second;
  double roof; // bytes per second: read bandwidth, the mean of a measurement before and one after the test
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double standard_deviation(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return values.size() > 1 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : 0;
}

class Bench {
 public:
  Bench(LoadedModel& model, int64_t depth, int repetitions) : model_(model), depth_(depth), repetitions_(repetitions) {}

  // `prompt` tokens in batches, logits of the last only.
  Result run_prompt(int64_t prompt) {
    return measure(fmt::format("pp{}", prompt), prompt, [&](int64_t position) { feed(prompt, position); });
  }

  // `count` tokens one after another, each with its logits; on a GPU each chosen from them by the default sampler
  // chain, as `ridge run` does it.
  Result run_generation(int64_t count) {
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    return measure(fmt::format("tg{}", count), count, [&](int64_t position) {
      feed(1, position);
      core::Executor& executor = *model_.executor;
      const bool decoding = executor.start_decoding(sampler, static_cast<int32_t>(position + 1), 0);
      for (int64_t i = 1; i < count; ++i) {
        if (!decoding) {
          feed(1, position + i);
          continue;
        }
        executor.next_token(true);
        cost_ += step_cost(1, position + i, 1);
      }
      if (decoding) executor.next_token(false); // waits for the last
    });
  }

 private:
  // Evaluates `count` random tokens from `position` on and adds up what op_cost says of it.
  void feed(int64_t count, int64_t position) {
    const core::ExecutorConfig& config = model_.executor->config();
    while (count > 0) {
      const int64_t rows = std::min(count, config.max_batch);
      std::vector<int32_t> tokens(rows), positions(rows);
      for (int64_t i = 0; i < rows; ++i) {
        tokens[i] = static_cast<int32_t>(random_() % model_.program.vocab);
        positions[i] = static_cast<int32_t>(position + i);
      }
      const auto last = static_cast<int32_t>(rows - 1);
      core::Batch batch{tokens, positions, {}, {}};
      if (rows == count) batch.outputs = {&last, 1};
      model_.executor->forward(batch);
      cost_ += step_cost(rows, position, rows == count ? 1 : 0);
      position += rows;
      count -= rows;
    }
  }

  core::Cost step_cost(int64_t tokens, int64_t past, int64_t outputs) const {
    const core::ExecutorConfig& config = model_.executor->config();
    return core::program_cost(model_.program, {tokens, past, 1, outputs, core::bytes_per_element(config.k_type),
                                               core::bytes_per_element(config.v_type)});
  }

  Result measure(std::string name, int64_t tokens, const std::function<void(int64_t)>& work) {
    if (depth_ > 0) {
      name += fmt::format(" @ d{}", depth_);
      feed(depth_, 0);
    }
    work(depth_); // warm-up: pages are read, threads started
    // The roof moves with whatever else the machine does, so it is measured right before and after.
    const double roof_before = measure_read_bandwidth(model_);
    std::vector<double> rates;
    double bytes = 0, flops = 0;
    for (int i = 0; i < repetitions_; ++i) {
      cost_ = {};
      const auto start = std::chrono::steady_clock::now();
      work(depth_);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      rates.push_back(static_cast<double>(tokens) / seconds);
      bytes = cost_.bytes();
      flops = cost_.flops;
    }
    const double rate = median(rates), per_token = rate / static_cast<double>(tokens);
    const double roof = (roof_before + measure_read_bandwidth(model_)) / 2;
    return {name, rate, standard_deviation(rates), bytes * per_token, flops * per_token, roof};
  }

  LoadedModel& model_;
  int64_t depth_;
  int repetitions_;
  std::mt19937 random_{1};
  core::Cost cost_;
};

struct BenchCommand {
  ModelOptions model;
  std::string shape, save, output = "md";
  int64_t prompt = 512, generate = 128, depth = 0;
  int repetitions = 5;

  void run() {
    if (model.model.empty() == shape.empty())
      throw Error("bench: give either -m FILE or --shape NAME:TYPE", Error::kUsage);
    if (!save.empty() && shape.empty()) throw Error("bench: --save needs --shape", Error::kUsage);
    LoadedModel loaded = shape.empty() ? open_model(model.model)
                                       : open_model(gguf::File::from_bytes(models::synthetic_model(shape), shape));
    if (!save.empty()) {
      gguf::Writer writer(save, gguf::Metadata::of(loaded.file), gguf::tensor_infos(loaded.file));
      for (const gguf::Tensor& tensor : loaded.file.tensors()) writer.write(tensor.data);
      writer.finish();
      note(fmt::format("saved {}", save));
    }
    core::ExecutorConfig config = model.executor_config(loaded.program.trained_context);
    config.context = depth + std::max<int64_t>({prompt, generate, 1});
    config.max_batch = std::min(config.max_batch, config.context);
    start_executor(loaded, config, model.device, model.gpu_layers);

    std::vector<Result> results;
    Bench bench(loaded, depth, repetitions);
    if (prompt > 0) results.push_back(bench.run_prompt(prompt));
    if (generate > 0) results.push_back(bench.run_generation(generate));

    output == "json" ? print_json(loaded, results) : print_table(loaded, results);
  }

  void print_table(const LoadedModel& loaded, const std::vector<Result>& results) const {
    const std::string label = shape.empty() ? models::model_label(loaded.file) : shape;
    const double gib = static_cast<double>(loaded.file.size_bytes()) / (1 << 30);
    const char* backend = loaded.gpu_share == 1 ? "CUDA" : loaded.gpu_share == 0 ? "CPU" : "CUDA+CPU";
    const double billions = static_cast<double>(models::parameter_count(loaded.file)) / 1e9;
    fmt::print("| {:<24} | {:>9} | {:>8} | {:<8} | {:>15} | {:>16} | {:>7} | {:>7} | {:>6} |\n", "model", "size",
               "params", "backend", "test", "t/s", "GB/s", "roof", "% roof");
    fmt::print("| {:-<24} | {:->8}: | {:->7}: | {:-<8} | {:->14}: | {:->15}: | {:->6}: | {:->6}: | {:->5}: |\n", "", "",
               "", "", "", "", "", "", "");
    for (const Result& r : results)
      fmt::print("| {:<24} | {:>5.2f} GiB | {:>6.2f} B | {:<8} | {:>15} | {:>7.2f} ± {:>6.2f} | {:>7.2f} | {:>7.2f} | "
                 "{:>6.1f} |\n",
                 label, gib, billions, backend, r.test, r.tokens_per_second, r.deviation, r.bytes_per_second / 1e9,
                 r.roof / 1e9, 100 * r.bytes_per_second / r.roof);
    fmt::print(
        "\n{}; median of {} ± standard deviation; roof: GB/s read from memory, measured before and after each test\n",
        loaded.executor->description(), repetitions);
  }

  void print_json(const LoadedModel& loaded, const std::vector<Result>& results) const {
    nlohmann::ordered_json tests = nlohmann::ordered_json::array();
    for (const Result& r : results)
      tests.push_back({{"test", r.test},
                       {"tokens_per_second", r.tokens_per_second},
                       {"tokens_per_second_deviation", r.deviation},
                       {"bytes_per_second", r.bytes_per_second},
                       {"read_bytes_per_second", r.roof},
                       {"share_of_read_bandwidth", r.bytes_per_second / r.roof},
                       {"flops_per_second", r.flops_per_second}});
    const nlohmann::ordered_json report = {{"model", shape.empty() ? models::model_label(loaded.file) : shape},
                                           {"file_bytes", loaded.file.size_bytes()},
                                           {"weights", models::parameter_count(loaded.file)},
                                           {"backend", loaded.executor->description()},
                                           {"repetitions", repetitions},
                                           {"tests", tests}};
    fmt::print("{}\n", report.dump(1));
  }
};

} // namespace

void add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "measure prompt and generation speed against the memory roofline");
  options->model.add_to(*command);
  command->get_option("--model")->required(false);
  command->add_option("--shape", options->shape, "a synthetic model instead, e.g. llama-1b:Q4_K_M")
      ->type_name("NAME:TYPE");
  command->add_option("--save", options->save, "also write the synthetic model as a GGUF file")->type_name("FILE");
  const auto count = [&](const char* name, int64_t& variable, const char* help) {
    command->add_option(name, variable, help)
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
        ->capture_default_str()
        ->type_name("N");
  };
  count("-p,--n-prompt", options->prompt, "prompt tokens; 0: no prompt test");
  count("-n,--n-gen", options->generate, "generated tokens; 0: no generation test");
  count("-d,--n-depth", options->depth, "tokens already in the context");
  command->add_option("-r,--repetitions", options->repetitions, "repetitions after a warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("-o,--output", options->output, "md or json")
      ->check(CLI::IsMember({"md", "json"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
