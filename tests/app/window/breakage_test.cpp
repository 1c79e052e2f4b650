// Failures in the window's engine.
#include "app/window/window_engine.h"

#include "app/support.h"
#include "kernels/cuda/executor/executor.h"
#include "support/watchdog.h"

#include <filesystem>

using namespace ridge;
using api::EngineState;
using tests::eventually;
namespace intent = api::intent;

namespace {

app::WindowSetup setup(const std::string& model = tests::tiny_model()) {
  ::setenv("XDG_STATE_HOME", (tests::folder() / "state").c_str(), 1); // keeps the user's recent files
  app::WindowSetup s;
  s.model.model = model;
  s.model.device = "cpu";
  s.model.threads = 1;
  s.request.sampling.params.seed = 1;
  s.request.sampling.max_tokens = 8;
  return s;
}

class Engine {
 public:
  explicit Engine(app::WindowSetup s) : engine(std::move(s), [] {}) {
    REQUIRE(eventually([&] { return now()->model && now()->state == EngineState::idle; }));
  }
  std::shared_ptr<const api::Snapshot> now() const { return engine.snapshot(); }
  void say(const std::string& text) {
    const size_t messages = now()->messages.size();
    const uint64_t errors = now()->error_number;
    engine.send(intent::Send{text});
    REQUIRE(eventually([&] {
      const auto s = now();
      return (s->messages.size() == messages + 2 || s->error_number > errors) && s->state == EngineState::idle;
    }));
  }

  app::WindowEngine engine;
};

std::string copy_of_tiny(const tests::TemporaryFolder& folder) {
  std::filesystem::copy_file(tests::tiny_model(), folder / "model.gguf");
  return folder / "model.gguf";
}

// An executor with a simulated GPU that `fail` breaks.
class Failing : public core::Executor {
 public:
  Failing(std::unique_ptr<core::Executor> inner, std::function<void()> fail)
      : inner_(std::move(inner)), fail_(std::move(fail)) {}
  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    fail_();
    inner_->submit(batch, choosing);
  }
  std::span<const int32_t> wait() override { return inner_->wait(); }
  std::span<const float> logits(int64_t i) override { return inner_->logits(i); }
  const core::ExecutorConfig& config() const override { return inner_->config(); }
  std::string_view description() const override { return "a GPU"; }
  double memory_bytes() const override { return inner_->memory_bytes(); }

 private:
  std::unique_ptr<core::Executor> inner_;
  const std::function<void()> fail_;
};

app::WindowSetup on_failing_gpu(const std::function<void()>& fail) {
  app::WindowSetup s = setup();
  s.model.device = "auto";
  s.start = [=](engine::LoadedModel& model, const core::ExecutorConfig& config, const std::string& device,
                const engine::Placement& placement) {
    engine::start_executor(model, config, "cpu", placement);
    if (device == "auto") model.executor = std::make_unique<Failing>(std::move(model.executor), fail);
    return engine::Device::cpu;
  };
  return s;
}

app::WindowSetup on_vanishing_gpu(std::atomic<bool>& gone) {
  return on_failing_gpu([&gone] {
    if (gone) throw kernels::cuda::DeviceFailed("CUDA: cudaGraphLaunch failed: device is lost");
  });
}

} // namespace

TEST_CASE("a model that is shortened while open costs the answer, and opens again when it is whole") {
  const tests::TemporaryFolder folder;
  const std::string path = copy_of_tiny(folder);
  Engine e(setup(path));
  e.say("hello");
  CHECK(e.now()->error == "");
  REQUIRE(e.now()->messages.size() == 2);
  std::filesystem::resize_file(path, 8192);
  e.say("again");
  CHECK(e.now()->error.find("truncated") != std::string::npos);
  CHECK(e.now()->state == EngineState::idle);
  e.engine.send(intent::StudyTensor{"blk.0.attn_q.weight"});
  CHECK(eventually([&] { return e.now()->error_number >= 2; }));
  std::filesystem::copy_file(tests::tiny_model(), path, std::filesystem::copy_options::overwrite_existing);
  e.engine.send(intent::OpenModel{path});
  const uint64_t errors = e.now()->error_number;
  e.say("and now");
  CHECK(e.now()->error_number == errors);
}

TEST_CASE("a model that is deleted while open is said to be, and still answers") {
  const tests::TemporaryFolder folder;
  const std::string path = copy_of_tiny(folder);
  Engine e(setup(path));
  std::filesystem::remove(path);
  e.say("hello");
  CHECK(e.now()->messages.size() == 2);
  CHECK(eventually([&] { return e.now()->error.find("was deleted") != std::string::npos; }));
  const uint64_t errors = e.now()->error_number;
  e.say("once more");
  CHECK(e.now()->messages.size() == 4);
  CHECK(e.now()->error_number == errors); // reported once
}

TEST_CASE("a GPU that disappears leaves the conversation, which goes on with the CPU") {
  std::atomic<bool> gone = false;
  const app::WindowSetup s = on_vanishing_gpu(gone);
  Engine e(s);
  e.say("hello");
  CHECK_FALSE(e.now()->gpu_failed);
  CHECK(e.now()->model->engine == "a GPU");
  gone = true;
  e.say("are you there?");
  CHECK(e.now()->gpu_failed);
  CHECK(e.now()->error.find("device is lost") != std::string::npos);
  e.engine.send(intent::UseCpu{});
  REQUIRE(eventually([&] { return !e.now()->gpu_failed && e.now()->state == EngineState::idle; }));
  CHECK(e.now()->model->engine.starts_with("CPU"));
  CHECK(e.now()->messages.size() == 2);
  e.say("and now?");
  CHECK(e.now()->messages.size() == 4);
}

TEST_CASE("a question that fails, be it new, edited or asked again, leaves the conversation as it was") {
  std::atomic<bool> gone = false;
  Engine e(on_vanishing_gpu(gone));
  e.say("hello");
  e.say("and then?");
  const std::vector<api::ChatMessage> before = e.now()->messages;
  REQUIRE(before.size() == 4);
  gone = true;
  for (const api::Intent& failing :
       {api::Intent(intent::Send{"more"}), api::Intent(intent::EditAndResend{0, "good bye"}),
        api::Intent(intent::Regenerate{})}) {
    CAPTURE(failing.index());
    const uint64_t errors = e.now()->error_number;
    e.engine.send(failing);
    REQUIRE(eventually([&] { return e.now()->error_number > errors && e.now()->state == EngineState::idle; }));
    REQUIRE(e.now()->messages.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(e.now()->messages[i].text == before[i].text);
  }
  gone = false;
  e.say("and now?");
  CHECK(e.now()->messages.size() == 6);
}

TEST_CASE("an internal error costs the answer, and the engine is idle again") {
  std::atomic<bool> wrong = false;
  Engine e(on_failing_gpu([&] {
    if (wrong) throw std::logic_error("a bug");
  }));
  e.say("hello");
  wrong = true;
  e.say("what goes wrong?");
  CHECK(e.now()->error.find("internal error") != std::string::npos);
  CHECK(e.now()->messages.size() == 2);
  CHECK_FALSE(e.now()->gpu_failed);
  wrong = false;
  e.say("and now?");
  CHECK(e.now()->messages.size() == 4);
}

TEST_CASE("the lab compares formats with histograms of their errors, and pieces weight by weight") {
  const tests::TemporaryFolder folder;
  tests::TinyModel model;
  model.width = 256;
  model.ffn_width = 256;
  model.write(folder / "model.gguf");
  Engine e(setup(folder / "model.gguf"));
  e.engine.send(intent::StudyTensor{"blk.0.ffn_up.weight"});
  REQUIRE(eventually([&] {
    const auto& t = e.now()->tensor;
    return t && t->formats_to_try > 0 && static_cast<int>(t->formats.size()) == t->formats_to_try;
  }));
  const api::TensorStudy study = *e.now()->tensor;
  const auto find = [&](const std::string& name) -> const api::TensorStudy::Format& {
    for (const auto& f : study.formats)
      if (f.name == name) return f;
    FAIL("no " << name);
    return study.formats.front();
  };
  for (const auto& f : study.formats) {
    CAPTURE(f.name);
    double counted = 0;
    for (const float count : f.errors) counted += count;
    CHECK(counted == static_cast<double>(study.sampled));
  }
  CHECK(find("Q8_0").rmse < find("Q4_K").rmse);
  CHECK(find("Q4_K").rmse < find("Q2_K").rmse);
  CHECK(find("INT4 g32").rmse < find("INT4 g128").rmse);
  CHECK(find("INT8 g128").rmse < find("INT4 g32").rmse);
  CHECK(find("NF4").writable == false);
  CHECK(find("MXFP4").writable);

  e.engine.send(intent::StudySlice{"blk.0.ffn_up.weight", "Q4_K", 3, 100});
  REQUIRE(eventually([&] { return e.now()->slice != nullptr; }));
  const api::SliceStudy slice = *e.now()->slice;
  CHECK(slice.first_row == 3);
  CHECK(slice.first_col == 100);
  CHECK(slice.bits.size() == slice.original.size());
  CHECK(slice.bits[0].size() == 4);
  double worst = 0;
  for (size_t i = 0; i < slice.original.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(slice.original[i]) - slice.decoded[i]));
  CHECK(worst > 0);
  CHECK(worst <= find("Q4_K").max_error * 1.0001);

  e.engine.send(intent::StudyBlock{"blk.0.ffn_up.weight", "Q4_K", 1});
  REQUIRE(eventually([&] { return e.now()->block != nullptr; }));
  const api::BlockStudy block = *e.now()->block;
  REQUIRE(block.levels.size() == 16);
  for (size_t i = 0; i < block.weights.size(); ++i) {
    CHECK(block.levels[i / 16].size() == 16);
    CHECK(std::ranges::count(block.levels[i / 16], block.weights[i].decoded) == 1); // each weight is one of its levels
  }
}

TEST_CASE("a model made by a job is opened and becomes a recent file") {
  const tests::TemporaryFolder folder;
  Engine e(setup());
  api::QuantizeRequest request;
  request.input = tests::tiny_model();
  request.output = folder / "small.gguf";
  request.type = "Q8_0";
  e.engine.send(intent::StartJob{request});
  REQUIRE(eventually([&] { return !e.now()->jobs->empty() && e.now()->jobs->front().over(); }));
  CHECK(e.now()->jobs->front().error == "");
  e.engine.send(intent::OpenModel{folder / "small.gguf"});
  REQUIRE(eventually([&] { return !e.now()->recent.empty() && e.now()->recent.front() == folder / "small.gguf"; }));
  CHECK(e.now()->model->path == folder / "small.gguf");
  e.engine.send(intent::OpenModel{tests::tiny_model()});
  REQUIRE(eventually([&] { return e.now()->recent.front() == tests::tiny_model(); }));
  CHECK(e.now()->recent[1] == folder / "small.gguf");
  e.engine.send(intent::ForgetJob{1});
  CHECK(eventually([&] { return e.now()->jobs->empty(); }));
}
