// ridge bench: speeds and their shares of the measured bandwidth and peak, for every combination of the given lists.
#include "measure/bench.h"
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/encoders.h"
#include "app/models/model_names.h"
#include "app/report/bench_report.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "engine/loading/kept_ways.h"
#include "engine/options.h"
#include "gguf/writer.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/count_list.h"
#include "measure/load/client_load.h"
#include "measure/ways/calibration.h"
#include "measure/ways/regret.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

const std::vector<int64_t> kCalibratedSteps = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

struct BenchCommand {
  api::BenchRequest request;
  std::string save, output = "md";
  std::string regret; // batch sizes measured with every GEMM variant
  bool json = false, verbose = false, share = false, calibrates = false;

  std::vector<measure::BenchRow> rows;

  void run() {
    if (json) output = "json";
    if (share && (output != "md" || request.load.clients > 0 || !request.image.empty() || request.sound_seconds > 0 ||
                  request.profile))
      throw Error("bench: --share works only with prompt and generation tests, in its own output format",
                  Error::kUsage);
    if (!save.empty() && (request.shapes.size() != 1 || !request.files.empty()))
      throw Error("bench: --save needs exactly one --shape and no -m", Error::kUsage);
    if (request.load.clients > 0) return play_load();
    if (!request.image.empty() || request.sound_seconds > 0) return encode_pictures();
    if (!regret.empty() || calibrates) return try_all_ways();
    measure::BenchSteps steps;
    steps.row = [&](const measure::BenchRow& row) { add(row); };
    if (!save.empty())
      steps.opened = [&](const engine::LoadedModel& model) { save_model(model.file, model.program.vocab); };
    steps.load = load_on_terminal();
    measure::bench(request, steps);
    if (share) {
      fmt::print("{}", bench_as_shared(rows));
      return note("docs/results.md collects such blocks; they do not identify this machine's owner");
    }
    if (output == "md") print_bench_markdown(rows);
    if (output == "md" && verbose)
      for (const measure::BenchRow& row : rows)
        if (row.profile && !row.profile->plan.empty())
          fmt::print("\n{} {}: {}", row.model, row.test(), row.profile->plan);
    if (output == "md" && !request.profile)
      note("--profile shows where a step's time goes; `ridge roofline` shows what this machine can reach");
    if (output == "csv") print_bench_csv(rows);
    if (output == "json") print_bench_json(rows);
  }

  void play_load() const {
    if (output != "md" && output != "json") throw Error("bench: --clients prints md or json only", Error::kUsage);
    if (!save.empty() || request.profile || !request.verified.empty() || !request.speculation.empty())
      throw Error("bench: --clients cannot be combined with --save, --profile, --verify or --spec", Error::kUsage);
    const std::vector<measure::ClientLoadRow> loads = measure::client_load(request, load_on_terminal());
    output == "json" ? print_load_json(loads) : print_load_markdown(loads);
  }

  void encode_pictures() const {
    if (output != "md" && output != "json")
      throw Error("bench: --image and --audio print md or json only", Error::kUsage);
    if (!save.empty() || !request.verified.empty() || !request.speculation.empty())
      throw Error("bench: --image and --audio cannot be combined with --save, --verify or --spec", Error::kUsage);
    if (request.files.size() > 1) throw Error("bench: --image and --audio take a single -m", Error::kUsage);
    api::BenchRequest own = request;
    if (!request.files.empty()) own.mmproj = encoder_for_media(request.mmproj, request.files[0]);
    const std::vector<measure::PictureRow> pictures = measure::bench_pictures(own, load_on_terminal());
    output == "json" ? print_pictures_json(pictures) : print_pictures_markdown(pictures);
  }

  void try_all_ways() const {
    const char* const option = calibrates ? "--calibrate" : "--regret";
    if (output != "md") throw Error(fmt::format("bench: {} prints md only", option), Error::kUsage);
    const std::vector<int64_t> steps =
        calibrates ? kCalibratedSteps : measure::parse_counts(regret, "--regret", 1, 1 << 16);
    measure::for_each_model(request, "", load_on_terminal(), [&](engine::LoadedModel& model, const std::string& name) {
      api::ModelOptions options;
      options.batch = options.ubatch = options.context = std::ranges::max(steps);
      const core::ExecutorConfig config = engine::executor_config(options, model.program.trained_context);
      engine::start_executor(model, config, request.device, engine::placement_of(options), load_on_terminal());
      if (model.gpu_share != 1)
        throw Error(fmt::format("bench: {} needs a model that fits entirely on one GPU", option), Error::kUsage);
      fmt::print("{}, {}\n", name, model.executor->description());
      if (calibrates) return calibrate(model, steps);
      for (const int64_t tokens : steps) {
        const std::vector<measure::RegretRow> rows =
            measure::measure_regret(*model.executor, model.program, tokens, 4 * request.repetitions);
        fmt::print("\n{}", measure::regret_table(rows, verbose));
        std::fflush(stdout);
      }
    });
  }

  void calibrate(engine::LoadedModel& model, const std::vector<int64_t>& steps) const {
    const measure::Calibration found =
        measure::calibrate(*model.executor, model.program, steps, 2 * request.repetitions,
                           [](int64_t tokens) { note(fmt::format("measured steps of {} tokens", tokens)); });
    fmt::print("\n| {:>6} | {:>9} | {:>10} | {:>7} |\n| -----: | --------: | ---------: | ------: |\n", "tokens",
               "before", "calibrated", "gain");
    for (const measure::Calibration::Step& step : found.steps)
      fmt::print("| {:>6} | {:>6.2f} ms | {:>7.2f} ms | {:>5.1f} % |\n", step.tokens, step.before_us * 1e-3,
                 step.after_us * 1e-3, 100 * (1 - step.after_us / step.before_us));
    const std::string gpu = kernels::cuda::device_info(model.gpus[0]).name;
    engine::keep_way_factors(gpu, found.factors);
    if (found.factors.empty()) return note("the default choice of kernels is already the best; nothing saved");
    std::string factors;
    for (const auto& [way, factor] : found.factors) factors += fmt::format(" {} x {:.2f}", way, factor);
    note(fmt::format("saved for {}:{}", gpu, factors));
  }

  // The vocabulary is for code that reads text.
  void save_model(const gguf::File& file, int64_t vocab) const {
    gguf::Metadata metadata = gguf::Metadata::of(file);
    models::add_byte_vocabulary(metadata, vocab);
    gguf::Writer writer(save, metadata, gguf::tensor_infos(file));
    for (const gguf::Tensor& tensor : file.tensors()) writer.write(tensor.data);
    writer.finish();
    note(fmt::format("saved {}", save));
  }

  void add(const measure::BenchRow& row) {
    if (output == "jsonl") print_bench_json_line(row);
    rows.push_back(row);
  }
};

} // namespace

void add_bench_command(CLI::App& app) {
  auto o = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "measure prompt and generation speed against the memory roofline");
  command->footer("N is one value or a list: 512 or 512,1024 or 128-512+128 or 128-1024*2");
  command->add_option("-m,--model", o->request.files, "GGUF file or name (repeatable; default: the built-in guide)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name(kModelType);
  command->add_option("--shape", o->request.shapes, "use a synthetic model instead, e.g. llama-1b:Q4_K_M (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME:TYPE");
  command->add_option("--save", o->save, "also write the synthetic model as a GGUF file")->type_name("FILE");
  command->add_option("--device", o->request.device, "auto (the GPU if there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  const auto list = [&](const char* name, std::string& variable, const char* help, const char* type = "N") {
    command->add_option(name, variable, help)->capture_default_str()->type_name(type);
  };
  list("-p,--n-prompt", o->request.prompts, "prompt tokens; 0: skip the prompt test");
  list("-n,--n-gen", o->request.generated, "generated tokens; 0: skip the generation test");
  list("-d,--n-depth", o->request.depths, "tokens already in the context");
  list("--batch", o->request.streams, "sequences generated in parallel");
  list("--verify", o->request.verified,
       "also measure steps of N tokens of one sequence with logits for each, as in verifying drafts");
  CLI::Option* clients = command
                             ->add_option("--clients", o->request.load.clients,
                                          "instead: simulate N concurrent clients that send requests of -p and -n "
                                          "tokens to the scheduler of ridge serve")
                             ->check(CLI::Range(1, 1024))
                             ->type_name("N");
  command
      ->add_option("--requests", o->request.load.requests,
                   "with --clients: total number of requests (default: 4 per client)")
      ->check(CLI::Range(1, 1000000))
      ->needs(clients)
      ->type_name("N");
  command
      ->add_option("--parallel", o->request.load.streams,
                   "with --clients: maximum number of requests evaluated at once (default: all)")
      ->check(CLI::Range(1, 1024))
      ->needs(clients)
      ->type_name("N");
  command
      ->add_option("--shared", o->request.load.shared,
                   "with --clients: length of a prefix shared by all prompts, in tokens")
      ->check(CLI::Range(0, 1 << 20))
      ->needs(clients)
      ->type_name("N");
  command
      ->add_option("--arrivals", o->request.load.arrivals,
                   "with --clients: requests per second, arriving at random times (default: each client sends its next "
                   "request after an answer)")
      ->check(CLI::PositiveNumber)
      ->needs(clients)
      ->type_name("R");
  CLI::Option* image =
      command
          ->add_option("--image", o->request.image,
                       "instead: time encoding an image of this size and generating the first token of an answer")
          ->excludes(clients)
          ->type_name("WxH");
  command
      ->add_option("--audio", o->request.sound_seconds,
                   "instead: time encoding this many seconds of audio and generating the first token of an answer")
      ->excludes(clients)
      ->excludes(image)
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  command
      ->add_option("--mmproj", o->request.mmproj,
                   "with --image or --audio: the encoder file (default: found next to the model)")
      ->type_name("FILE");
  command
      ->add_option(
          "--spec", o->request.speculation,
          "also measure generation with drafts that are accepted with probability P; mtp, eagle3 or dflash: drafts "
          "made by the draft heads of the file, of another file or of the guide, with the acceptance rate set by "
          "--accept")
      ->type_name("synthetic:P|mtp|eagle3|dflash");
  list("--accept", o->request.accepted, "with --spec mtp, eagle3 or dflash: probability that a draft token is accepted",
       "P");
  add_batch_invariant_option(*command, o->request.batch_invariant);
  add_adapter_options(*command, o->request.adapters);
  command
      ->add_option("--draft-model", o->request.draft_model,
                   "with --spec eagle3 or dflash: the file of the draft head (-md)")
      ->type_name(kModelType);
  list("-b,--batch-size", o->request.batches, "maximum number of prompt tokens submitted to the engine at once");
  list(
      "--ubatch-size", o->request.ubatches,
      "maximum number of prompt tokens evaluated in one forward pass (-ub); 0: all if the GPU has room, otherwise 512");
  list("--cache-type-k", o->request.k_types,
       "KV cache type for keys: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl (-ctk)", "TYPE");
  list("--cache-type-v", o->request.v_types, "KV cache type for values, as for --cache-type-k (-ctv)", "TYPE");
  list("--gpu-layers,--n-gpu-layers", o->request.gpu_layers,
       "put the last N layers, counting the output layer, on the GPU (-ngl); -1: as many as fit");
  add_gpu_room_options(*command, {o->request.experts_on_host, o->request.cpu_experts, o->request.gpu_memory,
                                  o->request.host_memory, o->request.ranks});
  list("-t,--threads", o->request.threads, "CPU threads; 0: all cores");
  command->add_option("-r,--repetitions", o->request.repetitions, "repetitions after the warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--profile", o->request.profile, "show where the time of one step goes, op by op");
  command
      ->add_option("--regret", o->regret,
                   "instead: time every matrix multiplication kernel at steps of N tokens and show how much slower the "
                   "chosen kernels are than the best (GPU)")
      ->excludes(clients)
      ->excludes(image)
      ->type_name("N");
  command
      ->add_flag(
          "--calibrate", o->calibrates,
          "instead: time every matrix multiplication kernel and save the choices that make steps faster on this GPU")
      ->excludes(clients)
      ->excludes(image)
      ->excludes("--regret");
  command->add_flag("-v,--verbose", o->verbose,
                    "with --profile: also list the step's kernels (GPU); with --regret: list every kernel tried");
  command->add_option("-o,--output", o->output, "md, csv, json or jsonl (one line per test, printed as it finishes)")
      ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  command->add_flag("--json", o->json, "same as -o json");
  command->add_flag(
      "--share", o->share,
      "print a Markdown block to share: speeds, shares of the peak, machine, driver and build, nothing personal");
  command->callback([o] { o->run(); });
}

} // namespace ridge::app
