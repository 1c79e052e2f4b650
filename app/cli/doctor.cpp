// ridge doctor: diagnoses this machine at run time.
#include "app/cli/cli.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "engine/loading/kept_ways.h"
#include "engine/loading/machine.h"
#include "hub/http/curl.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/peaks/kept_peaks.h"
#include "measure/rank_links.h"
#include "media/sound/decoders.h"
#include "media/sound/microphone.h"
#include "models/architecture.h"
#include "quant/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <sstream>

namespace ridge::app {
namespace {

struct Finding {
  std::string topic;
  bool good;
  std::string found;
  std::string advice;
};

// /proc/cpuinfo flags that select kernels.
std::string vector_features() {
  std::istringstream flags(engine::proc_field("/proc/cpuinfo", "flags") +
                           engine::proc_field("/proc/cpuinfo", "Features")); // the one is x86's, the other arm64's
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;)
    if (flag == "avx2" || flag == "fma" || flag == "f16c" || flag == "avx512f" || flag == "avx512_vnni" ||
        flag == "avx512_bf16" || flag == "avx_vnni" || flag == "amx_int8" || flag == "asimd" || flag == "asimddp" ||
        flag == "i8mm")
      found.push_back(flag);
  return found.empty() ? "baseline only" : fmt::format("{}", fmt::join(found, " "));
}

// Loads the driver's library, so that ridge runs without CUDA.
Finding find_gpu() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {"GPU", false, "no NVIDIA driver (libcuda.so.1 not found)", ""};
  const auto symbol = [&](const char* name) { return ::dlsym(library, name); };
  const auto initialize = reinterpret_cast<int (*)(unsigned)>(symbol("cuInit"));
  const auto driver_version = reinterpret_cast<int (*)(int*)>(symbol("cuDriverGetVersion"));
  const auto device_count = reinterpret_cast<int (*)(int*)>(symbol("cuDeviceGetCount"));
  const auto device_name = reinterpret_cast<int (*)(char*, int, int)>(symbol("cuDeviceGetName"));
  const auto device_memory = reinterpret_cast<int (*)(size_t*, int)>(symbol("cuDeviceTotalMem_v2"));
  if (!initialize || !driver_version || !device_count || !device_name || !device_memory)
    return {"the driver library lacks expected functions", false, "the driver library lacks its usual functions",
            "reinstall the NVIDIA driver"};
  if (const int status = initialize(0); status != 0)
    return {"GPU", false, fmt::format("cuInit failed with error {}", status), "check the driver with nvidia-smi"};
  int version = 0, count = 0;
  driver_version(&version);
  device_count(&count);
  if (count == 0)
    return {"driver present, but no device found", false, "check that the device is visible (CUDA_VISIBLE_DEVICES)",
            "check that the device is visible: CUDA_VISIBLE_DEVICES"};
  std::vector<std::string> names;
  for (int device = 0; device < count; ++device) {
    char name[256] = "";
    size_t bytes = 0;
    device_name(name, sizeof name, device);
    device_memory(&bytes, device);
    names.push_back(fmt::format("{} ({:.1f} GB)", name, static_cast<double>(bytes) / 1e9));
  }
  return {"GPU", true,
          fmt::format("{}; driver for CUDA {}.{}", fmt::join(names, ", "), version / 1000, version % 1000 / 10), ""};
}

std::string calibration_of(const std::string& gpu) {
  std::string text;
  for (const auto& [way, factor] : engine::kept_way_factors(gpu))
    text += fmt::format("{} {} x {:.2f}", text.empty() ? ", calibrated:" : ",", way, factor);
  return text.empty() ? ", not calibrated (run `ridge bench --calibrate`)" : text;
}

Finding find_cuda() {
  const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
  if (!gpu.usable) return {"CUDA engine", false, gpu.problem, "models run on the CPU"};
  return {"CUDA engine", true,
          fmt::format("{}, {} multiprocessors, compute {}.{}, {:.1f} GB free; kernels tuned for {}", gpu.name,
                      gpu.sm_count, gpu.compute_major, gpu.compute_minor, gpu.free_bytes / 1e9,
                      kernels::cuda::describe_rates()) +
              calibration_of(gpu.name),
          ""};
}

std::optional<Finding> find_gpu_links() {
  std::vector<int> gpus(std::min(kernels::cuda::device_count(), kernels::cuda::kMaxRanks));
  if (gpus.size() < 2) return std::nullopt;
  std::iota(gpus.begin(), gpus.end(), 0);
  if (kernels::cuda::have_peer_access(gpus))
    return Finding{
        "GPU links", true,
        fmt::format("{} GPUs can access each other's memory: use --tensor-parallel {}", gpus.size(), gpus.size()), ""};
  return Finding{"GPU links", false, fmt::format("not all of the {} GPUs can access each other's memory", gpus.size()),
                 "--tensor-parallel exchanges data through host memory"};
}

Finding find_toolkit() {
  std::vector<std::string> places = {"/usr/local/cuda/bin"};
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) places.push_back(folder);
  for (const std::string& place : places)
    if (std::filesystem::exists(place + "/nvcc")) return {"CUDA toolkit", true, place + "/nvcc", ""};
  return {"CUDA toolkit", false, "nvcc not found",
          "needed only to build GPU kernels: developer.nvidia.com/cuda-downloads"};
}

Finding find_curl() {
  try {
    hub::curl::library();
    return {"libcurl", true, "found: ridge pull can download models", ""};
  } catch (const Error& error) {
    return {"libcurl", false, "missing", error.what()};
  }
}

Finding find_sndfile() {
  try {
    media::need_sndfile();
    return {"libsndfile", true, "found: FLAC, MP3 and Ogg can be read", ""};
  } catch (const Error& error) {
    return {"libsndfile", false, "missing: only WAV audio can be read",
            fmt::format("for FLAC, MP3 and Ogg: {}", error.what())};
  }
}

Finding find_microphone() {
  const std::string problem = media::Microphone::problem();
  if (problem.empty()) return {"libpulse", true, "found: the window can record audio", ""};
  return {"libpulse", false, "missing: the window cannot record audio", problem};
}

Finding find_display() {
  for (const char* name : {"WAYLAND_DISPLAY", "DISPLAY"})
    if (const char* value = std::getenv(name); value && *value)
      return {"display", true, fmt::format("{}={}", name, value), ""};
  return {"display", false, "none (neither DISPLAY nor WAYLAND_DISPLAY is set)",
          "the terminal commands work without a display"};
}

// What a decode step pays: two sums of a row for each of an 8B's layers.
std::string expected_of(const measure::LinkSpeed& speed) {
  constexpr int kSums = 64;
  constexpr int64_t kRow = 4096; // floats
  const auto row = std::ranges::find_if(speed.sums, [](const auto& sum) { return sum.floats >= kRow; });
  if (row == speed.sums.end()) return "";
  return fmt::format("{:.2f} ms in each step of an 8B", kSums * row->seconds * 1e3);
}

void print_links(const measure::RankLinks& links) {
  for (size_t rank = 0; rank < links.ranks.size(); ++rank)
    print_row(fmt::format("rank {}", rank), 15,
              fmt::format("host {}, {}", links.ranks[rank].host,
                          links.ranks[rank].gpu.empty() ? "on the CPU" : "GPU " + links.ranks[rank].gpu));
  for (const measure::LinkSpeed& speed : links.speeds) {
    std::string text = speed.problem;
    for (const auto& sum : speed.sums)
      text += fmt::format("{}{} floats {:.1f} us ({:.1f} GB/s)", text.empty() ? "" : ", ", sum.floats,
                          sum.seconds * 1e6, sum.bytes_per_second() / 1e9);
    if (speed.problem.empty()) text += "; " + expected_of(speed);
    const std::string which = speed.second < 0 ? "all" : fmt::format("{}-{}", speed.first, speed.second);
    print_row(fmt::format("{} {}", which, speed.link), 15, text);
  }
}

struct DoctorCommand {
  bool json = false, ranks = false;

  void measure_ranks() const {
    const core::ProcessRank me = core::ProcessRank::from_environment();
    if (me.ranks == 1)
      throw Error("doctor --ranks: needs several processes: start them with torchrun, mpirun or srun, such as torchrun "
                  "--nproc-per-node 2 --no-python ridge doctor --ranks",
                  Error::kUsage);
    const measure::RankLinks links = measure::measure_rank_links(me, [](const std::string& line) { note(line); });
    if (me.rank > 0) return;
    if (!json) return print_links(links);
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const measure::LinkSpeed& speed : links.speeds) {
      nlohmann::ordered_json sums = nlohmann::ordered_json::array();
      for (const auto& sum : speed.sums) sums.push_back({{"floats_count", sum.floats}, {"sum_seconds", sum.seconds}});
      list.push_back({{"ranks", speed.second < 0 ? "all" : fmt::format("{}-{}", speed.first, speed.second)},
                      {"link", speed.link},
                      {"problem", speed.problem},
                      {"sums", sums}});
    }
    print_report("doctor", {{"links", list}});
  }

  void run() const {
    if (ranks) return measure_ranks();
    const double bandwidth = measure::measure_and_keep_read_peak(engine::Device::cpu, 0);
    std::vector<std::string_view> types;
    for (const quant::FormatInfo& format : quant::stored_formats()) types.push_back(format.name);

    std::vector<Finding> findings = {
        {"ridge", true, "version " RIDGE_VERSION, ""},
        {"CPU", true,
         fmt::format("{}, {} cores, {}", engine::cpu_name(), kernels::cpu::processors().cores, vector_features()), ""},
        {"CPU kernels", true, std::string(kernels::cpu::instruction_set()), ""},
        {"CPU threads", true, kernels::cpu::processors().description() + " (change with -t N)", ""},
        {"memory", true,
         fmt::format("{:.1f} GB, {:.1f} GB available", engine::memory_bytes("MemTotal") / 1e9,
                     engine::memory_bytes("MemAvailable") / 1e9),
         ""},
        {"memory read", true, fmt::format("{:.1f} GB/s measured with that many threads", bandwidth / 1e9), ""},
        find_gpu(),
        find_cuda(),
        find_toolkit(),
        find_curl(),
        find_sndfile(),
        find_microphone(),
        find_display(),
        {"architectures", true,
         fmt::format("{}; `ridge models --architectures` lists them", models::architecture_table().size()), ""},
        {"formats", true, fmt::format("{}", fmt::join(types, " ")), ""},
    };
    if (std::optional<Finding> links = find_gpu_links())
      findings.insert(std::ranges::find(findings, "CUDA toolkit", &Finding::topic), *links);
    if (json) {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      for (const Finding& f : findings)
        list.push_back({{"topic", f.topic}, {"ok", f.good}, {"found", f.found}, {"advice", f.advice}});
      return print_report("doctor", {{"cpu_read_bytes_per_second", bandwidth}, {"findings", list}});
    }
    for (const Finding& f : findings) print_row(f.topic, 15, f.found + (f.advice.empty() ? "" : " - " + f.advice));
  }
};

} // namespace

void add_doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorCommand>();
  CLI::App* command =
      app.add_subcommand("doctor", "check this machine's hardware, drivers and libraries for running models");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--ranks", options->ranks,
                    "instead: measure the links between processes started by torchrun, mpirun or srun");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
