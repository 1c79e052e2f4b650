// ridge perplexity. The text is cut into chunks of -c tokens (with BOS if the model adds it); the second half of each
// chunk is scored. The reference is a model (--against) or an earlier run's file (--kl-divergence-base).
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "engine/adapters/adapters.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/machine.h"
#include "engine/options.h"
#include "measure/logits_base.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kOutputsAtOnce = 128; // 128 × 128 k × 4 bytes = 66 MB

class Reader {
 public:
  Reader(const std::string& path, const api::ModelOptions& options, int64_t context, bool exact)
      : model(engine::with_adapters(engine::open_model(path, load_on_terminal()), options.adapters)) {
    core::ExecutorConfig config = engine::executor_config(options, model.program.trained_context);
    config.context = context;
    config.max_batch = std::min(config.max_batch, context);
    config.max_outputs = std::min(config.max_batch, kOutputsAtOnce);
    config.exact = exact;
    engine::start_executor(model, config, options.device, engine::placement_of(options), load_on_terminal());
  }

  // Evaluates chunk[at, at + count); logits from `first_wanted` on.
  void feed(std::span<const int32_t> chunk, int64_t at, int64_t count, int64_t first_wanted) {
    positions_.resize(count);
    std::iota(positions_.begin(), positions_.end(), static_cast<int32_t>(at));
    outputs_.clear();
    for (int64_t i = std::max(at, first_wanted); i < at + count; ++i) outputs_.push_back(static_cast<int32_t>(i - at));
    model.executor->forward({chunk.subspan(at, count), positions_, {}, outputs_});
    logits.clear();
    for (int64_t i = 0; i < std::ssize(outputs_); ++i) logits.push_back(model.executor->logits(i));
  }

  engine::LoadedModel model;
  std::vector<std::span<const float>> logits;

 private:
  std::vector<int32_t> positions_, outputs_;
};

struct PerplexityCommand {
  api::ModelOptions model;
  std::string file, ids, against, base;
  std::string text; // standard input can be read once
  int64_t context = 512, chunks = -1;
  uint32_t top = 128;
  bool parse_special = false, divergence = false, exact = false, json = false;
  CLI::Option *context_given = nullptr, *k_type_given = nullptr, *v_type_given = nullptr;

  void run() {
    check_usage();
    if (exact && !k_type_given->count()) model.k_type = "f32";
    if (exact && !v_type_given->count()) model.v_type = "f32";
    if (!base.empty() && !divergence) core::check_output(base, {model.model, file, ids});
    std::optional<measure::LogitsBase> reference_file;
    if (divergence) {
      reference_file.emplace(base);
      if (context_given->count() && context != reference_file->header().context)
        throw_error("-c {}: does not match {}, made with -c {}", context, base, reference_file->header().context);
      context = reference_file->header().context;
    }
    Reader reader(model.model, model, context, exact);
    const int64_t vocab = reader.model.program.vocab;
    std::vector<int32_t> tokens;
    int32_t bos = -1;
    if (reference_file) {
      if (reference_file->header().vocab != vocab)
        throw_error("{}: made for a vocabulary of {} tokens, but {} has {}", base, reference_file->header().vocab,
                    model.model, vocab);
      tokens.assign(reference_file->tokens().begin(), reference_file->tokens().end());
      bos = reference_file->header().bos;
    } else {
      text = core::read_text_file(ids.empty() ? file : ids);
      tokens = read_tokens(reader.model);
      if (reader.model.tokenizer && reader.model.tokenizer->add_bos()) bos = reader.model.tokenizer->bos();
    }
    int64_t count = std::ssize(tokens) / context;
    if (chunks > 0) count = std::min(count, chunks);
    if (count == 0)
      throw_error("the text has {} tokens, fewer than one chunk of {}: give a longer text or a smaller -c",
                  tokens.size(), context);
    tokens.resize(count * context);

    std::optional<Reader> reference;
    if (!against.empty()) {
      reference.emplace(against, model, context, exact);
      check_same_tokens(reader.model, reference->model, tokens);
    }
    std::optional<measure::LogitsBaseWriter> writer;
    if (!base.empty() && !divergence) {
      measure::LogitsBaseHeader header;
      header.vocab = static_cast<uint32_t>(vocab);
      header.context = static_cast<uint32_t>(context);
      header.chunks = static_cast<uint32_t>(count);
      header.top = std::min(top, header.vocab);
      header.bos = bos;
      writer.emplace(base, header, tokens);
      note(fmt::format("{}: {} bytes", base, header.file_bytes()));
    }

    const double start = core::seconds_now();
    Progress progress("perplexity");
    measure::Perplexity perplexity;
    std::vector<measure::PositionScore> scores;
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      std::vector<int32_t> ids(tokens.begin() + chunk * context, tokens.begin() + (chunk + 1) * context);
      if (bos >= 0) ids[0] = bos;
      const auto show = [&](int64_t at) { progress.update(chunk * context + at, count * context); };
      const std::vector<measure::PositionScore> added =
          score_chunk(ids, chunk, reader, reference ? &*reference : nullptr,
                      reference_file ? &*reference_file : nullptr, writer ? &*writer : nullptr, show);
      for (const measure::PositionScore& s : added) {
        check_score(s, chunk, reference ? against : base);
        perplexity.add(s.log_probability);
      }
      scores.insert(scores.end(), added.begin(), added.end());
      progress.say(fmt::format("{:.4f} after chunk {} of {}", perplexity.value().value, chunk + 1, count));
      show(context);
    }
    progress.clear();
    if (writer) {
      reader.model.file.check();
      writer->finish();
    }
    const double seconds = core::seconds_now() - start;
    const bool compared = reference || reference_file;
    if (json)
      print_json(reader.model, perplexity, compared ? measure::report(scores) : measure::DivergenceReport{}, count,
                 seconds);
    else
      print_text(perplexity, compared ? measure::report(scores) : measure::DivergenceReport{}, reader.model, seconds);
  }

  void check_score(const measure::PositionScore& score, int64_t chunk, const std::string& other) const {
    const auto refuse = [&](const std::string& name) {
      throw_error("{}: logits in chunk {} are NaN or infinite: the file is damaged or contains values that overflow",
                  name, chunk + 1);
    };
    if (!std::isfinite(score.log_probability)) refuse(model.model);
    if (!std::isfinite(score.reference_log_probability)) refuse(other);
    if (!std::isfinite(score.divergence)) refuse(model.model);
  }

  void check_usage() const {
    const auto usage = [](const char* message) { throw Error(fmt::format("perplexity: {}", message), Error::kUsage); };
    if (divergence && base.empty()) usage("--kl-divergence needs --kl-divergence-base FILE");
    if (divergence && (!file.empty() || !ids.empty()))
      usage("the base file contains the text: leave out -f and --ids-file");
    if (!divergence && file.empty() == ids.empty()) usage("give a text: -f FILE, or token ids: --ids-file FILE");
  }

  std::vector<int32_t> read_tokens(const engine::LoadedModel& loaded) const {
    std::vector<int32_t> tokens =
        ids.empty() ? loaded.need_tokenizer().encode(text, {.add_special = true, .parse_special = parse_special})
                    : parse_ids(text, "--ids-file");
    for (const int32_t token : tokens)
      if (token >= loaded.program.vocab)
        throw_error("token {} is outside the vocabulary (0 to {})", token, loaded.program.vocab - 1);
    return tokens;
  }

  void check_same_tokens(const engine::LoadedModel& a, const engine::LoadedModel& b,
                         std::span<const int32_t> tokens) const {
    if (a.program.vocab != b.program.vocab)
      throw_error("--against: {} has a vocabulary of {} tokens, {} one of {}", against, b.program.vocab, model.model,
                  a.program.vocab);
    if (file.empty() || !b.tokenizer) return;
    const auto other = read_tokens(b);
    if (std::ssize(other) < std::ssize(tokens) || !std::equal(tokens.begin(), tokens.end(), other.begin()))
      throw_error("--against: {} tokenizes this text differently than {}", against, model.model);
  }

  std::vector<measure::PositionScore> score_chunk(std::span<const int32_t> ids, int64_t chunk, Reader& reader,
                                                  Reader* reference, const measure::LogitsBase* reference_file,
                                                  measure::LogitsBaseWriter* writer,
                                                  const std::function<void(int64_t at)>& show) const {
    const int64_t first = measure::first_scored(context),
                  end = context - 1; // the last token has no successor
    const int64_t max_batch = reader.model.executor->config().max_batch;
    const int64_t max_outputs = reader.model.executor->config().max_outputs;
    std::vector<measure::PositionScore> scores(measure::scored_positions(context));
    std::vector<measure::TopDistribution::Entry> entries;
    std::vector<measure::TopDistribution> distributions;
    for (int64_t at = 0; at < end;) {
      show(at);
      const int64_t count = std::min({max_batch, end - at, std::max(first, at) - at + max_outputs});
      reader.feed(ids, at, count, first);
      if (reference) reference->feed(ids, at, count, first);
      const int64_t wanted = std::ssize(reader.logits), scored = at + count - wanted - first;
      const size_t kept = writer ? std::min<size_t>(top, reader.model.program.vocab) : 0;
      entries.resize(wanted * kept);
      distributions.resize(wanted);
#pragma omp parallel for
      for (int64_t i = 0; i < wanted; ++i) {
        const std::span<const float> logits = reader.logits[i];
        const int32_t next = ids[first + scored + i + 1];
        measure::PositionScore& score = scores[scored + i];
        if (reference)
          score = measure::compare(logits, reference->logits[i], next);
        else if (reference_file)
          score = measure::compare(logits, reference_file->at(chunk, scored + i), next);
        else
          score.log_probability = measure::log_probability(logits, next);
        if (writer) distributions[i] = measure::reduce(logits, next, std::span(entries).subspan(i * kept, kept));
      }
      if (writer)
        for (const measure::TopDistribution& d : distributions) writer->add(d);
      at += count;
    }
    return scores;
  }

  void print_text(const measure::Perplexity& perplexity, const measure::DivergenceReport& r,
                  const engine::LoadedModel& loaded, double seconds) const {
    const measure::Estimate ppl = perplexity.value();
    fmt::print("Final estimate: PPL = {:.4f} +/- {:.5f}\n", ppl.value, ppl.error);
    if (r.positions > 0) {
      const auto line = [](const char* name, measure::Estimate e) {
        fmt::print("{:<30}: {:10.6f} ± {:.6f}\n", name, e.value, e.error);
      };
      const auto number = [](const char* name, double v) { fmt::print("{:<30}: {:10.6f}\n", name, v); };
      const auto percent = [](const char* name, measure::Estimate e) {
        fmt::print("{:<30}: {:7.3f} ± {:.3f} %\n", name, 100 * e.value, 100 * e.error);
      };
      fmt::print("\n====== Perplexity ======\n");
      line("Mean PPL(Q)", r.perplexity);
      line("Mean PPL(base)", r.reference_perplexity);
      line("Mean ln(PPL(Q)/PPL(base))", r.log_ratio);
      fmt::print("\n====== KL divergence, nats ======\n");
      line("Mean    KLD", r.divergence);
      number("Maximum KLD", r.divergence_max);
      number("99.9%   KLD", r.divergence_99_9);
      number("99.0%   KLD", r.divergence_99);
      number("95.0%   KLD", r.divergence_95);
      number("Median  KLD", r.divergence_median);
      number(" 5.0%   KLD", r.divergence_5);
      number("Minimum KLD", r.divergence_min);
      fmt::print("\n====== Token probabilities ======\n");
      percent("Mean    Δp", r.probability_change);
      fmt::print("{:<30}: {:7.3f} %\n", "RMS     Δp", 100 * r.probability_change_rms);
      percent("Same top token", r.same_top);
    }
    note(fmt::format("{}; {} tokens scored in {:.1f} s", loaded.executor->description(), perplexity.count(), seconds));
  }

  void print_json(const engine::LoadedModel& loaded, const measure::Perplexity& perplexity,
                  const measure::DivergenceReport& r, int64_t count, double seconds) const {
    const measure::Estimate ppl = perplexity.value(), nats = perplexity.nats();
    Json out = {{"model", loaded.program.label},
                {"file", model.model},
                {"backend", loaded.executor->description()},
                {"exact", exact},
                {"context_tokens", context},
                {"chunks", count},
                {"scored_tokens", perplexity.count()},
                {"perplexity", ppl.value},
                {"perplexity_standard_error", ppl.error},
                {"nats_per_token", nats.value},
                {"nats_per_token_standard_error", nats.error},
                {"elapsed_seconds", seconds}};
    if (r.positions > 0)
      out["divergence"] = {{"reference", against.empty() ? base : against},
                           {"lower_bound_by_top_tokens", divergence},
                           {"reference_perplexity", r.reference_perplexity.value},
                           {"log_perplexity_ratio", r.log_ratio.value},
                           {"log_perplexity_ratio_standard_error", r.log_ratio.error},
                           {"kld_mean_nats", r.divergence.value},
                           {"kld_mean_standard_error_nats", r.divergence.error},
                           {"kld_median_nats", r.divergence_median},
                           {"kld_p95_nats", r.divergence_95},
                           {"kld_p99_nats", r.divergence_99},
                           {"kld_p99_9_nats", r.divergence_99_9},
                           {"kld_max_nats", r.divergence_max},
                           {"kld_min_nats", r.divergence_min},
                           {"same_top_share", r.same_top.value},
                           {"same_top_share_standard_error", r.same_top.error},
                           {"probability_change_mean", r.probability_change.value},
                           {"probability_change_rms", r.probability_change_rms}};
    print_report("perplexity", out);
  }
};

} // namespace

void add_perplexity_command(CLI::App& app) {
  auto options = std::make_shared<PerplexityCommand>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "measure how well a model predicts a text, or how far it diverges from another model");
  add_model_options(*command, options->model, true);
  command->remove_option(command->get_option("--ctx-size"));
  options->k_type_given = command->get_option("--cache-type-k");
  options->v_type_given = command->get_option("--cache-type-v");
  options->context_given =
      command->add_option("-c,--ctx-size", options->context, "tokens per chunk; the second half is scored")
          ->check(CLI::Range(int64_t{8}, int64_t{1} << 20))
          ->capture_default_str()
          ->type_name("N");
  command->add_option("-f,--file", options->file, "the text (-: standard input)")->type_name("FILE");
  command->add_flag("--parse-special", options->parse_special,
                    "parse special tokens in the text (for chat transcripts)");
  command
      ->add_option("--ids-file", options->ids, "file with token ids instead of a text, for models without a tokenizer")
      ->type_name("FILE");
  command->add_option("--chunks", options->chunks, "maximum number of chunks (default: all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->type_name("N");
  CLI::Option* against =
      command->add_option("--against", options->against, "compare with this model token by token in the same run")
          ->type_name(kModelType);
  command
      ->add_option("--kl-divergence-base", options->base,
                   "write the model's most likely tokens to this file; with --kl-divergence: compare with them")
      ->type_name("FILE")
      ->excludes(against);
  command->add_flag("--kl-divergence", options->divergence, "compare with the base file");
  command->add_option("--kl-top", options->top, "tokens per position in the base file, 8 bytes each")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->type_name("K");
  command->add_flag("--exact", options->exact,
                    "no activation quantization, and an F32 KV cache unless -ctk and -ctv choose another");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
