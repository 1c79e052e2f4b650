// Merging (`ridge quantize --lora`) must equal running with adapters.
#include "convert/calibration.h"
#include "convert/quantize.h"
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/adapters.h"
#include "support/numerics.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace ridge;
using tests::AdapterImage;

namespace {

std::vector<float> logits_of(const core::Program& program) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = 64;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  std::vector<float> all;
  const std::vector<int32_t> ids = {1, 2, 3, 30, 20, 25, 17, 12, 9};
  convert::run_chunk(*executor, ids,
                     [&](int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  return all;
}

struct Merging {
  tests::TemporaryFolder folder;
  api::QuantizeRequest request;

  explicit Merging(models::Shape shape) {
    const auto image = models::random_image(models::metadata_of(shape), models::tensors_of(shape));
    request.input = folder / "model.gguf";
    std::ofstream(request.input, std::ios::binary)
        .write(reinterpret_cast<const char*>(image->data()), std::ssize(*image));
    request.output = folder / "merged.gguf";
    request.device = "cpu";
  }
  void add(const AdapterImage& adapter, double scale) {
    const std::string path = folder / (std::to_string(request.adapters.size()) + ".gguf");
    adapter.write(path);
    request.adapters.push_back({path, scale});
  }
  void run() const {
    convert::quantize(request, {.progress = [](std::string_view, int64_t, int64_t) {},
                                .planned = [](const convert::Requantization&) {},
                                .done = [](const convert::TensorResult&) {},
                                .note = [](const std::string&) {}});
  }
  std::string refusal() const {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
};

models::Shape small(std::string_view architecture, int64_t experts = 0) {
  models::Shape shape{"small", architecture, 2, 64, 96, 4, 2, 16, 32, 1e4};
  shape.experts = experts;
  shape.experts_used = experts > 0 ? 2 : 0;
  return shape;
}

} // namespace

TEST_CASE("a file with merged adapters has the logits of the model with adapters") {
  std::mt19937_64 random(tests::printed_seed());
  for (const bool experts : {false, true}) {
    CAPTURE(experts);
    Merging merging(small(experts ? "qwen3moe" : "llama", experts ? 8 : 0));
    const gguf::File model = gguf::File::open(merging.request.input);
    for (const double scale : {0.5, -0.75}) {
      AdapterImage adapter(model.get_string("general.architecture"), 5);
      for (const gguf::Tensor& tensor : model.tensors())
        if (tensor.n_dims > 1) adapter.add_pair(tensor, 3, random);
      merging.add(adapter, scale);
    }
    std::vector<models::AdapterFile> files;
    std::vector<models::ScaledAdapter> scaled;
    for (const auto& [path, scale] : merging.request.adapters) files.push_back(models::AdapterFile::open(path));
    for (size_t i = 0; i < files.size(); ++i)
      scaled.push_back({&files[i], static_cast<float>(merging.request.adapters[i].scale)});
    core::Program program = models::build_program(model);
    models::add_adapters(program, model, scaled);
    const std::vector<float> applied = logits_of(program);
    for (const auto& [type, bound] : std::map<std::string, double>{{"F32", 1e-9}, {"COPY", 2e-3}, {"Q8_0", 5e-2}}) {
      CAPTURE(type);
      merging.request.type = type;
      merging.run();
      const gguf::File merged = gguf::File::open(merging.request.output);
      CHECK(tests::nmse(logits_of(models::build_program(merged)), applied) <= bound);
      if (type == "COPY")
        for (const gguf::Tensor& tensor : model.tensors()) CHECK(merged.find_tensor(tensor.name)->type == tensor.type);
    }
  }
}

TEST_CASE("adapters that cannot be merged are refused") {
  std::mt19937_64 random(1);
  const auto with = [&](const std::function<void(Merging&, AdapterImage&)>& spoil) {
    Merging merging(small("llama"));
    merging.request.type = "COPY";
    AdapterImage adapter("llama");
    adapter.add_pair(*gguf::File::open(merging.request.input).find_tensor("blk.0.attn_q.weight"), 4, random);
    spoil(merging, adapter);
    merging.add(adapter, 1);
    return merging.refusal();
  };
  const auto says = [](const std::string& line, const char* part) { return line.find(part) != std::string::npos; };
  CHECK(with([](Merging&, AdapterImage&) {}) == "accepted");
  CHECK(says(with([](Merging&, AdapterImage& a) {
               a.metadata.set("adapter.alora.invocation_tokens", std::vector<int32_t>{4});
             }),
             "active only after certain tokens of a text"));
  CHECK(says(with([](Merging&, AdapterImage& a) {
               for (gguf::TensorInfo& info : a.infos) info.name.replace(0, 5, "blk.9");
             }),
             "does not contain: is it an adapter for another model?"));
  CHECK(says(with([](Merging& m, AdapterImage&) { m.request.target_bpw = 4; }), "--lora cannot be combined with"));
}
