#include "engine/loading/loaded_model.h"

#include "core/encoding/encoder_executor.h"
#include "core/error.h"
#include "core/units.h"
#include "engine/loading/cache_offers.h"
#include "engine/loading/fit_gpus.h"
#include "engine/loading/kept_ways.h"
#include "engine/loading/machine.h"
#include "engine/loading/ranks.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/host_experts.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cpu/microbench/bandwidth.h"
#include "kernels/cuda/executor/executor.h"
#include "models/eagle.h"
#include "models/guide.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ridge::engine {

const text::Tokenizer& LoadedModel::need_tokenizer() const {
  if (!tokenizer) throw_error("{}: has no tokenizer; give token ids instead (ridge logits --ids)", file.path());
  return *tokenizer;
}

std::unique_ptr<text::Tokenizer> find_tokenizer(const gguf::File& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return nullptr;
  return text::Tokenizer::from_file(file);
}

LoadedModel open_model(gguf::File file, models::Ending ending, const gguf::File* eagle, AllowWholeTexts whole) {
  LoadedModel model{std::move(file), {}, nullptr, nullptr};
  model.program = eagle ? models::build_drafted(model.file, *eagle, ending) : models::build_program(model.file, ending);
  const bool writes = ending == models::Ending::logits || ending == models::Ending::pictures ||
                      ending == models::Ending::drafted_pictures;
  const bool wants_diffusion = core::sees_ahead(model.program) && whole == AllowWholeTexts::no;
  const bool has_mask = model.file.get_int("tokenizer.ggml.mask_token_id", -1) >= 0; // diffusion needs it
  if (writes && (model.program.embeds || (wants_diffusion && !has_mask)))
    throw_error("{}: a {} model only embeds texts; use ridge embed", model.file.path(), model.program.architecture);
  if (writes && wants_diffusion)
    throw_error("{}: a {} model is a diffusion model and has no per-token probabilities; use ridge run",
                model.file.path(), model.program.architecture);
  if (model.program.start_token >= 0) {
    if (whole == AllowWholeTexts::no)
      throw_error("{}: a {} model has an encoder and no per-token probabilities; use ridge run", model.file.path(),
                  model.program.architecture);
    model.encoder = LoadedHead{models::build_program(model.file, models::Ending::encoded)};
  }
  model.tokenizer = find_tokenizer(model.file);
  return model;
}

gguf::File open_file(const std::string& path, const LoadSteps& steps) {
  if (!path.empty()) return gguf::File::open(path);
  if (steps.note)
    steps.note("no -m FILE: using the built-in guide, which knows formats, speed and this tool; for a full model give "
               "-m model.gguf");
  return models::open_guide();
}

LoadedModel open_model(const std::string& path, const LoadSteps& steps, models::Ending ending) {
  return open_model(open_file(path, steps), ending);
}

namespace {

// Reads all weights with progress, so the first answer does not seem to hang. Skipped without free memory for them.
void read_ahead(const core::Program& program, const LoadSteps& steps) {
  constexpr size_t kPage = 4096, kChunk = size_t{16} << 20;
  const double available = available_memory();
  std::set<const std::byte*> seen;
  int64_t total = 0, done = 0;
  std::vector<std::span<const std::byte>> pieces;
  for (const core::Weight& weight : program.weights) {
    if (!seen.insert(weight.data).second) continue;
    pieces.emplace_back(weight.data, static_cast<size_t>(weight.total_bytes()));
    total += weight.total_bytes();
  }
  if (static_cast<double>(total) > available) return;
  unsigned sum = 0;
  for (const std::span<const std::byte> piece : pieces)
    for (size_t start = 0; start < piece.size(); start += kChunk) {
      const auto chunk = piece.subspan(start, std::min(kChunk, piece.size() - start));
      for (size_t at = 0; at < chunk.size(); at += kPage) sum += static_cast<unsigned>(chunk[at]);
      done += std::ssize(chunk);
      if (steps.progress) steps.progress("loading", done, total);
    }
  volatile unsigned keep = sum; // prevents removal of the reads
  (void)keep;
}

kernels::cuda::CudaOptions cuda_options(const Placement& placement, bool experts_on_host) {
  kernels::cuda::CudaOptions options;
  options.experts_on_host = experts_on_host;
  options.host_limit = placement.host_memory;
  options.memory_limit = placement.gpu_memory;
  options.device = placement.first_gpu();
  options.way_factors = kept_way_factors(kernels::cuda::device_info(options.device).name);
  return options;
}

std::unique_ptr<core::Executor> on_cuda(const core::Program& program, const core::ExecutorConfig& config,
                                        kernels::cuda::CudaOptions options, const LoadSteps& steps) {
  options.upload_progress = [&](double done, double total) {
    if (steps.progress) steps.progress("copying to the GPU", static_cast<int64_t>(done), static_cast<int64_t>(total));
  };
  return kernels::cuda::make_cuda_executor(program, config, options);
}

std::unique_ptr<core::Executor> on_cpu(const core::Program& program, const core::ExecutorConfig& config,
                                       const LoadSteps& steps) {
  read_ahead(program, steps);
  return kernels::cpu::make_cpu_executor(program, config);
}

// False without routed experts.
bool keeps_experts_on_host(const core::Program& program, const core::ExecutorConfig& config, const Placement& wanted) {
  if (wanted.gpu_layers >= 0 || expert_need(program, config).sizes.experts == 0) return false;
  return wanted.experts_on_host || !kernels::cuda::fits(program, config, cuda_options(wanted, false));
}

// On the processors of the GPU's memory node.
kernels::cuda::CpuExpertOptions cpu_experts(const core::Program& program, const core::ExecutorConfig& config,
                                            const Placement& wanted) {
  const std::string bus = kernels::cuda::device_info(wanted.first_gpu()).bus;
  return {.make = [&program, threads = config.threads, bus](std::vector<core::ExpertLayer> layers) {
    const std::vector<int> processors = kernels::cpu::processors_near(bus, kernels::cpu::usable_processors());
    return kernels::cpu::make_host_experts(program, std::move(layers), {threads, processors});
  }};
}

Room room_for(const Placement& wanted) { return free_room(wanted.first_gpu(), wanted.gpu_memory); }

// Returns false if the GPU still has no room.
bool start_with_experts_on_host(LoadedModel& model, core::ExecutorConfig config, Placement wanted,
                                const LoadSteps& steps) {
  const Room room = room_for(wanted);
  config = config_with_experts_on_host(model.program, config, room, wanted);
  const kernels::cuda::ExpertSizes sizes = expert_need(model.program, config).sizes;
  wanted.host_memory = host_memory_for(sizes, room.cpu, wanted);
  kernels::cuda::CudaOptions options = cuda_options(wanted, true);
  if (!kernels::cuda::fits(model.program, config, options)) return false;
  const bool has_room = room.cpu >= 2 * static_cast<double>(sizes.all_bytes); // page-locked, and the file's pages
  if (wanted.cpu_experts && has_room) options.cpu_experts = cpu_experts(model.program, config, wanted);
  model.executor = on_cuda(model.program, config, options, steps);
  model.gpu_share = 1;
  const core::ExpertUse use = model.executor->expert_use();
  if (!steps.note) return true;
  if (wanted.cpu_experts && use.copies < use.experts && !kernels::cuda::shares_experts_with_cpu(*model.executor))
    steps.note(has_room ? "--cpu-experts: the CPU is not sooner than the bus, or cannot compute experts of this form; "
                          "the GPU fetches all"
                        : "--cpu-experts: memory has no room for the experts and the file, too; the GPU fetches all");
  if (use.on_host < use.experts)
    steps.note(fmt::format("host memory has room for {} of the {} experts per layer and the GPU for {}; the others are "
                           "read from the file when needed, which is slow",
                           use.on_host, use.experts, use.copies));
  else if (use.copies < use.experts)
    steps.note(fmt::format("the experts are in host memory, and the GPU caches up to {} of {} per layer", use.copies,
                           use.experts));
  return true;
}

bool start_on_gpus(LoadedModel& model, const core::ExecutorConfig& config, const Placement& wanted,
                   const LoadSteps& steps) {
  if (wanted.gpu_layers >= 0 || wanted.experts_on_host) return false;
  const kernels::cuda::CudaOptions options = cuda_options(wanted, false);
  const std::vector<int> gpus = gpus_for_ranks(model.program, config, wanted.gpus, ranks_in_all(wanted), options);
  if (gpus.size() < 2) return false;
  const auto progress = [&](double done, double total) {
    if (steps.progress) steps.progress("copying to the GPUs", static_cast<int64_t>(done), static_cast<int64_t>(total));
  };
  const core::ExecutorConfig longer =
      config_with_long_batch(SharingPlan(model.program, gpus, wanted.stages), config, room_for(wanted), wanted);
  model.executor = core::make_pipeline_executor(
      model.program, longer, wanted.stages, [&](const core::Program& part, const core::ExecutorConfig& own, int stage) {
        const auto each = static_cast<std::ptrdiff_t>(gpus.size()) / wanted.stages;
        return on_gpus(part, own, {gpus.begin() + stage * each, gpus.begin() + (stage + 1) * each}, options, progress);
      });
  model.gpus = gpus;
  model.gpu_share = 1;
  return true;
}

// Returns false if not even the output fits.
bool start_on_gpu(LoadedModel& model, const core::ExecutorConfig& config, const Placement& wanted,
                  const LoadSteps& steps) {
  if (start_on_gpus(model, config, wanted, steps)) return true;
  const core::Program& program = model.program;
  const kernels::cuda::CudaOptions options = cuda_options(wanted, false);
  model.gpus = {options.device};
  if (keeps_experts_on_host(program, config, wanted) && start_with_experts_on_host(model, config, wanted, steps))
    return true;
  const int32_t all = core::layer_count(program) + 1;
  const double free_bytes = kernels::cuda::device_info(options.device).free_bytes;
  const int32_t layers =
      wanted.gpu_layers < 0
          ? layers_that_fit(program,
                            [&](const core::Program& part) { return kernels::cuda::fits(part, config, options); })
      : wanted.gpu_layers >= all ? all
                                 : layers_together(program, static_cast<int32_t>(wanted.gpu_layers));
  model.gpu_share = layers == all ? 1 : 0;
  if (layers == all) {
    model.executor =
        on_cuda(program, config_with_long_batch(program, config, room_for(wanted), wanted), options, steps);
  } else if (layers > 0) {
    core::SplitProgram parts = split_off(program, layers);
    model.gpu_share = core::program_cost(parts.back, {}).bytes() / core::program_cost(program, {}).bytes();
    model.executor = core::make_split_executor(
        std::move(parts), config, [&](const auto& part, const auto& c) { return on_cpu(part, c, steps); },
        [&](const auto& part, const auto& c) { return on_cuda(part, c, options, steps); });
  }
  if (layers < all) {
    const double taken = free_bytes - kernels::cuda::device_info(options.device).free_bytes;
    if (steps.note)
      steps.note(fmt::format("{} of {} layers on the GPU ({:.1f} of {:.1f} GiB free)", layers, all, taken / (1 << 30),
                             free_bytes / (1 << 30)));
  }
  return layers > 0;
}

std::unique_ptr<core::Executor> start_head(const core::Program& head, const core::ExecutorConfig& config,
                                           const std::string& device, bool on_gpu, const Placement& placement,
                                           const LoadSteps& steps) {
  if (on_gpu) try {
      return on_cuda(head, config, cuda_options(placement, false), steps);
    } catch (const Error& error) {
      if (device == "cuda") throw_error("{}; use --spec off to run without the draft head", error.what());
      if (steps.note) steps.note(fmt::format("the draft head runs on the CPU: {}", error.what()));
    }
  return on_cpu(head, config, steps);
}

double memory_left(const Placement& placement, double free_before) {
  if (placement.gpu_memory <= 0) return placement.gpu_memory;
  const double taken = free_before - kernels::cuda::device_info(placement.first_gpu()).free_bytes;
  return std::max(1.0, placement.gpu_memory - taken); // 0 means no limit
}

Placement start_heads(LoadedModel& model, const core::ExecutorConfig& config, const std::string& device, bool on_gpu,
                      Placement placement, const LoadSteps& steps) {
  for (LoadedHead& head : model.heads) {
    const double free_before = on_gpu ? kernels::cuda::device_info(placement.first_gpu()).free_bytes : 0;
    head.executor = start_head(head.program, config_beside(head, config), device, on_gpu, placement, steps);
    if (on_gpu) placement.gpu_memory = memory_left(placement, free_before);
  }
  return placement;
}

} // namespace

void start_executor(LoadedHead& head, const core::ExecutorConfig& config, const std::string& name,
                    const Placement& placement, const LoadSteps& steps) {
  const bool on_gpu =
      name != "cpu" && placement.gpu_layers != 0 && kernels::cuda::device_info(placement.first_gpu()).usable;
  head.executor = start_head(head.program, config, name, on_gpu, placement, steps);
}

Placement placement_of(const api::ModelOptions& options) {
  const auto bytes = [](const std::string& size, const char* flag, double otherwise) {
    return size.empty() ? otherwise : static_cast<double>(core::parse_bytes(size, flag));
  };
  const std::vector<int> gpus = parse_gpus(options.ranks.gpus);
  if (gpus.size() > 1 && (options.gpu_layers >= 0 || options.experts_on_host))
    throw Error(fmt::format("--gpus {}: {} uses one GPU; name only one, or leave out --gpus", options.ranks.gpus,
                            options.experts_on_host ? "--cpu-moe" : "-ngl"),
                Error::kUsage);
  return {options.gpu_layers,
          options.experts_on_host,
          bytes(options.gpu_memory, "--gpu-memory", 0),
          bytes(options.host_memory, "--host-memory", -1),
          gpus,
          static_cast<int>(options.ranks.tensor_parallel),
          static_cast<int>(options.ranks.pipeline),
          options.ubatch > 0 ? 0 : options.batch,
          options.cpu_experts};
}

int ranks_in_all(const Placement& placement) {
  if (placement.stages <= 1) return placement.ranks;
  const int named = static_cast<int>(placement.gpus.size());
  if (placement.ranks > 0 || named == 0) return placement.stages * std::max(1, placement.ranks);
  if (named % placement.stages != 0)
    throw Error(
        fmt::format("--pipeline {}: the number of GPUs given, {}, must be a multiple of it", placement.stages, named),
        Error::kUsage);
  return named;
}

// Both run on one device, since the encoder fills the decoder's caches.
static Device start_with_encoder(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                                 const Placement& placement, const LoadSteps& steps) {
  const core::Program& encoder = model.encoder->program;
  const auto join = [&](std::unique_ptr<core::Executor> reads, std::unique_ptr<core::Executor> writes) {
    model.executor = core::make_encoder_executor(encoder, std::move(reads), model.program, std::move(writes));
  };
  if (placement.stages > 1 || placement.ranks > 1 || placement.gpus.size() > 1)
    throw Error("a model with an encoder can use only one device", Error::kUsage);
  const core::ExecutorConfig reading = core::encoder_config(config);
  if (name != "cpu" && placement.gpu_layers != 0) {
    const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info(placement.first_gpu());
    if (!gpu.usable && name == "cuda") throw_error("--device cuda: {}", gpu.problem);
    if (gpu.usable) try {
        auto writes = on_cuda(model.program, config, cuda_options(placement, false), steps);
        Placement rest = placement;
        rest.gpu_memory = memory_left(placement, gpu.free_bytes);
        join(on_cuda(encoder, reading, cuda_options(rest, false), steps), std::move(writes));
        model.gpus = {placement.first_gpu()};
        model.gpu_share = 1;
        return Device::cuda;
      } catch (const kernels::cuda::OutOfMemory& error) {
        if (name == "cuda") throw;
        if (steps.note) steps.note(fmt::format("running on the CPU: {}", error.what()));
      }
  }
  model.gpu_share = 0;
  auto writes = on_cpu(model.program, config, steps);
  join(on_cpu(encoder, reading, steps), std::move(writes));
  return Device::cpu;
}

Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                      const Placement& placement, const LoadSteps& steps, const char* to_need_less) {
  if (model.encoder) return start_with_encoder(model, config, name, placement, steps);
  const auto note = [&](const std::string& line) {
    if (steps.note) steps.note(line);
  };
  const int64_t gpu_layers = placement.gpu_layers;
  const bool wants_gpu = name != "cpu" && gpu_layers != 0;
  kernels::cuda::DeviceInfo gpu;
  if (wants_gpu) gpu = kernels::cuda::device_info(placement.first_gpu());
  if (const int here = wants_gpu && !placement.gpus.empty() ? kernels::cuda::device_count() : 0; here > 0)
    gpus_to_use(placement.gpus, 0, here);
  if (wants_gpu && name == "cuda" && !gpu.usable) throw_error("--device cuda: {}", gpu.problem);
  const core::ProcessRank process = core::ProcessRank::from_environment();
  const auto join = [&] {
    model.executor = as_process_rank(model.program, config, with_long_batch(config, placement), process, gpu.usable,
                                     cuda_options(placement, placement.experts_on_host), note);
  };
  if (process.rank > 0) join(); // does not return
  const Placement rest = start_heads(model, config, name, gpu.usable, placement, steps);
  if (process.ranks > 1) {
    join();
    model.gpu_share = gpu.usable ? 1 : 0;
    model.gpus = std::vector<int>(gpu.usable ? static_cast<size_t>(process.ranks) : 0, process.local_rank);
    return gpu.usable ? Device::cuda : Device::cpu;
  }
  if (wants_gpu) {
    if (!gpu.usable && (gpu_layers > 0 || !placement.gpus.empty()))
      note(fmt::format("running on the CPU: {}", gpu.problem));
    if (gpu.usable) {
      try {
        if (start_on_gpu(model, config, rest, steps)) {
          model.gpu_memory_left = memory_left(placement, gpu.free_bytes);
          return Device::cuda;
        }
      } catch (const kernels::cuda::OutOfMemory& error) {
        if (name == "cuda" || gpu_layers > 0)
          throw kernels::cuda::OutOfMemory(fmt::format("{}; {}", error.what(), to_need_less));
        note(fmt::format("running on the CPU: {}", error.what()));
      } catch (const Error& error) {
        if (name == "cuda" || gpu_layers > 0 || error.exit_code == Error::kUsage) throw;
        note(fmt::format("running on the CPU: {}", error.what()));
      }
    }
  }
  model.gpu_share = 0;
  if (const Room room{.cpu = available_memory()};
      static_cast<double>(cpu_need(model.program, config).total()) > room.cpu) {
    const Fit found = fit(model.program, config, room);
    note(fmt::format(
        "this needs {} of memory, but only {} are free: it will be slow; {}",
        core::human_bytes(static_cast<double>(found.cpu->total())), core::human_bytes(room.cpu),
        what_would_fit(model.program, found, models::parameter_count(model.file), cache_offers(model.program, found))));
  }
  read_ahead(model.program, steps);
  model.executor = core::make_pipeline_executor(model.program, config, placement.stages,
                                                [&](const core::Program& part, const core::ExecutorConfig& own, int) {
                                                  return on_cpu_ranks(part, own, std::max(1, placement.ranks));
                                                });
  return Device::cpu;
}

double measure_read_bandwidth(const LoadedModel& model) {
  const double share = model.gpu_share;
  double gpu_bandwidth = 0;
  if (share > 0)
    for (const int gpu : model.gpus) gpu_bandwidth += kernels::cuda::measure_read_bandwidth(gpu);
  const double seconds_per_byte =
      (share > 0 ? share / gpu_bandwidth : 0) +
      (share < 1 ? (1 - share) / measure_read_bandwidth(Device::cpu, model.executor->config().threads) : 0);
  return 1 / seconds_per_byte;
}

double measure_read_bandwidth(Device device, int threads) {
  static std::mutex mutex;
  static std::map<std::pair<Device, int>, double> measured; // once in a process
  const std::scoped_lock lock(mutex);
  double& bytes_per_second = measured[{device, threads}];
  if (bytes_per_second == 0)
    bytes_per_second = device == Device::cuda ? kernels::cuda::measure_read_bandwidth()
                                              : kernels::cpu::measure_read_bandwidth(threads);
  return bytes_per_second;
}

} // namespace ridge::engine
