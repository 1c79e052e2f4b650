// The job queue.
#include "app/jobs.h"

#include "app/support.h"
#include "gguf/gguf.h"
#include "support/http/fake_hub.h"
#include "support/reference.h"
#include "support/watchdog.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace ridge;
using api::Job, api::JobState;

namespace {

class Queue {
 public:
  Job wait(uint64_t id, const std::function<bool(const Job&)>& condition,
           std::source_location at = std::source_location::current()) {
    Job found;
    REQUIRE(tests::eventually(
        [&] {
          const std::lock_guard lock(mutex_);
          const auto job = std::ranges::find(*jobs_, id, &Job::id);
          if (job == jobs_->end() || !condition(*job)) return false;
          found = *job;
          return true;
        },
        at));
    return found;
  }
  Job finish(uint64_t id, std::source_location at = std::source_location::current()) {
    return wait(id, &Job::over, at);
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return jobs_->size();
  }

 private:
  std::mutex mutex_;
  app::JobQueue::Jobs jobs_ = std::make_shared<std::vector<Job>>();

 public:
  app::JobQueue queue{[this](app::JobQueue::Jobs jobs) {
                        const std::lock_guard lock(mutex_);
                        jobs_ = std::move(jobs);
                      },
                      "cpu", 1};
};

api::QuantizeRequest quantize(const std::string& in, const std::string& out, const std::string& type = "Q8_0") {
  api::QuantizeRequest request;
  request.input = in;
  request.output = out;
  request.type = type;
  return request;
}

// 25 million weights: slow enough to act meanwhile.
std::string larger_model(const std::string& path) {
  tests::TinyModel model;
  model.width = 1024;
  model.ffn_width = 2048;
  model.write(path);
  return path;
}

bool under_way(const Job& job) { return job.state == JobState::running && job.share > 0; }

} // namespace

TEST_CASE("a model is quantized as a job, and says what each tensor lost") {
  const tests::TemporaryFolder folder;
  Queue q;
  q.queue.start(quantize(tests::tiny_model(), folder / "out.gguf"));
  const Job job = q.finish(1);
  CHECK(job.error == "");
  REQUIRE(job.state == JobState::done);
  CHECK(job.title == "Quantize tiny.gguf to Q8_0");
  CHECK(job.opens == folder / "out.gguf");
  CHECK(job.result.find("bits per weight") != std::string::npos);
  const gguf::File file = gguf::File::open(job.opens);
  REQUIRE(job.tables.size() == 1);
  CHECK(job.tables[0].rows.size() == file.tensors().size());
  CHECK(file.find_tensor("blk.0.ffn_up.weight")->type == quant::Type::Q8_0);
}

TEST_CASE("exploring as a job gives points to choose from, and writes nothing") {
  const tests::TemporaryFolder folder;
  Queue q;
  api::QuantizeRequest request = quantize(tests::tiny_model(), "", "");
  request.explore = true;
  q.queue.start(request);
  const Job job = q.finish(1);
  CHECK(job.error == "");
  REQUIRE(job.state == JobState::done);
  CHECK(job.title == "Measure the cost of quantizing tiny.gguf");
  REQUIRE(job.frontier.size() > 3);
  CHECK(job.tables.at(0).rows.size() == job.frontier.size());
  CHECK(std::ranges::is_sorted(job.frontier, {}, &api::FrontierPoint::bytes));
  CHECK(std::ranges::count(job.frontier, true, &api::FrontierPoint::best) > 0);
  CHECK(job.opens.empty());
}

TEST_CASE("a mix chosen tensor by tensor is what is written") {
  const tests::TemporaryFolder folder;
  Queue q;
  api::QuantizeRequest request = quantize(tests::tiny_model(), folder / "out.gguf", "Q8_0");
  request.pure = true;
  request.tensor_types = {R"(\.ffn_up\.weight$=Q4_0)"};
  q.queue.start(request);
  REQUIRE(q.finish(1).state == JobState::done);
  const gguf::File file = gguf::File::open(folder / "out.gguf");
  CHECK(file.find_tensor("blk.1.ffn_up.weight")->type == quant::Type::Q4_0);
  CHECK(file.find_tensor("blk.1.ffn_gate.weight")->type == quant::Type::Q8_0);
}

TEST_CASE("a job that fails says why in one line, and the next one runs") {
  const tests::TemporaryFolder folder;
  Queue q;
  q.queue.start(quantize(folder / "missing.gguf", folder / "out.gguf"));
  q.queue.start(quantize(tests::tiny_model(), folder / "out.gguf", "Q9_X"));
  api::ConvertRequest convert;
  convert.input = folder.path();
  convert.output = folder / "out.gguf";
  q.queue.start(convert);
  q.queue.start(quantize(tests::tiny_model(), folder / "nowhere/out.gguf"));
  for (const auto& [id, word] : {std::pair{1, "missing.gguf"}, {2, "Q9_X"}, {3, ".safetensors"}, {4, "nowhere"}}) {
    const Job job = q.finish(static_cast<uint64_t>(id));
    CHECK(job.state == JobState::failed);
    CHECK(job.error.find(word) != std::string::npos);
    CHECK(job.error.find('\n') == std::string::npos);
  }
  CHECK(folder.file_count() == 0);
  q.queue.start(quantize(tests::tiny_model(), folder / "out.gguf"));
  CHECK(q.finish(5).state == JobState::done);
}

TEST_CASE("a job that is cancelled while it writes leaves no file, and what stood there stays") {
  const tests::TemporaryFolder folder;
  const std::string in = larger_model(folder / "in.gguf"), out = folder.write("out.gguf", "what stood there");
  Queue q;
  q.queue.start(quantize(in, out, "IQ2_S"));
  q.wait(1, under_way);
  q.queue.cancel(1);
  const Job job = q.finish(1);
  CHECK(job.state == JobState::cancelled);
  CHECK(job.share < 1);
  CHECK(tests::read_file(out) == "what stood there");
  CHECK(folder.file_count() == 2);
}

TEST_CASE("a bench can be cancelled, and a job that waits behind it never starts") {
  const tests::TemporaryFolder folder;
  Queue q;
  api::BenchRequest bench;
  bench.files = {tests::tiny_model()};
  bench.prompts = "0";
  bench.generated = "400";
  bench.repetitions = 100000;
  q.queue.start(bench);
  q.queue.start(quantize(tests::tiny_model(), folder / "out.gguf"));
  q.wait(1, under_way);
  q.queue.cancel(2);
  CHECK(q.finish(2).state == JobState::cancelled);
  q.queue.cancel(1);
  CHECK(q.finish(1).state == JobState::cancelled);
  CHECK(folder.file_count() == 0);
  q.queue.forget(2);
  CHECK(q.size() == 1);
}

TEST_CASE("a bench fills a table with units") {
  Queue q;
  api::BenchRequest bench;
  bench.files = {tests::tiny_model()};
  bench.prompts = "8";
  bench.generated = "4,5";
  bench.repetitions = 1;
  q.queue.start(bench);
  const Job job = q.finish(1);
  CHECK(job.error == "");
  REQUIRE(job.tables.size() == 1);
  REQUIRE(job.tables[0].rows.size() == 3);
  CHECK(job.tables[0].rows[1][0] == "tg4");
  CHECK(job.tables[0].rows[1][1].ends_with(" tok/s"));
  CHECK(job.tables[0].rows[1][2].ends_with(" GB/s"));
}

TEST_CASE("the time left is that of the pace at which the present activity goes, wherever it began") {
  CHECK(app::remaining_seconds(10, 0, 0.25) == doctest::Approx(30));
  CHECK(app::remaining_seconds(10, 0.5, 0.75) == doctest::Approx(10)); // second of two
  CHECK(app::remaining_seconds(10, 0.99, 0.99) < 0);
  CHECK(app::remaining_seconds(0.5, 0, 0.5) < 0);
}

TEST_CASE("a model that is shortened while a job reads it fails the job, and nothing is written") {
  const tests::TemporaryFolder folder;
  const std::string in = larger_model(folder / "in.gguf");
  Queue q;
  q.queue.start(quantize(in, folder / "out.gguf", "IQ2_S"));
  q.wait(1, under_way);
  std::filesystem::resize_file(in, 4096);
  const Job job = q.finish(1);
  CHECK(job.state == JobState::failed);
  CHECK(job.error.find("truncated") != std::string::npos);
  CHECK(folder.file_count() == 1);
}

TEST_CASE("closing the queue stops what runs") {
  auto q = std::make_unique<Queue>();
  api::BenchRequest bench;
  bench.files = {tests::tiny_model()};
  bench.repetitions = 100000;
  q->queue.start(bench);
  q->wait(1, under_way);
  const tests::Guard guard("the queue to close"); // the bench would take hours
  q.reset();
}

TEST_CASE("a download is a job that can be cancelled, and goes on when it is run again") {
  const tests::TemporaryFolder folder;
  tests::FakeHub hub;
  const std::string bytes(8'000'000, 'x');
  hub.files = {{"Tall-Q4_K_M.gguf", bytes}};
  std::atomic<bool> slow = true;
  hub.store_before = [&](const tests::HttpRequest& request, const tests::HttpReply& reply) {
    if (!slow) return false;
    const size_t first = std::stoul(request.header("range").substr(6));
    reply.raw(fmt::format("HTTP/1.1 206 x\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
                          bytes.size() - first, first, bytes.size() - 1, bytes.size()));
    reply.raw(std::string_view(bytes).substr(first, bytes.size() / 2));
    while (slow && !hub.store.stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return false;
  };
  ::setenv("HF_ENDPOINT", hub.hub.address().c_str(), 1);
  ::setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  Queue q;
  q.queue.start(api::PullRequest{"hf:acme/Tall-GGUF"});
  q.wait(1, [](const Job& job) { return job.state == JobState::running && job.share > 0.3; });
  q.queue.cancel(1);
  CHECK(q.finish(1).state == JobState::cancelled);
  slow = false;
  hub.store.clear();
  q.queue.start(api::PullRequest{"hf:acme/Tall-GGUF"});
  const Job job = q.finish(2);
  CHECK(job.error == "");
  CHECK(tests::read_file(job.opens) == bytes);
  CHECK(job.title == "Download hf:acme/Tall-GGUF");
  CHECK(hub.store.requests().at(0).header("range") != "bytes=0-7999999");
  q.queue.start(api::PullRequest{"tall"});
  CHECK(q.finish(3).error.find("expected hf:OWNER/REPO") != std::string::npos);
  for (const char* name : {"HF_ENDPOINT", "HF_HUB_CACHE"}) ::unsetenv(name);
}
