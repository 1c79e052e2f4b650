#include "measure/bench_plan.h"

#include "core/error.h"
#include "core/kv_type.h"
#include "engine/speculation/speculator.h"
#include "measure/count_list.h"

#include <algorithm>
#include <cstdlib>

namespace ridge::measure {
namespace {

constexpr int64_t kMaxTokens = 1 << 20;

std::vector<int64_t> layer_counts(const std::string& list) {
  if (list == "-1") return {-1};
  return parse_counts(list, "--gpu-layers", 0, 100000);
}

std::vector<BenchSetting> plan_settings(const api::BenchRequest& r) {
  const std::vector<std::string> types = core::kv_type_names();
  std::vector<BenchSetting> settings;
  for (const int64_t batch : parse_counts(r.batches, "--batch-size", 1, 1 << 20))
    for (const int64_t ubatch : parse_counts(r.ubatches, "--ubatch-size", 0, 1 << 16))
      for (const int64_t threads : parse_counts(r.threads, "--threads", 0, 1024))
        for (const std::string& k_type : parse_words(r.k_types, "--cache-type-k", types))
          for (const std::string& v_type : parse_words(r.v_types, "--cache-type-v", types))
            for (const int64_t layers : layer_counts(r.gpu_layers))
              for (const int64_t streams : parse_counts(r.streams, "--batch", 1, 4096))
                settings.push_back({batch, ubatch, threads, streams, layers, k_type, v_type});
  return settings;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

// In [0, 1], or -1.
double parse_probability(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && value >= 0 && value <= 1 ? value : -1;
}

// "synthetic:0.8,synthetic:0.5,mtp"
void plan_guesses(BenchPlan& plan, const api::BenchRequest& request) {
  constexpr std::string_view kPrefix = "synthetic:";
  for (const std::string& word : words_of(request.speculation)) {
    if (word == "mtp" || word == "eagle3" || word == "dflash") {
      if (!plan.heads.empty()) throw Error("--spec: only one of mtp, eagle3 and dflash may be given", Error::kUsage);
      plan.heads = word;
      continue;
    }
    const double right = word.starts_with(kPrefix) ? parse_probability(word.substr(kPrefix.size())) : -1;
    if (right < 0)
      throw Error(
          fmt::format(
              "--spec: expected mtp, eagle3, dflash or synthetic:P with an acceptance rate P from 0 to 1, found '{}'",
              word),
          Error::kUsage);
    plan.acceptances.push_back(right);
  }
  if (!plan.heads.empty() && request.accepted.empty())
    throw Error(fmt::format("--spec {}: needs an acceptance rate, such as --accept 0.8", plan.heads), Error::kUsage);
  if (plan.heads.empty() && !request.accepted.empty())
    throw Error("--accept: needs --spec mtp, eagle3 or dflash", Error::kUsage);
  const bool own_file = plan.heads == "eagle3" || plan.heads == "dflash";
  const bool of_guide = request.files.empty() && request.shapes.empty(); // which has an EAGLE-3 head
  if (own_file && request.draft_model.empty() && (of_guide ? plan.heads == "dflash" : !request.files.empty()))
    throw Error(fmt::format("--spec {}: needs the head's file; give it with --draft-model FILE", plan.heads),
                Error::kUsage);
  if (!request.draft_model.empty() && (!own_file || request.files.size() > 1 || !request.shapes.empty()))
    throw Error("--draft-model: needs --spec eagle3 or dflash and a single model", Error::kUsage);
  for (const std::string& word : words_of(request.accepted)) {
    plan.head_acceptances.push_back(parse_probability(word));
    if (plan.head_acceptances.back() < 0)
      throw Error(fmt::format("--accept: '{}' is not a number from 0 to 1", word), Error::kUsage);
  }
}

} // namespace

size_t BenchPlan::tests_of(const BenchSetting& setting) const {
  const size_t of_one =
      prompts.size() + verified.size() + (acceptances.size() + head_acceptances.size()) * generated.size();
  return (generated.size() + (runs_single_stream_tests(setting) ? of_one : 0)) * depths.size();
}

int64_t BenchPlan::tests_of_model() const {
  size_t tests = 0;
  for (const BenchSetting& setting : settings) tests += tests_of(setting);
  return static_cast<int64_t>(tests);
}

int64_t BenchPlan::most_outputs(const BenchSetting& setting) const {
  const int64_t guessing = acceptances.empty() && head_acceptances.empty() ? 0 : engine::kMaxGuesses + 1;
  return std::max({setting.streams, guessing, verified.empty() ? 0 : std::ranges::max(verified)});
}

int64_t BenchPlan::longest(bool single) const {
  int64_t most = 1;
  for (const std::vector<int64_t>* list : {&generated, single ? &prompts : nullptr, single ? &verified : nullptr})
    if (list && !list->empty()) most = std::max(most, std::ranges::max(*list));
  return most;
}

api::ModelOptions model_options(const api::BenchRequest& request, const BenchSetting& setting) {
  api::ModelOptions options;
  options.batch = setting.batch;
  options.ubatch = setting.ubatch;
  options.threads = static_cast<int>(setting.threads);
  options.k_type = setting.k_type;
  options.v_type = setting.v_type;
  options.gpu_layers = setting.gpu_layers;
  options.experts_on_host = request.experts_on_host;
  options.cpu_experts = request.cpu_experts;
  options.gpu_memory = request.gpu_memory;
  options.host_memory = request.host_memory;
  options.ranks = request.ranks;
  options.batch_invariant = request.batch_invariant;
  return options;
}

BenchPlan plan_bench(const api::BenchRequest& request, const BenchNames& names) {
  const auto parse = [](const std::string& list, const std::string& name) {
    return parse_counts(list, name.c_str(), 0, kMaxTokens);
  };
  BenchPlan plan;
  plan.prompts = parse(request.prompts, names.prompts);
  plan.generated = parse(request.generated, names.generated);
  plan.depths = parse(request.depths, names.depths);
  if (!request.verified.empty()) plan.verified = parse_counts(request.verified, "--verify", 1, 64);
  plan_guesses(plan, request);
  std::erase(plan.prompts, 0);
  std::erase(plan.generated, 0);
  if (plan.prompts.empty() && plan.generated.empty() && plan.verified.empty())
    throw Error(fmt::format("{} 0 and {} 0 leave nothing to measure", names.prompts, names.generated), Error::kUsage);
  plan.settings = plan_settings(request);
  if (plan.settings[0].streams != 1 && (!plan.verified.empty() || !request.speculation.empty()))
    throw Error("--verify and --spec measure one sequence; the list of --batch must begin with 1", Error::kUsage);
  return plan;
}

} // namespace ridge::measure
