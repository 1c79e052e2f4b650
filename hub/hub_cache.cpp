#include "hub/hub_cache.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "hub/file_hash.h"
#include "hub/incomplete_file.h"
#include "hub/names.h"
#include "hub/projectors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

namespace ridge::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIncomplete = ".ridge.incomplete";

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem)
    throw_error("{}: cannot create the folder: {}; set HF_HOME to another one", folder.string(), problem.message());
}

std::set<std::string> pulled_blobs(const fs::path& repository) {
  std::set<std::string> blobs;
  std::error_code none;
  if (!fs::is_regular_file(repository / kPulledRecord, none)) return blobs; // opening a pipe would block
  std::ifstream record(repository / kPulledRecord);
  for (std::string line; std::getline(record, line);)
    if (is_hash(line, 64) || is_hash(line, 40)) blobs.insert(line);
  return blobs;
}

// Returns the freed bytes.
int64_t remove_file(const fs::path& path) {
  std::error_code problem;
  const bool is_file = fs::symlink_status(path, problem).type() == fs::file_type::regular;
  const auto bytes = is_file ? static_cast<int64_t>(fs::file_size(path, problem)) : 0;
  const bool removed = fs::remove(path, problem);
  if (problem) throw_error("{}: cannot be removed: {}", path.string(), problem.message());
  return removed ? bytes : 0;
}

bool is_linked(const fs::path& folder, const fs::path& blob) {
  std::error_code problem;
  for (fs::recursive_directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
    std::error_code ignored;
    if (at->is_symlink(ignored) && fs::read_symlink(at->path(), ignored).filename() == blob.filename()) return true;
  }
  return false;
}

int64_t remove_incomplete_files(const fs::path& repository) {
  int64_t freed = 0;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(repository / "blobs", problem))
    if (entry.path().filename().string().ends_with(kIncomplete))
      freed += remove_interrupted_download(entry.path().string());
  return freed;
}

// The link's target, or the hash of a file in a cache that was copied by cp -L. Empty: no such file.
std::string blob_of(const fs::path& part) {
  std::error_code problem;
  if (fs::is_symlink(part, problem)) return fs::read_symlink(part, problem).filename().string();
  return fs::is_regular_file(part, problem) ? file_sha256(part.string()) : "";
}

void remove_empty(fs::path folder, const fs::path& top) {
  std::error_code problem;
  for (; folder != top && folder.has_relative_path() && fs::is_empty(folder, problem) && !problem;
       folder = folder.parent_path())
    fs::remove(folder, problem);
}

std::vector<std::string> own_projectors(const LocalModel& model, const fs::path& repository,
                                        const std::set<std::string>& pulled) {
  const auto is_model = [](const fs::path& path) { return is_model_file(path.filename().string()); };
  if (!is_model(model.path)) return {};
  std::vector<std::string> found = projectors_beside(model.path);
  std::error_code problem;
  std::erase_if(found, [&](const std::string& path) {
    return !path.starts_with(repository.string() + "/") ||
           !pulled.contains(fs::read_symlink(path, problem).filename().string());
  });
  for (fs::recursive_directory_iterator at(repository / "snapshots", problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string path = at->path().string();
    if (found.empty()) break;
    if (!is_model(at->path()) || std::ranges::count(model.parts, path)) continue;
    for (const std::string& others : projectors_beside(path)) std::erase(found, others);
  }
  return found;
}

} // namespace

HubCache::HubCache(const std::string& cache, const std::string& repository) {
  if (cache.empty()) throw_error("no folder for models: set HF_HOME or HOME");
  std::string name = repository;
  name.replace(name.find('/'), 1, "--");
  folder_ = cache + "/models--" + name;
}

std::string HubCache::blob_path(const RemoteFile& file) const { return folder_ + "/blobs/" + file.blob; }

// Not HASH.incomplete, to which other tools append: this file has gaps.
std::string HubCache::incomplete_path(const RemoteFile& file) const { return blob_path(file) + kIncomplete; }

std::string HubCache::link_path(const std::string& commit, const RemoteFile& file) const {
  return folder_ + "/snapshots/" + commit + "/" + file.path;
}

bool HubCache::has_blob(const RemoteFile& file) const {
  struct stat info;
  return ::stat(blob_path(file).c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == file.bytes;
}

void HubCache::make_folders() { make_folder(folder_ + "/blobs"); }

void HubCache::note_pulled(const RemoteFile& file) const {
  if (pulled_blobs(folder_).contains(file.blob)) return;
  const std::string path = folder_ + "/" + kPulledRecord, line = file.blob + "\n";
  const int record = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  const bool good = record >= 0 && ::write(record, line.data(), line.size()) == std::ssize(line);
  if (!good) throw_error("{}: cannot write: {}", path, std::strerror(errno));
  ::close(record);
}

void HubCache::link(const std::string& commit, const RemoteFile& file) const {
  const fs::path path = link_path(commit, file);
  const fs::path target = fs::path(blob_path(file)).lexically_relative(path.parent_path());
  make_folder(path.parent_path());
  std::error_code problem;
  if (fs::read_symlink(path, problem) == target) return;
  const fs::path made = fmt::format("{}.ridge-{}", path.string(), ::getpid());
  fs::remove(made, problem);
  fs::create_symlink(target, made, problem);
  if (!problem) fs::rename(made, path, problem);
  if (problem) throw_error("{}: cannot be linked: {}", path.string(), problem.message());
}

void HubCache::set_revision(const std::string& revision, const std::string& commit) const {
  if (is_hash(revision, 40)) return;
  const fs::path path = folder_ + "/refs/" + revision;
  make_folder(path.parent_path());
  core::AtomicFile file(path.string(), commit.size());
  file.write(std::as_bytes(std::span(commit)));
  file.commit();
}

int64_t HubCache::remove_incomplete() const {
  const int64_t freed = remove_incomplete_files(folder_);
  remove_empty(folder_ + "/blobs", fs::path(folder_).parent_path());
  return freed;
}

// Removes the parts last to first: a model is found by its first part, so a partly removed one stays listed.
int64_t remove_model(const LocalModel& model) {
  int64_t freed = 0;
  if (model.source == Source::ridge) {
    for (size_t i = model.parts.size(); i-- > 0;)
      freed += remove_interrupted_download(model.parts[i] + kIncompleteDownload) + remove_file(model.parts[i]);
    return freed;
  }
  const std::string from(name_of(model.source));
  const auto refuse = [&] {
    throw_error("{}: not downloaded by ridge ({}); ridge rm removes only its own downloads: {}", model.name, from,
                model.path);
  };
  if (model.source != Source::hugging_face) refuse();
  fs::path repository = model.path;
  while (repository.has_relative_path() && repository.filename() != "snapshots") repository = repository.parent_path();
  repository = repository.parent_path();
  std::set<std::string> pulled = pulled_blobs(repository);
  if (pulled.empty()) refuse();
  std::vector<std::string> blobs, parts = model.parts;
  for (const std::string& part : parts) {
    blobs.push_back(blob_of(part));
    if (!blobs.back().empty() && !pulled.contains(blobs.back())) refuse();
  }
  for (std::string& projector : own_projectors(model, repository, pulled)) {
    blobs.push_back(blob_of(projector));
    parts.push_back(std::move(projector));
  }
  std::error_code problem;
  for (size_t i = blobs.size(); i-- > 0;) {
    if (blobs[i].empty()) continue;
    freed += remove_file(parts[i]);
    const fs::path blob = repository / "blobs" / blobs[i];
    if (is_linked(repository / "snapshots", blob)) continue;
    freed += remove_file(blob);
    pulled.erase(blobs[i]);
  }
  freed += remove_incomplete_files(repository);
  for (const std::string& part : parts) remove_empty(fs::path(part).parent_path(), repository);
  std::string record;
  for (const std::string& blob : pulled) record += blob + "\n";
  if (record.empty()) {
    fs::remove(repository / kPulledRecord, problem);
    if (!fs::exists(repository / "snapshots", problem)) fs::remove_all(repository / "refs", problem);
    remove_empty(repository / "blobs", repository.parent_path());
  } else {
    core::AtomicFile file((repository / kPulledRecord).string(), record.size());
    file.write(std::as_bytes(std::span(record)));
    file.commit();
  }
  return freed;
}

} // namespace ridge::hub
