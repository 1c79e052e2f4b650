#include "app/jobs.h"

#include "app/window_words.h"
#include "convert/frontier.h"
#include "convert/import/import.h"
#include "convert/quantize.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "hub/pull.h"
#include "hub/speed.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/bench.h"
#include "measure/roofline.h"
#include "models/model.h"
#include "models/recipes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

namespace ridge::app {

using api::Job, api::JobState, core::seconds_now;

namespace {

constexpr auto kReportInterval = std::chrono::milliseconds(100);
constexpr double kKnownAfterSeconds = 1, kKnownAfterShare = 0.02; // earlier estimates are too uncertain
constexpr size_t kRemembered = 100;

std::string file_name(const std::string& path) {
  std::filesystem::path p = path;
  if (p.filename().empty()) p = p.parent_path();
  return path.empty() ? "the guide" : core::printable(p.filename().string());
}

std::string title_of(const api::ConvertRequest& r) { return fmt::format("Convert {}", file_name(r.input)); }

std::string title_of(const api::QuantizeRequest& r) {
  const std::string in = file_name(r.input);
  if (r.explore) return fmt::format("Measure the cost of quantizing {}", in);
  return !r.target_size.empty()      ? fmt::format("Quantize {} to {}", in, r.target_size)
         : r.tensor_types.size() < 2 ? fmt::format("Quantize {} to {}", in, r.type)
                                     : fmt::format("Quantize {} to a mix with {}", in, r.type);
}

std::string title_of(const api::BenchRequest& r) {
  return fmt::format("Bench {}", file_name(r.files.empty() ? "" : r.files.front()));
}

std::string title_of(const api::RooflineRequest& r) {
  return r.file.empty() ? "Roofline of this machine"
                        : fmt::format("Roofline of this machine with {}", file_name(r.file));
}

std::string title_of(const api::PullRequest& r) { return fmt::format("Download {}", core::printable(r.model, 200)); }

std::string value_of(const core::Ceiling& c) {
  switch (c.unit) {
  case core::Ceiling::Unit::bytes_per_second: return fmt::format("{:.1f} GB/s", c.value / 1e9);
  case core::Ceiling::Unit::operations_per_second: return fmt::format("{:.3f} TFLOP/s", c.value / 1e12);
  case core::Ceiling::Unit::seconds: return fmt::format("{:.2f} µs", c.value * 1e6);
  }
  return "";
}

api::JobTable bench_table() {
  return {"", {"Test", "Speed", "% of roof", "Of the roof", "% of peak", "Of the peak"}, {}};
}

std::vector<std::string> bench_row(const measure::BenchRow& row) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return {row.test(),
          fmt::format("{:.1f} ± {:.1f} tok/s", row.rate(), row.rate_deviation()),
          fmt::format("{:.2f} GB/s", row.bytes_per_second() / 1e9),
          percent(row.bytes_per_second() / row.read_bytes_per_second),
          fmt::format("{:.3f} TFLOP/s", row.flops_per_second() / 1e12),
          row.prompt > 0 ? percent(row.flops_per_second() / row.peak_flops) : ""};
}

} // namespace

api::JobChoices job_choices() {
  api::JobChoices choices;
  for (const models::Recipe& recipe : models::recipes())
    choices.recipes.push_back({std::string(recipe.name), quant::format(recipe.base).bits_per_weight()});
  return choices;
}

double remaining_seconds(double spent_s, double share_before, double share) {
  const double done = share - share_before;
  return spent_s > kKnownAfterSeconds && done > kKnownAfterShare ? spent_s * (1 - share) / done : -1;
}

JobQueue::JobQueue(std::function<void(Jobs)> publish, std::string device, int threads)
    : publish_(std::move(publish)), device_(std::move(device)), threads_(threads), worker_([this] { work(); }),
      reporter_([this] { report(); }) {}

JobQueue::~JobQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = cancel_ = true;
  }
  changed_.notify_all();
  worker_.join();
  reporter_.join();
}

void JobQueue::start(api::JobRequest request) {
  {
    const std::lock_guard lock(mutex_);
    Job job;
    job.id = ++last_id_;
    job.title = std::visit([](const auto& r) { return title_of(r); }, request);
    job.request = std::move(request);
    jobs_.push_back(std::move(job));
    for (auto old = jobs_.begin(); jobs_.size() > kRemembered && old != jobs_.end();)
      old = old->over() ? jobs_.erase(old) : old + 1;
  }
  changed_.notify_all();
  publish();
}

void JobQueue::cancel(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    if (id == running_) {
      cancel_ = true;
    } else {
      const auto job = std::ranges::find(jobs_, id, &Job::id);
      if (job == jobs_.end() || job->state != JobState::waiting) return;
      job->state = JobState::cancelled;
    }
  }
  publish();
}

void JobQueue::forget(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) { return job.id == id && job.over(); });
  }
  publish();
}

void JobQueue::publish() {
  const std::lock_guard order(publishing_);
  std::vector<Job> list;
  {
    const std::lock_guard lock(mutex_);
    list.assign(jobs_.rbegin(), jobs_.rend());
    for (Job& job : list) {
      if (job.id != running_) continue;
      const double now = seconds_now();
      job.elapsed_s = now - started_s_;
      job.remaining_s = remaining_seconds(now - activity_began_s_, activity_began_at_, job.share);
      if (cancel_) job.activity = "stopping";
    }
  }
  publish_(std::make_shared<std::vector<Job>>(std::move(list)));
}

void JobQueue::report() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || running_ != 0; });
    changed_.wait_for(lock, kReportInterval, [&] { return closing_; });
    if (closing_) return;
    lock.unlock();
    publish();
    lock.lock();
  }
}

void JobQueue::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      const auto waiting = [&] { return std::ranges::find(jobs_, JobState::waiting, &Job::state); };
      changed_.wait(lock, [&] { return closing_ || waiting() != jobs_.end(); });
      if (closing_) return;
      Job& next = *waiting();
      next.state = JobState::running;
      job = next;
      running_ = job.id;
      cancel_ = false;
      started_s_ = activity_began_s_ = seconds_now();
      activity_began_at_ = 0;
    }
    changed_.notify_all();
    run(job);
    {
      const std::lock_guard lock(mutex_);
      job.elapsed_s = seconds_now() - started_s_;
      running_ = 0;
      *std::ranges::find(jobs_, job.id, &Job::id) = std::move(job);
    }
    publish();
  }
}

// An exception ends only this job.
void JobQueue::run(Job& job) {
  try {
    std::visit([&](const auto& request) { work_on(request, job); }, job.request);
    job.state = JobState::done;
    return;
  } catch (const Cancelled&) {
    job.state = JobState::cancelled;
    return;
  } catch (const std::bad_alloc&) {
    job.error = "out of memory";
  } catch (const kernels::cuda::OutOfMemory& error) {
    job.error = fmt::format("{}; the model open in the window also uses memory", error.what());
  } catch (const Error& error) {
    job.error = in_window_words(error.what());
  } catch (const std::exception& error) {
    job.error = fmt::format("internal error, please report it: {}", error.what());
  }
  job.state = JobState::failed;
}

void JobQueue::progress(std::string_view activity, double share) {
  const std::lock_guard lock(mutex_);
  if (cancel_) throw Cancelled{};
  Job& job = *std::ranges::find(jobs_, running_, &Job::id);
  if (job.activity != activity) {
    job.activity = activity;
    activity_began_s_ = seconds_now();
    activity_began_at_ = share;
  }
  job.share = share;
}

namespace {

double share_of(int64_t done, int64_t total) {
  return total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
}

void explore(const api::QuantizeRequest& request, const convert::QuantizeSteps& steps, Job& job) {
  const double start = seconds_now();
  const convert::Frontier frontier = convert::explore(request, steps);
  const bool calibrated = request.method != "plain";
  api::JobTable table{"", {"Types", "Size", "Bits per weight", "Divergence", "Standard error"}, {}};
  if (calibrated) table.columns.push_back(fmt::format("Without {}", request.method));
  for (const convert::FrontierPoint& p : frontier.points) {
    job.frontier.push_back({p.name, p.bytes, p.bits_per_weight, p.divergence.value, p.best, p.plain.value_or(0)});
    table.rows.push_back({p.name.empty() ? "mix" : p.name, core::human_bytes(static_cast<double>(p.bytes)),
                          fmt::format("{:.3f}", p.bits_per_weight), fmt::format("{:.3g} nats", p.divergence.value),
                          fmt::format("{:.2g} nats", p.divergence.error)});
    if (calibrated) table.rows.back().push_back(fmt::format("{:.3g} nats", *p.plain));
  }
  job.tables.push_back(std::move(table));
  job.result = fmt::format("{} variants, {} scored tokens, {}", frontier.points.size(), frontier.scored_tokens,
                           core::human_seconds(seconds_now() - start));
}

} // namespace

void JobQueue::work_on(const api::ConvertRequest& request, Job& job) {
  if (request.output.empty()) throw_error("choose a file to write");
  progress("reading the checkpoint", 0);
  const double start = seconds_now();
  const convert::import::ConvertReport report = convert::import::convert(
      request, [&](int64_t done, int64_t total) { progress("converting", share_of(done, total)); });
  job.notes = report.notes;
  job.opens = request.output;
  for (const auto& [path, tensors, bytes] : report.files)
    job.result += fmt::format("{}: {}, {} tensors, {}; ", file_name(path), models::model_label(gguf::File::open(path)),
                              tensors, core::human_bytes(static_cast<double>(bytes)));
  job.result += core::human_seconds(seconds_now() - start);
}

void JobQueue::work_on(api::QuantizeRequest request, Job& job) {
  request.device = device_;
  request.threads = threads_;
  convert::QuantizeSteps steps;
  steps.progress = [&](std::string_view what, int64_t done, int64_t all) { progress(what, share_of(done, all)); };
  steps.note = [&](const std::string& note) { job.notes.push_back(note); };
  progress("reading the model", 0);
  if (request.explore) return explore(request, steps, job);
  if (request.output.empty()) throw_error("choose a file to write");
  api::JobTable table{"", {"Tensor", "From", "To", "Bits per weight", "RMSE", "SQNR", "Size"}, {}};
  quant::ErrorStats total;
  uint64_t before = 0, after = 0;
  int64_t weights = 0;
  steps.planned = [&](const convert::Requantization&) { progress("quantizing", 0); };
  steps.done = [&](const convert::TensorResult& t) {
    before += t.bytes_before;
    after += t.bytes;
    weights += t.weights;
    if (t.encoded) total += t.error;
    table.rows.push_back({core::printable(t.name), std::string(t.from), std::string(t.to),
                          fmt::format("{:.3f}", 8.0 * static_cast<double>(t.bytes) / static_cast<double>(t.weights)),
                          t.encoded ? fmt::format("{:.3g}", t.error.rmse()) : "",
                          t.encoded ? fmt::format("{:.1f} dB", t.error.sqnr_db()) : "",
                          core::human_bytes(static_cast<double>(t.bytes))});
  };
  const double start = seconds_now();
  const convert::QuantizeResult result = convert::quantize(request, steps);
  job.opens = result.paths.front();
  job.tables.push_back(std::move(table));
  job.result = fmt::format("{} → {}, {:.3f} bits per weight, {}{}", core::human_bytes(static_cast<double>(before)),
                           core::human_bytes(static_cast<double>(after)),
                           8.0 * static_cast<double>(after) / static_cast<double>(std::max<int64_t>(1, weights)),
                           total.weights > 0 ? fmt::format("SQNR {:.1f} dB, ", total.sqnr_db()) : "",
                           core::human_seconds(seconds_now() - start));
}

void JobQueue::work_on(api::BenchRequest request, Job& job) {
  request.device = device_;
  request.threads = fmt::format("{}", threads_);
  job.tables.push_back(bench_table());
  measure::BenchSteps steps;
  steps.progress = [&](const std::string& test, double share) { progress(fmt::format("measuring {}", test), share); };
  std::string rates;
  steps.row = [&](const measure::BenchRow& row) {
    job.tables.back().title = fmt::format("{}, {}", row.model, row.device);
    job.tables.back().rows.push_back(bench_row(row));
    rates += fmt::format("{}{}: {:.1f} tok/s", rates.empty() ? "" : " · ", row.test(), row.rate());
  };
  progress("opening the model", 0);
  measure::bench(request, steps, {"prompt tokens", "generated tokens", "depth"});
  job.result = rates;
}

void JobQueue::work_on(api::RooflineRequest request, Job& job) {
  request.device = device_;
  request.threads = threads_;
  const measure::RooflineReport report = measure::measure_roofline(
      request, [&](std::string_view what, int64_t done, int64_t total) { progress(what, share_of(done, total)); });
  if (!report.missing.empty()) job.notes.push_back(report.missing);
  api::JobTable ceilings{fmt::format("Limits of {}", report.device), {"Ceiling", "Measured", "How"}, {}};
  for (const core::Ceiling& c : report.ceilings) ceilings.rows.push_back({c.name, value_of(c), c.how});
  api::JobTable kernels{fmt::format("Kernels of {}", report.model),
                        {"Kernel", "Time", "Intensity", "Bandwidth", "Arithmetic", "% of roof", "Bound by"},
                        {}};
  for (const measure::RooflinePoint& p : report.points)
    kernels.rows.push_back({p.name, fmt::format("{:.1f} µs", p.seconds * 1e6),
                            fmt::format("{:.2f} FLOP/B", p.flops_per_byte()),
                            fmt::format("{:.1f} GB/s", p.bytes_per_second() / 1e9),
                            fmt::format("{:.3f} TFLOP/s", p.flops_per_second() / 1e12),
                            fmt::format("{:.1f} %", 100 * report.floor_seconds(p) / p.seconds), report.bound_by(p)});
  job.result = fmt::format("{:.1f} GB/s, {:.2f} TFLOP/s; the ridge is at {:.1f} FLOP/B", report.read() / 1e9,
                           report.peak() / 1e12, report.peak() / report.read());
  job.tables = {std::move(ceilings), std::move(kernels)};
}

// Partial downloads are kept; the same request resumes them.
void JobQueue::work_on(const api::PullRequest& request, Job& job) {
  const auto reference = hub::parse_reference(request.model);
  if (!reference) throw_error("{}: expected hf:OWNER/REPO or https://HOST/FILE.gguf", core::printable(request.model));
  progress("asking the hub", 0);
  hub::Speed speed;
  hub::PullOptions options = hub::pull_options();
  options.policy.cancel = &cancel_;
  options.note = [&](const std::string& line) { job.notes.push_back(line); };
  options.progress = [&](const std::string& what, int64_t done, int64_t total) {
    progress(what + ": " + speed.text(seconds_now(), done, total), share_of(done, total));
  };
  const double start = seconds_now();
  try {
    const hub::Pulled pulled = hub::pull(*reference, options);
    job.opens = pulled.path;
    job.result = fmt::format("{}, {}", core::human_bytes(static_cast<double>(pulled.bytes)),
                             core::human_seconds(seconds_now() - start));
  } catch (const Error&) {
    if (cancel_) throw Cancelled{};
    throw;
  }
}

} // namespace ridge::app
