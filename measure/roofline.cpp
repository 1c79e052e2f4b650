#include "measure/roofline.h"

#include "core/error.h"
#include "engine/loading/loaded_model.h"
#include "kernels/cuda/executor/executor.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::measure {
namespace {

constexpr double kRoomForDefault = 7e9; // 8B in 4 bits with context

using RooflineProgress = std::function<void(std::string_view what, int64_t done, int64_t total)>;

models::Shape shape_of(const engine::LoadedModel& loaded) {
  models::Shape s = {};
  const core::Program& program = loaded.program;
  s.width = program.weights[program.ops.front().weights.at(0)].cols;
  for (const core::Op& op : program.ops) {
    if (op.kind == core::OpKind::attention) {
      const auto& params = std::get<core::AttentionParams>(op.params);
      const core::KvLayer& kv = program.kv_layers[params.layer];
      s.heads = params.heads;
      s.kv_heads = kv.heads;
      s.head_dim = kv.k_dim;
    }
    if (op.kind == core::OpKind::glu) s.ffn_width = program.values[op.outputs[0]].width;
  }
  if (s.heads == 0 || s.ffn_width == 0) throw_error("roofline: this model has no attention or no SwiGLU to measure");
  return s;
}

void place(RooflineReport& report, engine::Device on, const api::RooflineRequest& request,
           const RooflineProgress& progress) {
  const bool has_room = on == engine::Device::cuda && kernels::cuda::device_info().free_bytes > kRoomForDefault;
  const std::string spec = !request.shape.empty() ? request.shape : has_room ? "llama-8b:Q4_K_M" : "llama-1b:Q4_K_M";
  engine::LoadedModel loaded = request.file.empty()
                                   ? engine::open_model(gguf::File::from_bytes(models::synthetic_model(spec), spec))
                                   : engine::open_model(request.file);
  report.model = request.file.empty() ? spec : models::model_label(loaded.file);
  ProbeOptions options{on, request.threads, 128e6, 128, {0, 512, 2048}, 5, {}};
  if (on == engine::Device::cuda) {
    options.cache_bytes = 256e6; // over twice the largest L2
    options.prompt = 512;
    options.depths = {0, 8192, 32768};
    options.decode_repetitions = 31;
  }
  const int64_t longest = std::max<int64_t>(loaded.program.trained_context - 1, 1);
  for (int64_t& depth : options.depths) depth = std::min(depth, longest);
  options.depths.erase(std::unique(options.depths.begin(), options.depths.end()), options.depths.end());
  options.prompt = std::min(options.prompt, longest);
  // The model counts as one more part.
  options.progress = [&](int64_t done, int64_t total) { progress("measuring kernels", done, total + 1); };
  report.points = probe_kernels(shape_of(loaded), options);
  progress("measuring the model's steps", 99, 100);
  try {
    for (RooflinePoint& p : probe_model(loaded, options, report.points)) report.points.push_back(std::move(p));
  } catch (const kernels::cuda::OutOfMemory& error) {
    report.missing = fmt::format("no step of the whole model: {}", error.what());
  }
}

} // namespace

engine::Device device_of(const api::RooflineRequest& request) {
  const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
  if (request.device == "cuda" && !gpu.usable) throw_error("--device cuda: {}", gpu.problem);
  return gpu.usable && request.device != "cpu" ? engine::Device::cuda : engine::Device::cpu;
}

RooflineReport measure_roofline(const api::RooflineRequest& request, const RooflineProgress& progress) {
  const engine::Device on = device_of(request);
  progress("measuring ceilings", 0, 100);
  RooflineReport report = measure_machine(on, request.threads);
  if (!request.ceilings_only) place(report, on, request, progress);
  return report;
}

} // namespace ridge::measure
