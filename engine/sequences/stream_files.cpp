#include "engine/sequences/stream_files.h"

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

// Files of one stream only, without limits.
std::unique_ptr<PrefixCache> own_files(core::Executor& executor, const core::Program& program,
                                       const std::string& folder, const std::string& model, std::string& problem) {
  if (executor.block_layout().empty()) throw_error("this model's cache cannot be copied on these devices");
  return PrefixCache::make(
      executor, program,
      {kUnbounded, folder, kUnbounded, model, [&problem](const std::string& line) { problem = line; }});
}

} // namespace

std::vector<int32_t> read_saved_tokens(const std::string& folder) {
  const std::string path = tokens_file(folder);
  if (std::error_code ignored; !fs::exists(path, ignored))
    throw_error("no slot is saved as {}", fs::path(folder).filename().string()); // the folder stays private
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

StreamFile save_stream(core::Executor& executor, const core::Program& program, StreamCache& cache, int32_t number,
                       const std::string& folder, const std::string& model) {
  for (const int32_t token : cache.tokens())
    if (token < 0)
      throw_error("slot {} holds {}, which cannot be saved as tokens", number,
                  is_adapter_mark(token) ? "output of an adapter" : "an image or audio");
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::exists(tokens_file(folder), ignored))
    throw_error("{} exists and is not a saved slot: choose another name", folder);
  fs::remove_all(folder, ignored);
  std::string problem;
  if (cache.size() < kWorthKeeping) {
    fs::create_directories(folder, ignored);
  } else {
    const std::unique_ptr<PrefixCache> files = own_files(executor, program, folder, model, problem);
    files->keep(cache);
    files->write_all();
  }
  std::ofstream out(tokens_file(folder));
  out << nlohmann::json(std::vector<int32_t>(cache.tokens().begin(), cache.tokens().end())).dump();
  out.close();
  if (!problem.empty() || !out) throw_error("slot {} cannot be saved: {}", number, problem.empty() ? folder : problem);
  return {cache.size(), bytes_in(folder)};
}

StreamFile restore_stream(core::Executor& executor, const core::Program& program, StreamCache& cache, int32_t number,
                          std::span<const int32_t> tokens, const std::string& folder, const std::string& model) {
  if (std::ssize(tokens) < kWorthKeeping) { // saved without rows: they are evaluated again
    cache.keep(0);
    return {};
  }
  std::string problem;
  const std::unique_ptr<PrefixCache> files = own_files(executor, program, folder, model, problem);
  files->fetch(tokens, 0);
  const int64_t usable = files->usable(tokens);
  if (usable == 0)
    throw_error("slot {} cannot be restored: {}", number,
                problem.empty() ? "the files belong to another model or cache type" : problem);
  cache.keep(0);
  try {
    files->load(cache, tokens);
  } catch (...) {
    cache.keep(0); // its contents are uncertain
    throw;
  }
  return {usable, bytes_in(folder)};
}

} // namespace ridge::engine
