#include "hub/projectors.h"

#include "core/strings/lower.h"
#include "gguf/shard_name.h"
#include "hub/names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ridge::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFolderEntries = 50000;
constexpr std::string_view kWordSeparators = "-_.";

std::string last_part(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string stem_of(std::string_view path) {
  std::string name = last_part(path);
  if (const auto shard = gguf::shard_name(name))
    name = shard->stem;
  else if (is_gguf_file(name))
    name.resize(name.size() - std::string_view(".gguf").size());
  if (const size_t type = type_in_name(name).size(); type > 0) name.resize(name.size() - type - 1);
  return core::lower(name);
}

int rank_of_type(const std::string& path) {
  constexpr std::string_view kBest[] = {"bf16", "f16", "q8_0", "f32"}; // "bf16" contains "f16"
  constexpr int kRanks[] = {1, 0, 2, 3};
  const std::string name = core::lower(last_part(path));
  for (size_t i = 0; i < std::size(kBest); ++i)
    if (name.find(kBest[i]) != std::string::npos) return kRanks[i];
  return static_cast<int>(std::size(kBest));
}

bool has_words(std::string_view name, std::string_view part) {
  const auto is_between = [&](size_t at) {
    return at >= name.size() || kWordSeparators.find(name[at]) != kWordSeparators.npos;
  };
  for (size_t at = name.find(part); at != name.npos; at = name.find(part, at + 1))
    if ((at == 0 || is_between(at - 1)) && is_between(at + part.size())) return true;
  return false;
}

bool is_named_like(const std::string& owner, const std::string& model) {
  return !owner.empty() && (has_words(model, owner) || has_words(owner, model));
}

std::vector<std::string> files_in(const fs::path& folder, bool (*wanted)(std::string_view)) {
  std::vector<std::string> found;
  std::error_code failed;
  size_t left = kMaxFolderEntries;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end && left > 0; at.increment(failed), --left)
    if (wanted(at->path().filename().string())) found.push_back(at->path().string());
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> named_by_manifests(const fs::path& blob) {
  constexpr uintmax_t kMaxBytes = 1 << 20;
  std::vector<std::string> found;
  std::error_code failed;
  size_t left = kMaxFolderEntries;
  for (fs::recursive_directory_iterator at(blob.parent_path().parent_path() / "manifests", failed), end;
       !failed && at != end && left > 0; at.increment(failed), --left) {
    std::error_code none;
    if (!at->is_regular_file(none) || at->file_size(none) > kMaxBytes) continue;
    std::ifstream file(at->path(), std::ios::binary);
    const std::string manifest{std::istreambuf_iterator<char>(file), {}};
    const auto model = model_blob(manifest), projector = projector_blob(manifest);
    if (!model || !projector || *model != blob.filename().string()) continue;
    const std::string path = (blob.parent_path() / *projector).string();
    if (fs::is_regular_file(path, none) && !std::ranges::count(found, path)) found.push_back(path);
  }
  return found;
}

} // namespace

std::string projector_owner(std::string_view file_name) {
  if (!is_projector_file(last_part(file_name))) return "";
  constexpr std::string_view kWord = "mmproj";
  std::string name = stem_of(file_name);
  name.erase(name.starts_with(kWord) ? 0 : name.size() - kWord.size(), kWord.size());
  name.erase(0, std::min(name.find_first_not_of(kWordSeparators), name.size()));
  name.erase(name.find_last_not_of(kWordSeparators) + 1);
  const bool is_type = !type_in_name("-" + name).empty() && name.find_first_of("-.") == std::string::npos;
  return is_type || name == "model" || name.starts_with("model-") ? "" : name;
}

std::vector<std::string> projectors_of(const std::string& model, std::vector<std::string> projectors,
                                       std::span<const std::string> models) {
  const std::string stem = stem_of(model);
  const auto is_others = [&](const std::string& projector) {
    const std::string owner = projector_owner(projector);
    return !is_named_like(owner, stem) &&
           std::ranges::any_of(models, [&](const std::string& other) { return is_named_like(owner, stem_of(other)); });
  };
  std::erase_if(projectors, is_others);
  using Owner = bool (*)(const std::string& owner, const std::string& stem);
  constexpr Owner kWays[] = {
      [](const std::string& owner, const std::string& stem) { return owner == stem; },
      [](const std::string& owner, const std::string& stem) { return is_named_like(owner, stem); },
      [](const std::string& owner, const std::string&) { return owner.empty(); }};
  for (const Owner is_owner : kWays) {
    const auto fits = [&](const std::string& projector) { return is_owner(projector_owner(projector), stem); };
    if (!std::ranges::any_of(projectors, fits)) continue;
    std::erase_if(projectors, std::not_fn(fits));
    break;
  }
  std::ranges::stable_sort(projectors, {}, rank_of_type);
  return projectors;
}

std::vector<std::string> projectors_beside(const std::string& model) {
  const fs::path path(model), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (path.filename().string().starts_with("sha256-") && folder.filename() == "blobs") return named_by_manifests(path);
  fs::path top = folder;
  while (top.has_relative_path() && top.parent_path().filename() != "snapshots") top = top.parent_path();
  std::vector<std::string> found = files_in(folder, is_projector_file);
  if (found.empty() && top.has_relative_path()) found = files_in(top, is_projector_file);
  if (found.empty()) return found;
  return projectors_of(model, std::move(found), files_in(folder, is_model_file));
}

} // namespace ridge::hub
