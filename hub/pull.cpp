#include "hub/pull.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "hub/file_hash.h"
#include "hub/hub_cache.h"
#include "hub/names.h"

#include <fmt/ranges.h>

#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace ridge::hub {
namespace {

namespace fs = std::filesystem;

// HF_TOKEN, or the file that huggingface-cli writes. It lies in HF_HOME even if HF_HUB_CACHE names another folder.
std::string find_token() {
  std::string token = environment("HF_TOKEN"), where = "HF_TOKEN";
  if (token.empty()) {
    where = environment("HF_TOKEN_PATH");
    const std::string home = hugging_face_home();
    if (where.empty() && !home.empty()) where = home + "/token";
    std::ifstream file(where);
    std::getline(file, token);
  }
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  for (const char c : token)
    if (c <= ' ' || c > '~') throw_error("{}: contains no valid token: unexpected characters", where);
  return token;
}

std::function<bool()> waiting(const PullOptions& options, const std::string& name) {
  return [&options, name, told = false]() mutable {
    if (!told && options.note) options.note(fmt::format("{}: another process is downloading it; waiting", name));
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return !options.policy.cancelled();
  };
}

DownloadOptions download_options(const PullOptions& options, const std::string& label, int64_t before, int64_t total) {
  DownloadOptions download = options.download;
  download.progress = [&options, label, before, total](int64_t done, int64_t) {
    if (options.progress) options.progress(label, before + done, total);
  };
  return download;
}

class HubPull {
 public:
  HubPull(const Reference& reference, const Listing& listing, const PullOptions& options)
      : reference_(reference), listing_(listing), options_(options), cache_(options.cache, reference.repository) {
    cache_.make_folders();
  }

  void get(const std::vector<RemoteFile>& files, const std::string& label) const {
    int64_t total = 0, before = 0;
    for (const RemoteFile& file : files) total += file.bytes;
    for (const RemoteFile& file : files) {
      if (!cache_.has_blob(file)) fetch(file, download_options(options_, label, before, total));
      cache_.link(listing_.commit, file);
      before += file.bytes;
    }
  }

  std::string finish(const RemoteFile& first) const {
    cache_.set_revision(reference_.revision, listing_.commit);
    return cache_.link_path(listing_.commit, first);
  }

 private:
  void fetch(const RemoteFile& file, const DownloadOptions& download_options) const {
    const RequestPolicy& policy = options_.policy;
    IncompleteFile incomplete(cache_.incomplete_path(file), waiting(options_, file.path));
    if (cache_.has_blob(file)) return incomplete.remove();
    const std::string url = fmt::format("{}/{}/resolve/{}/{}", policy.endpoint, url_escaped(reference_.repository),
                                        listing_.commit, url_escaped(file.path));
    incomplete.begin(file.bytes, options_.download.piece_bytes, file.blob);
    download({url, file.path, file.sha256 ? file.blob : "", ""}, policy, incomplete, download_options,
             [&](const Head& head) { throw_refused(head, policy, reference_); });
    cache_.note_pulled(file);
    incomplete.finish(cache_.blob_path(file));
  }

  const Reference& reference_;
  const Listing& listing_;
  const PullOptions& options_;
  HubCache cache_;
};

std::string size_text(int64_t bytes) { return core::human_bytes(static_cast<double>(bytes)); }

const RemoteFile* choose_projector(const RemoteModel& model, const Listing& listing, const Reference& reference,
                                   const PullOptions& options) {
  if (options.projector == kNoProjector || !is_model_file(fs::path(model.files[0].path).filename().string()))
    return nullptr;
  std::vector<std::string> others;
  const RemoteFile* found = nullptr;
  try {
    found = projector_for(model, listing.files, options.projector, &others);
  } catch (const Error& error) {
    throw_error("{}: {}", core::printable(text_of(reference), 300), error.what());
  }
  if (!others.empty() && options.note)
    options.note(fmt::format("several image or audio encoders match: {}: choose one with --mmproj", some_of(others)));
  return found;
}

Pulled pull_from_hub(const Reference& reference, const PullOptions& options) {
  Connection connection(options.policy);
  const Listing listing = list_repository(connection, reference);
  const std::vector<RemoteModel> models = models_of(listing.files, reference.file);
  std::vector<std::string> others;
  const RemoteModel& model = choose_model(models, reference, &others);
  const RemoteFile* const projector = choose_projector(model, listing, reference, options);
  const std::string label = fs::path(model.name).filename().string();
  if (options.note) {
    options.note(fmt::format("{}: {}, {}{}", text_of(reference), label, size_text(model.bytes()),
                             model.files.size() > 1 ? fmt::format(" in {} files", model.files.size()) : ""));
    if (!others.empty()) options.note(fmt::format("other files of this type: {}", some_of(others)));
    if (projector)
      options.note(
          fmt::format("with its image or audio encoder: {}, {}", projector->path, size_text(projector->bytes)));
  }
  const HubPull pull(reference, listing, options);
  pull.get(model.files, label);
  if (projector) pull.get({*projector}, fs::path(projector->path).filename().string());
  return {pull.finish(model.files[0]), model.bytes()};
}

struct Probe {
  int64_t bytes = -1;
  std::string etag, sha256;
};

Probe probe(Connection& connection, const std::string& url) {
  for (int tries = 0;; ++tries) {
    Probe found;
    Head head;
    const Failure failure = connection.ask(
        {url, 0, 0},
        [&](const Head& answer) {
          head = answer;
          return false;
        },
        [](std::span<const char>) { return false; });
    const bool again = failure.reason.empty() ? is_busy(head.status) : failure.retryable;
    if (again && tries + 1 < connection.policy().tries) {
      wait_to_retry(connection.policy(), tries, head);
      continue;
    }
    if (!failure.reason.empty()) throw_error("{}: {}", url, failure.reason);
    if (head.status != 200 && head.status != 206)
      throw_error("{}: the server answered with status {}", url, head.status);
    const std::string range = head.header("content-range"),
                      length = head.status == 206 ? range.substr(range.find('/') + 1) : head.header("content-length");
    std::from_chars(length.data(), length.data() + length.size(), found.bytes);
    constexpr int64_t kMaxBytes = int64_t{1} << 44;
    if (found.bytes < 1 || found.bytes > kMaxBytes) throw_error("{}: the server does not report the file's size", url);
    found.etag = head.header("etag");
    if (!found.etag.starts_with('"')) found.etag.clear(); // a weak ETag does not identify bytes
    std::string hash = head.header("x-linked-etag");
    std::erase(hash, '"');
    if (is_hash(hash, 64)) found.sha256 = hash;
    return found;
  }
}

// Whether the file exists with the right size and, if known, hash.
bool is_there(const std::string& target, const std::string& name, const Probe& found, const PullOptions& options) {
  std::error_code ignored;
  if (!fs::exists(target, ignored)) return false;
  if (static_cast<int64_t>(fs::file_size(target, ignored)) != found.bytes)
    throw_error("{}: already exists with another size; remove it first: ridge rm {}", target,
                name.substr(0, name.size() - 5));
  const auto note = [&](const char* line) {
    if (options.note) options.note(fmt::format("{}: {}", name, line));
  };
  if (found.sha256.empty()) {
    note("already exists with the right size, not downloaded again; the server has no checksum");
    return true;
  }
  const auto checking = [&](int64_t done) {
    if (options.progress) options.progress("checking " + name, done, found.bytes);
    options.policy.throw_if_cancelled(name);
  };
  const bool same = file_sha256(target, checking) == found.sha256;
  note(same ? "already exists with the right SHA-256"
            : "the existing file has another SHA-256 than the server's; downloading it again");
  return same;
}

Pulled pull_address(const std::string& url, const PullOptions& options) {
  const std::string target = place_of_address(url, options.downloads), name = fs::path(target).filename().string();
  std::error_code problem;
  fs::create_directories(options.downloads, problem);
  if (problem) throw_error("{}: cannot create the folder: {}", options.downloads, problem.message());

  Connection connection(options.policy);
  const Probe found = probe(connection, url);
  const auto inode = [&] {
    struct stat info;
    return ::stat(target.c_str(), &info) == 0 ? info.st_ino : 0;
  };
  const ino_t checked = inode();
  if (is_there(target, name, found, options)) return {target, found.bytes};
  IncompleteFile incomplete(target + kIncompleteDownload, waiting(options, name));
  if (inode() != checked && is_there(target, name, found, options)) { // another process pulled it meanwhile
    incomplete.remove();
    return {target, found.bytes};
  }
  if (options.note) options.note(fmt::format("{}, {}", name, size_text(found.bytes)));
  incomplete.begin(found.bytes, options.download.piece_bytes, found.sha256.empty() ? found.etag : found.sha256);
  if (found.sha256.empty() && found.etag.empty()) incomplete.discard_progress(); // nothing identifies the content
  download({url, name, found.sha256, found.sha256.empty() ? found.etag : ""}, options.policy, incomplete,
           download_options(options, name, 0, found.bytes),
           [&](const Head& head) { throw_error("{}: the server answered with status {}", url, head.status); });
  incomplete.finish(target);
  if (found.sha256.empty() && options.note)
    options.note(fmt::format("{}: the server has no checksum; the size is right", name));
  return {target, found.bytes};
}

} // namespace

PullOptions pull_options() {
  PullOptions options;
  options.cache = hugging_face_cache();
  options.downloads = download_folder();
  options.policy.endpoint = environment("HF_ENDPOINT");
  if (options.policy.endpoint.empty()) options.policy.endpoint = "https://huggingface.co";
  while (options.policy.endpoint.ends_with('/')) options.policy.endpoint.pop_back();
  options.policy.token = find_token();
  return options;
}

std::string place_of_address(const std::string& url, const std::string& downloads) {
  std::string name = url.substr(0, url.find_first_of("?#"));
  name = name.substr(name.rfind('/') + 1);
  if (!is_safe_path(name) || !is_gguf_file(name))
    throw_error("{}: not a GGUF file; expected an address that ends in NAME.gguf", core::printable(url, 300));
  if (downloads.empty()) throw_error("no folder for models: set XDG_DATA_HOME or HOME");
  return downloads + "/" + name;
}

int64_t remove_stopped_pull(const Reference& reference) {
  if (reference.url.empty()) return HubCache(hugging_face_cache(), reference.repository).remove_incomplete();
  return remove_interrupted_download(place_of_address(reference.url, download_folder()) + kIncompleteDownload);
}

const LocalModel* find_pulled(std::span<const LocalModel> models, const Reference& reference) {
  if (reference.repository.empty() || reference.revision != "main") return nullptr;
  std::vector<RemoteModel> of_repository;
  std::vector<const LocalModel*> found;
  for (const LocalModel& model : models)
    if (model.source == Source::hugging_face && model.origin == reference.repository && model.whole) {
      if (!reference.file.empty() && model.path.ends_with("/" + reference.file)) return &model;
      if (!is_model_file(fs::path(model.path).filename().string())) continue;
      of_repository.push_back({model.name, {}});
      found.push_back(&model);
    }
  const RemoteModel* chosen = reference.file.empty() ? model_of_type(of_repository, reference.type) : nullptr;
  return chosen ? found[static_cast<size_t>(chosen - of_repository.data())] : nullptr;
}

Pulled pull(const Reference& reference, const PullOptions& options) {
  return reference.repository.empty() ? pull_address(reference.url, options) : pull_from_hub(reference, options);
}

} // namespace ridge::hub
