#include "hub/local_models.h"

#include "core/error.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "gguf/shard_name.h"
#include "hub/hub_cache.h"
#include "hub/names.h"
#include "hub/projectors.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <tuple>

namespace ridge::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 6;
constexpr size_t kMaxEntries = 50000;
constexpr int64_t kMaxParts = 50000;
constexpr size_t kMaxBytes = 1 << 20;

bool is_printable(const std::string& name) { return core::printable(name, name.size() + 1) == name; }

std::vector<fs::path> entries_of(const fs::path& folder, size_t& left) {
  std::vector<fs::path> entries;
  std::error_code problem;
  for (fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, problem), end;
       !problem && at != end && left > 0; at.increment(problem), --left)
    if (is_printable(at->path().filename().string())) entries.push_back(at->path());
  std::ranges::sort(entries);
  return entries;
}

void walk(const fs::path& folder, int depth, size_t& left, const std::function<void(const fs::path&)>& visit) {
  for (const fs::path& path : entries_of(folder, left)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      if (depth > 0) walk(path, depth - 1, left, visit);
    } else {
      visit(path);
    }
  }
}

std::string read_small(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_regular_file(path, problem) || fs::file_size(path, problem) > kMaxBytes || problem) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Collector {
 public:
  std::vector<LocalModel> models;

  void add_hugging_face(const fs::path& cache) {
    size_t left = kMaxEntries;
    for (const fs::path& repo : entries_of(cache, left)) {
      constexpr std::string_view kPrefix = "models--";
      std::string origin = repo.filename().string();
      if (!origin.starts_with(kPrefix)) continue;
      origin.erase(0, kPrefix.size());
      if (const size_t dashes = origin.find("--"); dashes != std::string::npos) origin.replace(dashes, 2, "/");
      for (const fs::path& snapshot : snapshots(repo, left))
        walk(snapshot, kDeepest, left, [&](const fs::path& path) {
          if (is_listed(path, repo)) add_file(path, origin, Source::hugging_face);
        });
    }
  }

  void add_ollama(const fs::path& place) {
    size_t left = kMaxEntries;
    const fs::path manifests = place / "manifests";
    walk(manifests, kDeepest, left, [&](const fs::path& path) {
      const auto blob = model_blob(read_small(path));
      if (!blob) return;
      std::vector<std::string> words;
      for (const fs::path& word : path.lexically_relative(manifests)) words.push_back(word.string());
      if (words.size() < 2) return;
      std::string name;
      const bool own = words[0] == "registry.ollama.ai";
      for (size_t i = own ? 1 : 0; i + 1 < words.size(); ++i)
        if (!own || words[i] != "library") name += (name.empty() ? "" : "/") + words[i];
      add({name + ":" + words.back(), words[0], Source::ollama, (place / "blobs" / *blob).string()});
    });
  }

  void add_folder(const Place& place) {
    size_t left = kMaxEntries;
    walk(place.folder, kDeepest, left, [&](const fs::path& path) {
      const std::string folder = path.parent_path().lexically_relative(place.folder).string();
      const bool published = place.source == Source::lm_studio && folder.find('/') != std::string::npos;
      const std::string name = path.filename().string();
      if (place.source == Source::ridge ? !is_gguf_file(name) : !is_model_file(name)) return;
      add_file(path, published ? folder : path.parent_path().string(), place.source);
    });
  }

 private:
  static std::vector<fs::path> snapshots(const fs::path& repo, size_t& left) {
    std::vector<fs::path> found = entries_of(repo / "snapshots", left);
    std::string commit = read_small(repo / "refs" / "main");
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    std::ranges::sort(found, [&](const fs::path& a, const fs::path& b) {
      const auto rank = [&](const fs::path& path) {
        std::error_code ignored;
        return std::pair(path.filename() == commit, fs::last_write_time(path, ignored));
      };
      return rank(a) > rank(b);
    });
    return found;
  }

  // Lists models, and any file that ridge pulled, because the user named it.
  static bool is_listed(const fs::path& path, const fs::path& repo) {
    const std::string name = path.filename().string();
    if (is_model_file(name) || !is_gguf_file(name)) return is_model_file(name);
    std::error_code problem;
    const std::string blob = fs::read_symlink(path, problem).filename().string();
    return is_hash(blob, 64) && read_small(repo / kPulledRecord).find(blob + "\n") != std::string::npos;
  }

  void add_file(const fs::path& path, const std::string& origin, Source source) {
    const std::string file = path.filename().string();
    const auto shard = gguf::shard_name(file);
    if (shard && (shard->number != 1 || shard->count > kMaxParts)) return;
    LocalModel model{shard ? shard->stem : file.substr(0, file.size() - 5), origin, source, path.string()};
    if (shard)
      for (int64_t i = 1; i < static_cast<int64_t>(shard->count); ++i)
        model.parts.push_back((path.parent_path() / shard->path(i)).string());
    add(std::move(model));
  }

  void add(LocalModel model) {
    struct stat info;
    if (::stat(model.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        !seen_.emplace(info.st_dev, info.st_ino).second)
      return;
    model.bytes = info.st_size;
    for (const std::string& part : model.parts)
      if (::stat(part.c_str(), &info) == 0)
        model.bytes += info.st_size;
      else
        model.whole = false;
    model.parts.insert(model.parts.begin(), model.path);
    models.push_back(std::move(model));
  }

  std::set<std::pair<dev_t, ino_t>> seen_;
};

} // namespace

namespace {

// Removes pulled projectors of listed models.
void remove_projectors(std::vector<LocalModel>& models) {
  const auto is_encoder = [](const LocalModel& model) {
    return is_projector_file(fs::path(model.path).filename().string());
  };
  if (std::ranges::none_of(models, is_encoder)) return;
  std::set<std::string> of_models;
  for (const LocalModel& model : models)
    if (!is_encoder(model))
      for (std::string& path : projectors_beside(model.path)) of_models.insert(std::move(path));
  std::erase_if(models, [&](const LocalModel& model) { return is_encoder(model) && of_models.contains(model.path); });
}

} // namespace

std::vector<LocalModel> local_models(std::span<const Place> places, bool encoders) {
  Collector collector;
  for (const Place& place : places) {
    if (place.source == Source::hugging_face || place.source == Source::llama_cpp)
      collector.add_hugging_face(place.folder);
    if (place.source == Source::ollama)
      collector.add_ollama(place.folder);
    else if (place.source != Source::hugging_face)
      collector.add_folder(place);
  }
  if (!encoders) remove_projectors(collector.models);
  std::ranges::stable_sort(collector.models, {}, [](const LocalModel& m) { return core::lower(m.name); });
  return std::move(collector.models);
}

namespace {

[[noreturn]] void throw_ambiguous(const std::vector<const LocalModel*>& candidates, const std::string& wanted) {
  constexpr size_t kShown = 6;
  std::string list;
  for (size_t i = 0; i < std::min(kShown, candidates.size()); ++i) {
    const LocalModel& model = *candidates[i];
    const bool shared = std::ranges::count(candidates, model.name, &LocalModel::name) > 1;
    list += (i > 0 ? ", " : "") + (shared ? model.origin + "/" + model.name : model.name);
  }
  if (candidates.size() > kShown) list += fmt::format(" and {} more", candidates.size() - kShown);
  throw Error(fmt::format("{}: ambiguous; it matches {}", core::printable(wanted), list), Error::kUsage);
}

} // namespace

const LocalModel* find_model(std::span<const LocalModel> models, const std::string& wanted) {
  const std::string small = core::lower(wanted);
  const auto address = [](const LocalModel& model) { // a plain folder's name says nothing about the model
    const bool known = model.source == Source::hugging_face || model.source == Source::lm_studio;
    return known ? model.origin + "/" + model.name : model.name;
  };
  const std::function<bool(const LocalModel&)> ways[] = {
      [&](const LocalModel& m) { return m.name == wanted || address(m) == wanted; },
      [&](const LocalModel& m) { return core::lower(m.name) == small || core::lower(address(m)) == small; },
      [&](const LocalModel& m) { return m.source == Source::ollama && core::lower(m.name) == small + ":latest"; },
      [&](const LocalModel& m) { return core::lower(m.name).starts_with(small); },
      [&](const LocalModel& m) { return core::lower(address(m)).find(small) != std::string::npos; },
  };
  for (const auto& matches : ways) {
    std::vector<const LocalModel*> found;
    for (const LocalModel& model : models)
      if (matches(model)) found.push_back(&model);
    if (found.empty()) continue;
    for (const LocalModel* model : found) // copies of one model are not ambiguous
      if (model->name != found[0]->name || model->bytes != found[0]->bytes) throw_ambiguous(found, wanted);
    return found[0];
  }
  return nullptr;
}

} // namespace ridge::hub
