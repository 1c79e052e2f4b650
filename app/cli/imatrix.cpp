// ridge imatrix: input magnitudes for ridge quantize --imatrix.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "convert/calibration.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/stages/split.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/machine.h"
#include "engine/loading/ranks.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace ridge::app {
namespace {

constexpr int64_t kLogitsAtOnce = 128; // 128 × 128 k × 4 bytes = 67 MB

struct ImatrixCommand {
  std::string model, text, out;
  int64_t chunk_tokens = 512, max_chunks = -1;
  int threads = 0;
  std::string device = "auto";
  bool process_output = false, parse_special = false, json = false;

  void run() const {
    engine::need_one_process("imatrix", "each rank has only a part of every matrix");
    const double start = core::seconds_now();
    engine::LoadedModel loaded = engine::open_model(model, load_on_terminal());
    core::check_output(out, {model, text});
    const int64_t tokens_per_chunk = std::min(chunk_tokens, loaded.program.trained_context);
    const auto chunks = convert::calibration_chunks(loaded.need_tokenizer(), core::read_text_file(text), parse_special,
                                                    tokens_per_chunk, max_chunks < 0 ? INT64_MAX : max_chunks);
    convert::ImatrixCollector collector(loaded.program, process_output);
    core::ExecutorConfig config;
    config.context = tokens_per_chunk;
    config.max_batch = config.max_outputs = std::min(tokens_per_chunk, kLogitsAtOnce);
    config.threads = threads;
    config.observer = &collector;
    // An observer sees one Program, so the model must be on one device.
    const bool gpu = device != "cpu" && kernels::cuda::device_info().usable;
    const bool room = device == "cuda" || (gpu && kernels::cuda::fits(loaded.program, config));
    if (gpu && !room) note("running on the CPU: the whole model does not fit the GPU");
    engine::start_executor(loaded, config, room ? device : "cpu", {.gpu_layers = core::layer_count(loaded.program) + 1},
                           load_on_terminal(), "lower -c (tokens per chunk) or use --device cpu");
    core::Executor& executor = *loaded.executor;

    Progress progress("collecting");
    double nll = 0;
    int64_t predicted = 0;
    for (size_t c = 0; c < chunks.size(); ++c) {
      const std::vector<int32_t>& tokens = chunks[c];
      // Perplexity of the second half: checks that model and text match.
      convert::run_chunk(executor, tokens, [&](int64_t position, std::span<const float> logits) {
        if (position < std::ssize(tokens) / 2 || position + 1 == std::ssize(tokens)) return;
        const float largest = *std::ranges::max_element(logits);
        double sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
        for (size_t i = 0; i < logits.size(); ++i) sum += std::exp(static_cast<double>(logits[i]) - largest);
        nll += std::log(sum) + largest - logits[static_cast<size_t>(tokens[static_cast<size_t>(position) + 1])];
        ++predicted;
      });
      progress.update(static_cast<int64_t>(c) + 1, std::ssize(chunks));
    }
    gguf::Imatrix imatrix = collector.result();
    imatrix.datasets = {text};
    imatrix.chunks = std::ssize(chunks);
    imatrix.chunk_tokens = tokens_per_chunk;
    int64_t unseen = 0;
    for (const auto& [name, entry] : imatrix.entries) unseen += std::ranges::count(entry.counts, 0.0f);
    loaded.file.check();
    imatrix.write(out);

    const double perplexity = predicted > 0 ? std::exp(nll / static_cast<double>(predicted)) : NAN;
    const double seconds = core::seconds_now() - start;
    if (json) {
      return print_report("imatrix", {{"written", out},
                                      {"entries", imatrix.entries.size()},
                                      {"chunks", imatrix.chunks},
                                      {"chunk_tokens", imatrix.chunk_tokens},
                                      {"matrices_never_used", unseen},
                                      {"perplexity", perplexity},
                                      {"elapsed_seconds", seconds}});
    }
    fmt::print("{} matrices over {} chunks of {} tokens, perplexity {:.4f}, {:.1f} s\n", imatrix.entries.size(),
               imatrix.chunks, imatrix.chunk_tokens, perplexity, seconds);
    if (unseen > 0) note(fmt::format("{} experts received no tokens; their columns get equal weights", unseen));
  }
};

} // namespace

void add_imatrix_command(CLI::App& app) {
  auto options = std::make_shared<ImatrixCommand>();
  CLI::App* command = app.add_subcommand("imatrix", "compute an importance matrix from a text, for ridge quantize");
  command->add_option("-m,--model", options->model, "GGUF file (any part of a split model) or name")
      ->type_name(kModelType)
      ->required();
  command->add_option("-f,--file", options->text, "calibration text, similar to the intended use")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", options->out, "output file")->type_name("X.gguf")->required();
  command->add_option("-c,--ctx-size", options->chunk_tokens, "tokens per chunk")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--chunks", options->max_chunks, "maximum number of chunks (default: the whole text)")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N");
  command->add_flag("--parse-special", options->parse_special,
                    "parse special tokens in the text (for chat transcripts)");
  command->add_flag("--process-output", options->process_output, "include the output matrix");
  command->add_flag("--json", options->json, "print JSON");
  command->add_option("--device", options->device, "auto (the GPU if there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command->add_option("-t,--threads", options->threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
