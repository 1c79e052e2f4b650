// ridge bench: tokens per second for prompts (pp) and generation (tg), beside what they mean: bytes moved per second
// and their share of the read bandwidth that this machine gave in the same process, operations per second and their
// share of the measured peak. Every combination of the lists given is one test.
#include "measure/bench.h"
#include "app/cli/bench_report.h"
#include "app/cli/cli.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "gguf/writer.h"
#include "measure/count_list.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

struct BenchCommand {
  std::vector<std::string> files, shapes;
  std::string save, output = "md";
  measure::BenchLists tests;
  std::string gpu_layers = "-1", batches = "2048", ubatches = "512", threads = "0", streams = "1";
  std::string k_types = "f16", v_types = "f16";
  measure::BenchPlan plan;
  bool json = false, verbose = false;

  std::vector<measure::BenchRow> rows;

  void run() {
    if (json) output = "json";
    if (!save.empty() && (shapes.size() != 1 || !files.empty()))
      throw Error("bench: --save writes the model of one --shape", Error::kUsage);
    if (files.empty() && shapes.empty()) files.emplace_back(); // the guide
    measure::plan_tests(plan, tests, {"--n-prompt", "--n-gen", "--n-depth"});
    for (const int64_t batch : measure::parse_counts(batches, "--batch-size", 1, 1 << 20))
      for (const int64_t ubatch : measure::parse_counts(ubatches, "--ubatch-size", 1, 1 << 16))
        for (const int64_t thread_count : measure::parse_counts(threads, "--threads", 0, 1024))
          for (const std::string& k_type : measure::parse_words(k_types, "--cache-type-k", {"f16", "f32", "q8_0"}))
            for (const std::string& v_type : measure::parse_words(v_types, "--cache-type-v", {"f16", "f32", "q8_0"}))
              for (const int64_t layers : gpu_layer_counts())
                for (const int64_t stream_count : measure::parse_counts(streams, "--batch", 1, 4096))
                  plan.settings.push_back(
                      {batch, std::min(batch, ubatch), thread_count, stream_count, layers, k_type, v_type});

    for (const std::string& file : files) bench(engine::open_model(file, load_on_terminal()), "");
    for (const std::string& shape : shapes) {
      engine::LoadedModel loaded = engine::open_model(gguf::File::from_bytes(models::synthetic_model(shape), shape));
      if (!save.empty()) save_model(loaded.file);
      bench(std::move(loaded), shape);
    }
    if (output == "md") print_bench_markdown(rows);
    if (output == "md" && verbose)
      for (const measure::BenchRow& row : rows)
        if (row.profile && !row.profile->plan.empty())
          fmt::print("\n{} {}: {}", row.model, row.test(), row.profile->plan);
    if (output == "md" && !plan.profile)
      note("where a step's time goes: --profile; what this machine can do: ridge roofline");
    if (output == "csv") print_bench_csv(rows);
    if (output == "json") print_bench_json(rows);
  }

  std::vector<int64_t> gpu_layer_counts() const {
    if (gpu_layers == "-1") return {-1};
    return measure::parse_counts(gpu_layers, "--gpu-layers", 0, 100000);
  }

  void save_model(const gguf::File& file) const {
    gguf::Writer writer(save, gguf::Metadata::of(file), gguf::tensor_infos(file));
    for (const gguf::Tensor& tensor : file.tensors()) writer.write(tensor.data);
    writer.finish();
    note(fmt::format("saved {}", save));
  }

  void bench(engine::LoadedModel model, const std::string& shape) {
    measure::bench_model(std::move(model), shape, plan,
                         {[&](measure::BenchRow row) { add(std::move(row)); }, nullptr, load_on_terminal()});
  }

  void add(measure::BenchRow row) {
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
  command->add_option("--device", o->plan.device, "auto (the GPU where there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  const auto list = [&](const char* name, std::string& variable, const char* help, const char* type = "N") {
    command->add_option(name, variable, help)->capture_default_str()->type_name(type);
  };
  list("-p,--n-prompt", o->tests.prompts, "prompt tokens; 0: no prompt test");
  list("-n,--n-gen", o->tests.generated, "generated tokens; 0: no generation test");
  list("-d,--n-depth", o->tests.depths, "tokens already in the context");
  list("--batch", o->streams, "streams that generate together");
  list("-b,--batch-size", o->batches, "prompt tokens handed to the engine at once");
  list("--ubatch-size", o->ubatches, "of these, evaluated at once (-ub)");
  list("--cache-type-k", o->k_types, "KV cache type of keys: f16, f32, q8_0 (-ctk)", "TYPE");
  list("--cache-type-v", o->v_types, "KV cache type of values: f16, f32, q8_0 (-ctv)", "TYPE");
  list("--gpu-layers,--n-gpu-layers", o->gpu_layers,
       "the last N layers on the GPU, the output being one of them (-ngl); -1: all for which there is room");
  list("-t,--threads", o->threads, "CPU threads; 0: all cores");
  command->add_option("-r,--repetitions", o->plan.repetitions, "repetitions after a warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--profile", o->plan.profile, "where the time of one step goes, op by op");
  command->add_flag("-v,--verbose", o->verbose, "with --profile: also the kernels of the step (GPU)");
  command->add_option("-o,--output", o->output, "md, csv, json or jsonl (a line per test, as it ends)")
      ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  command->add_flag("--json", o->json, "as -o json");
  command->callback([o] { o->run(); });
}

} // namespace ridge::app
