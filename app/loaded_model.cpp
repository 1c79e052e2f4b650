#include "app/loaded_model.h"

#include "app/machine.h"
#include "app/terminal.h"
#include "core/error.h"
#include "kernels/cpu/executor.h"
#include "kernels/cuda/executor.h"
#include "models/guide.h"
#include "models/model.h"

#include <algorithm>
#include <cstdlib>

namespace ridge::app {

const models::text::Tokenizer& LoadedModel::need_tokenizer() const {
  if (!tokenizer) throw_error("{}: has no tokenizer; give token ids instead (ridge logits --ids)", file.path());
  return *tokenizer;
}

std::unique_ptr<models::text::Tokenizer> find_tokenizer(const gguf::File& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return nullptr;
  return models::text::Tokenizer::from_file(file);
}

LoadedModel open_model(gguf::File file) {
  LoadedModel model{std::move(file), {}, nullptr, nullptr};
  model.program = models::build_program(model.file);
  model.tokenizer = find_tokenizer(model.file);
  return model;
}

LoadedModel open_model(const std::string& path) {
  if (!path.empty()) return open_model(gguf::File::open(path));
  note("no -m FILE: this is the built-in guide, which knows formats, speed and this tool; for a real model: -m model.gguf");
  return open_model(models::open_guide());
}

namespace {

// Brings the weights into memory with a progress bar, so that a big file's first answer does not seem to hang. Does
// nothing for a model that would not fit.
void read_ahead(const LoadedModel& model) {
  constexpr size_t kPage = 4096, kChunk = size_t{16} << 20;
  const double available = 1024 * std::strtod(proc_field("/proc/meminfo", "MemAvailable").c_str(), nullptr);
  const auto total = static_cast<int64_t>(model.file.size_bytes());
  if (static_cast<double>(total) > available) return;
  Progress progress("loading");
  int64_t done = 0;
  unsigned sum = 0;
  for (const gguf::Tensor& tensor : model.file.tensors())
    for (size_t start = 0; start < tensor.data.size(); start += kChunk) {
      const auto chunk = tensor.data.subspan(start, std::min(kChunk, tensor.data.size() - start));
      for (size_t at = 0; at < chunk.size(); at += kPage) sum += static_cast<unsigned>(chunk[at]);
      done += std::ssize(chunk);
      progress.update(done, total);
    }
  volatile unsigned keep = sum; // the reads must happen
  (void)keep;
}

void start_on_cuda(LoadedModel& model, const core::ExecutorConfig& config) {
  Progress progress("copying to the GPU");
  kernels::cuda::CudaOptions options;
  options.upload_progress = [&](double done, double total) {
    progress.update(static_cast<int64_t>(done), static_cast<int64_t>(total));
  };
  model.executor = kernels::cuda::make_cuda_executor(model.program, config, options);
}

} // namespace

Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name) {
  if (name != "cpu") {
    const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
    if (name == "cuda" && !gpu.usable) throw_error("--device cuda: {}", gpu.problem);
    if (gpu.usable) {
      try {
        start_on_cuda(model, config);
        return Device::cuda;
      } catch (const Error& error) {
        if (name == "cuda") throw;
        note(fmt::format("running on the CPU: {}", error.what()));
      }
    }
  }
  read_ahead(model);
  model.executor = kernels::cpu::make_cpu_executor(model.program, config);
  return Device::cpu;
}

} // namespace ridge::app
