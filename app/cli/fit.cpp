// ridge fit: memory, placement, context and speed of a model.
#include "engine/loading/fit.h"
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/encoders.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/units.h"
#include "engine/loading/cache_offers.h"
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_reader.h"
#include "engine/speculation/speculation.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/peaks/kept_peaks.h"
#include "models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNameWidth = 17;

struct FitCommand {
  api::ModelOptions model;
  std::string memory, mmproj;
  bool measure_anew = false, json = false;

  void run() const {
    engine::check_speculation(model);
    const std::string encoder = encoder_to_use(mmproj, model.model);
    const engine::LoadedModel loaded = engine::open_generating(model, load_on_terminal());
    if (!model.draft_model.empty() && loaded.heads.empty())
      throw_error("--draft-model {}: not a draft head; check it separately with ridge fit -m", model.draft_model);
    engine::Room room = engine::free_room();
    const engine::Placement placement = engine::placement_of(model);
    const bool gpu_here = room.gpu > 0 && placement.gpu_memory == 0;
    if (placement.gpu_memory > 0) room.gpus.assign(presumed_gpus(placement, room), placement.gpu_memory);
    if (model.device == "cpu") room.without_gpus();
    if (model.device == "cuda" && room.gpu <= 0 && room.gpus.empty())
      throw_error("--device cuda: {}; to plan for another machine's GPU, give --gpu-memory",
                  kernels::cuda::device_info().problem);
    if (!memory.empty()) room.cpu = static_cast<double>(core::parse_bytes(memory, "--memory"));
    engine::Need pictures;
    if (!encoder.empty()) pictures = engine::encoder_need(encoder, model.threads);
    if (room.gpu <= 0) room.cpu -= static_cast<double>(pictures.total());
    const core::ExecutorConfig config = engine::generating_config(model, loaded.program);
    const engine::Fit fit = engine::fit(loaded.program, config, room, placement, loaded.auxiliary_models());
    bool pictures_on_gpu = false;
    if (!encoder.empty() && fit.gpu) {
      const engine::Need on_gpu = engine::encoder_need(encoder, model.threads, &room.limits);
      pictures_on_gpu = static_cast<double>(fit.gpu->total() + on_gpu.total()) <= fit.room.gpu;
      if (pictures_on_gpu) pictures = on_gpu;
    }
    const std::vector<engine::CacheOffer> offers = engine::cache_offers(loaded.program, fit); // advice has the first
    const std::string advice =
        fit.fits ? "" : engine::what_would_fit(loaded.program, fit, models::parameter_count(loaded.file), offers);

    // Only for local devices; the bandwidth of others is unknown.
    const double cpu_bandwidth = fit.cpu && fit.fits ? bandwidth(engine::Device::cpu) : 0;
    const double gpu_bandwidth = fit.gpu && fit.fits && gpu_here ? bandwidth(engine::Device::cuda) : 0;
    const bool can_be_known = fit.fits && fit.experts == 0 && (!fit.gpu || gpu_here);
    const bool known = can_be_known && (!fit.gpu || gpu_bandwidth > 0) && (!fit.cpu || cpu_bandwidth > 0);
    const auto speed = [&](double cpu_bytes, double gpu_bytes) {
      return 1 / ((fit.cpu ? cpu_bytes / cpu_bandwidth : 0) + (fit.gpu ? gpu_bytes / gpu_bandwidth : 0));
    };
    const double fastest = known ? speed(fit.cpu_bytes, fit.gpu_bytes) : 0;
    const double slowest = known ? speed(fit.full_cpu_bytes, fit.full_gpu_bytes) : 0;
    if (json) return print_json(loaded, fit, advice, offers, fastest, slowest, encoder, pictures, pictures_on_gpu);

    const auto row = [](const char* what, const std::string& text) { print_row(what, kNameWidth, text); };
    row("model", model_title(loaded.file));
    for (const engine::RankFit& rank : fit.ranks) print_rank(rank, fit.layers, row);
    if (fit.ranks.empty()) print_device("GPU", fit.gpu, fit.room.gpu, fit.gpu_layers, fit.layers);
    if (fit.experts > 0)
      print_experts(fit, room.cpu, row);
    else
      print_device("CPU", fit.cpu, room.cpu, fit.layers - fit.gpu_layers, fit.layers);
    for (const auto& [name, need] : {std::pair("GPU", fit.heads.gpu), std::pair("CPU", fit.heads.cpu)})
      if (need.total() > 0)
        row(loaded.encoder ? "encoder" : "draft heads", fmt::format("on the {}: {}", name, parts_of(need)));
    if (!encoder.empty()) {
      const engine::Senses senses = engine::senses_of(encoder);
      const std::string picture = fmt::format("one image of {0} × {0} pixels", engine::kPlannedSide);
      const std::string sound = fmt::format("{} seconds of audio", engine::kPlannedSamples / models::sound::kRate);
      row(senses.pictures ? "images" : "audio", fmt::format("on the {}, for {}: {}", pictures_on_gpu ? "GPU" : "CPU",
                                                            !senses.sounds     ? picture
                                                            : !senses.pictures ? sound
                                                                               : picture + ", or " + sound,
                                                            parts_of(pictures)));
    }
    row("KV cache", fmt::format("{} per additional 1,000 tokens", core::human_bytes(1000 * fit.cache_per_token)));
    row("context", fmt::format("{} tokens; at most {} fit (trained for {})", config.context, fit.largest_context,
                               loaded.program.trained_context));
    if (known)
      row("speed", fmt::format("at most {:.1f} tokens/s, {:.1f} with a full context (from measured memory bandwidth)",
                               fastest, slowest));
    else if (can_be_known)
      row("speed", "unknown until memory bandwidth is measured: run ridge fit --measure");
    row("fits", fit.fits ? "yes" : "no: " + advice);
    for (size_t i = 1; i < offers.size(); ++i)
      row("or", fmt::format("{} with {}; {:.2g} of 100 tokens, {:.2g} nats", engine::flags_of(offers[i]),
                            core::human_bytes(static_cast<double>(offers[i].bytes)), 100 * (1 - offers[i].same_top),
                            offers[i].nats));
  }

  // Bytes per second, measured earlier; 0: unknown.
  double bandwidth(engine::Device on) const {
    const int threads = on == engine::Device::cpu ? model.threads : 0;
    if (measure_anew) return measure::measure_and_keep_read_peak(on, threads);
    const auto kept = measure::stored_read_peak(measure::device_name(on, threads));
    return kept ? kept->best : 0;
  }

  static size_t presumed_gpus(const engine::Placement& placement, const engine::Room& room) {
    constexpr int64_t kMax = 64;
    int64_t count = std::max<int64_t>(std::ssize(room.gpus), 1);
    for (const int gpu : placement.gpus) count = std::max(count, int64_t{gpu} + 1);
    return static_cast<size_t>(
        std::min(kMax, std::max(count, int64_t{placement.stages} * std::max(placement.ranks, 1))));
  }

  template <typename Row>
  static void print_rank(const engine::RankFit& rank, int32_t layers, const Row& row) {
    const std::string part = rank.ranks == 1 ? "" : fmt::format(", rank {} of {}", rank.rank + 1, rank.ranks);
    const std::string which = rank.stages == 1
                                  ? fmt::format("{} of {} layers", rank.end_layer, layers)
                                  : fmt::format("layers {} to {} of {}", rank.first_layer + 1, rank.end_layer, layers);
    row(fmt::format("GPU {}", rank.gpu).c_str(),
        fmt::format("{}{}: {} of {} free", which, part, parts_of(rank.need), core::human_bytes(rank.room)));
  }

  template <typename Row>
  static void print_experts(const engine::Fit& fit, double free_bytes, const Row& row) {
    const std::string taken = fmt::format("{} of {} free", core::human_bytes(static_cast<double>(fit.cpu->total())),
                                          core::human_bytes(free_bytes));
    if (fit.host_experts == fit.experts)
      return row("host memory", fmt::format("{} experts per layer, {} of them also cached on the GPU: {}", fit.experts,
                                            fit.copies, taken));
    row("host memory", fmt::format("{} of {} experts per layer, plus {} on the GPU: {}", fit.host_experts, fit.experts,
                                   fit.copies, taken));
    row("file", fmt::format("experts that do not fit in memory are read when needed: {} of {} per layer",
                            fit.experts_in_file_only(), fit.experts));
  }

  static void print_device(const char* name, const std::optional<engine::Need>& need, double room, int32_t layers,
                           int32_t all) {
    if (need)
      print_row(name, kNameWidth,
                fmt::format("{} of {} layers: {} of {} free", layers, all, parts_of(*need), core::human_bytes(room)));
  }

  static std::string parts_of(const engine::Need& need) {
    const auto size = [](int64_t bytes) { return core::human_bytes(static_cast<double>(bytes)); };
    std::string parts = fmt::format("{} weights, {} KV cache", size(need.weights), size(need.cache));
    if (need.state > 0) parts += fmt::format(", {} recurrent state", size(need.state));
    parts += fmt::format(", {} scratch", size(need.scratch));
    if (need.reserve > 0) parts += fmt::format(", {} kept free", size(need.reserve));
    return fmt::format("{}: {}", parts, size(need.total()));
  }

  void print_json(const engine::LoadedModel& loaded, const engine::Fit& fit, const std::string& advice,
                  const std::vector<engine::CacheOffer>& offers, double fastest, double slowest,
                  const std::string& encoder, const engine::Need& pictures, bool pictures_on_gpu) const {
    const auto device = [](const std::optional<engine::Need>& need, double room) {
      if (!need) return Json();
      return Json{{"weight_bytes", need->weights},
                  {"cache_bytes", need->cache},
                  {"state_bytes", need->state},
                  {"scratch_bytes", need->scratch},
                  {"reserve_bytes", need->reserve},
                  {"total_bytes", need->total()},
                  {"free_bytes", room}};
    };
    Json gpus = Json::array();
    for (const engine::RankFit& rank : fit.ranks) {
      Json own = device(rank.need, rank.room);
      own.update({{"gpu", rank.gpu},
                  {"first_layer", rank.first_layer},
                  {"end_layer", rank.end_layer},
                  {"rank", rank.rank},
                  {"ranks", rank.ranks}});
      gpus.push_back(std::move(own));
    }
    Json caches = Json::array();
    for (const engine::CacheOffer& offer : offers)
      caches.push_back({{"cache_type_k", core::format_of(offer.keys).name},
                        {"cache_type_v", core::format_of(offer.values).name},
                        {"cache_bytes", offer.bytes},
                        {"kld_mean_nats", offer.nats},
                        {"same_top_share", offer.same_top}});
    double room = fit.ranks.empty() ? fit.room.gpu : 0;
    for (const engine::RankFit& rank : fit.ranks) room += rank.room;
    print_report("fit", {{"file", loaded.file.path()},
                         {"label", models::model_label(loaded.file)},
                         {"fits", fit.fits},
                         {"advice", advice},
                         {"smaller_caches", caches},
                         {"layers", fit.layers},
                         {"gpu_layers", fit.gpu_layers},
                         {"experts_on_host", fit.host_experts},
                         {"experts_in_file_only", fit.experts_in_file_only()},
                         {"expert_copies_on_gpu", fit.copies},
                         {"gpu", device(fit.gpu, room)},
                         {"gpus", gpus},
                         {"cpu", device(fit.cpu, fit.room.cpu)},
                         {"draft_heads", std::ssize(loaded.heads)},
                         {"draft_heads_gpu_bytes", fit.heads.gpu.total()},
                         {"draft_heads_cpu_bytes", fit.heads.cpu.total()},
                         {"mmproj", encoder},
                         {"pictures_on_gpu", pictures_on_gpu},
                         {"pictures_weight_bytes", pictures.weights},
                         {"pictures_scratch_bytes", pictures.total() - pictures.weights},
                         {"cache_bytes_per_token", fit.cache_per_token},
                         {"context_tokens", fit.config.context},
                         {"largest_context_tokens", fit.largest_context},
                         {"trained_context_tokens", loaded.program.trained_context},
                         {"tokens_per_second", fastest},
                         {"tokens_per_second_full_context", slowest}});
  }
};

} // namespace

void add_fit_command(CLI::App& app) {
  auto options = std::make_shared<FitCommand>();
  CLI::App* command =
      app.add_subcommand("fit", "show how much memory a model needs, where it goes, and the expected speed");
  add_model_options(*command, options->model, true);
  command
      ->add_option(
          "--spec", options->model.speculation,
          "speculative decoding method, as for run and chat: decides whether the file's draft heads are counted")
      ->check(CLI::IsMember({"auto", "off", "mtp", "ngram"}))
      ->capture_default_str()
      ->type_name("METHOD");
  command->add_option("--draft-model", options->model.draft_model, "an EAGLE-3 or DFlash head to include (-md)")
      ->type_name(kModelType);
  command
      ->add_option("--mmproj", options->mmproj,
                   "image or audio encoder to include, or none (default: the one next to the model)")
      ->type_name("FILE");
  command->get_option("--gpu-memory")->description("assume that each GPU has this much free memory, such as 24GiB");
  command->add_option("--memory", options->memory, "assume that this much CPU memory is free")->type_name("SIZE");
  command->add_flag("--measure", options->measure_anew,
                    "measure memory bandwidth again, for some seconds (default: use the best earlier measurement, "
                    "including those of roofline and doctor)");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
