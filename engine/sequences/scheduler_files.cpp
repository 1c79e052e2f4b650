// Saves and restores streams. This happens between steps, while no sequence has the stream.
#include "engine/sequences/scheduler.h"

#include "core/error.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ridge::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnbounded = int64_t{1} << 50;
constexpr int64_t kMaxTokensBytes = 64 << 20;

std::string tokens_file(const std::string& folder) { return folder + "/tokens.json"; }

int64_t bytes_in(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    bytes += static_cast<int64_t>(at->file_size(error));
  return bytes;
}

std::vector<int32_t> read_tokens(const std::string& folder) {
  const std::string path = tokens_file(folder);
  const auto json = core::parse_json(core::read_text_file(path, kMaxTokensBytes), path);
  std::vector<int32_t> tokens;
  if (!json.is_array()) throw_error("{}: expected a list of tokens", path);
  for (const auto& token : json) {
    if (!token.is_number_integer() || token.get<int64_t>() < 0 || token.get<int64_t>() > INT32_MAX)
      throw_error("{}: expected a list of tokens", path);
    tokens.push_back(token.get<int32_t>());
  }
  return tokens;
}

} // namespace

void Scheduler::when_free(int32_t stream, std::function<void(StreamCache& cache)> work) {
  std::future<void> done;
  {
    const std::scoped_lock lock(mutex_);
    if (draining_ || stopping_ || driven_by_caller_)
      throw_error("the engine is shutting down and takes no more requests");
    Job& job = jobs_.emplace_back(stream, std::packaged_task<void(StreamCache&)>(std::move(work)));
    done = job.work.get_future();
    changed_.notify_all();
  }
  try {
    done.get();
  } catch (const std::future_error&) {
    throw_error("the engine is shutting down and takes no more requests");
  }
}

// Requires the lock.
bool Scheduler::has_free_job() const {
  return std::ranges::any_of(jobs_, [&](const Job& job) { return !streams_[job.stream].sequence; });
}

void Scheduler::run_jobs() {
  std::vector<Job> free;
  {
    const std::scoped_lock lock(mutex_);
    for (Job& job : jobs_)
      if (!streams_[job.stream].sequence) free.push_back(std::move(job));
    std::erase_if(jobs_, [](const Job& job) { return !job.work.valid(); });
  }
  for (Job& job : free) {
    decoding_ = false; // the executor's own decoding must start anew
    if (speculated_stream_ == job.stream) speculated_stream_ = -1;
    job.work(streams_[job.stream].cache);
  }
}

PrefixSettings Scheduler::own_files(const std::string& folder, const std::string& model, std::string& problem) const {
  if (executor_.block_layout().empty()) throw_error("this model's cache cannot be copied on these devices");
  return {kUnbounded, folder, kUnbounded, model, [&problem](const std::string& line) { problem = line; }};
}

Scheduler::StreamFile Scheduler::save_stream(int32_t stream, const std::string& folder, const std::string& model) {
  StreamFile saved;
  when_free(stream, [&](StreamCache& cache) {
    for (const int32_t token : cache.tokens())
      if (token < 0)
        throw_error("slot {} holds {}, which cannot be saved as tokens", stream,
                    is_adapter_mark(token) ? "output of an adapter" : "an image or audio");
    std::error_code ignored;
    if (fs::exists(folder, ignored) && !fs::exists(tokens_file(folder), ignored))
      throw_error("{} exists and is not a saved slot: choose another name", folder);
    fs::remove_all(folder, ignored);
    std::string problem;
    if (cache.size() < kWorthKeeping) {
      fs::create_directories(folder, ignored);
    } else {
      const std::unique_ptr<PrefixCache> files =
          PrefixCache::make(executor_, program_, own_files(folder, model, problem));
      files->keep(cache);
      files->write_all();
    }
    std::ofstream out(tokens_file(folder));
    out << nlohmann::json(std::vector<int32_t>(cache.tokens().begin(), cache.tokens().end())).dump();
    out.close();
    if (!problem.empty() || !out)
      throw_error("slot {} cannot be saved: {}", stream, problem.empty() ? folder : problem);
    saved = {cache.size(), bytes_in(folder)};
  });
  return saved;
}

Scheduler::StreamFile Scheduler::restore_stream(int32_t stream, const std::string& folder, const std::string& model) {
  StreamFile restored;
  const std::vector<int32_t> tokens = read_tokens(folder);
  if (!tokens.empty()) check_prompt(tokens, executor_.config().context, program_.vocab);
  when_free(stream, [&](StreamCache& cache) {
    if (std::ssize(tokens) < kWorthKeeping) { // saved without rows: they are evaluated again
      cache.keep(0);
      return;
    }
    std::string problem;
    const std::unique_ptr<PrefixCache> files =
        PrefixCache::make(executor_, program_, own_files(folder, model, problem));
    files->fetch(tokens, 0);
    const int64_t usable = files->usable(tokens);
    if (usable == 0)
      throw_error("slot {} cannot be restored: {}", stream,
                  problem.empty() ? "the files belong to another model or cache type" : problem);
    try {
      cache.keep(0);
      files->load(cache, tokens);
    } catch (...) {
      cache.keep(0); // its contents are uncertain
      throw;
    }
    restored = {usable, bytes_in(folder)};
  });
  return restored;
}

int64_t Scheduler::erase_stream(int32_t stream) {
  int64_t erased = 0;
  when_free(stream, [&](StreamCache& cache) {
    erased = cache.size();
    cache.keep(0);
  });
  return erased;
}

} // namespace ridge::engine
