#include "hub/repository.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "core/strings/printable.h"
#include "gguf/shard_name.h"
#include "hub/names.h"
#include "hub/projectors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

namespace ridge::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxAnswerBytes = size_t{32} << 20;
constexpr core::JsonLimits kAnswerLimits{.depth = 16, .containers = 200'000, .bytes = kMaxAnswerBytes};
constexpr int kMaxPages = 50;
constexpr size_t kMaxFiles = 100'000;
constexpr int64_t kMaxFileBytes = int64_t{1} << 44;

// Most wanted first.
constexpr std::string_view kUsual[] = {"Q4_K_M", "Q4_K_S", "Q4_K_L", "Q4_K_XL", "IQ4_XS", "IQ4_NL", "Q4_0",
                                       "MXFP4",  "NVFP4",  "Q4_1",   "Q5_K_M",  "Q5_K_S", "Q5_K",   "Q5_0",
                                       "Q5_1",   "Q6_K",   "Q8_0",   "Q4_K",    "Q3_K_L", "Q3_K_M", "Q3_K_S",
                                       "IQ3_M",  "Q2_K",   "BF16",   "F16",     "FP16",   "F32"};

const std::string* text_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? &at->get_ref<const std::string&>() : nullptr;
}

// Also true if a folder is named after the type: x/UD-Q4_K_XL/y.
bool is_of_type(const RemoteModel& model, const std::string& type) {
  const std::string name = upper(model.name), wanted = upper(type);
  if (("/" + name).find("/" + wanted + "/") != std::string::npos) return true;
  if (!name.ends_with(wanted)) return false;
  if (name.size() == wanted.size()) return true;
  const char before = name[name.size() - wanted.size() - 1];
  return before == '-' || before == '.' || before == '/';
}

std::string list_of(const std::vector<RemoteModel>& models) {
  std::vector<std::string> names;
  std::set<std::string> types;
  for (const RemoteModel& model : models) {
    std::string type = type_in_name(model.name);
    if (type.empty() || !types.insert(type).second) type = model.name + ".gguf";
    names.push_back(core::printable(type, 200));
  }
  return some_of(names);
}

} // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 24;
  const size_t shown = std::min(kShown, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

int64_t RemoteModel::bytes() const {
  int64_t sum = 0;
  for (const RemoteFile& file : files) sum += file.bytes;
  return sum;
}

std::vector<RemoteFile> parse_tree(std::string_view json, const std::string& where) {
  const Json parsed = core::parse_json<Json>(json, where, kAnswerLimits);
  if (!parsed.is_array()) throw_error("{}: expected a list of files, found something else", where);
  std::vector<RemoteFile> files;
  for (const Json& entry : parsed) {
    if (!entry.is_object()) continue;
    const std::string *type = text_at(entry, "type"), *path = text_at(entry, "path"), *hash = text_at(entry, "oid");
    if (!type || *type != "file" || !path || !is_safe_path(*path)) continue;
    const auto lfs = entry.find("lfs");
    const bool large = lfs != entry.end() && lfs->is_object();
    const Json& sized = large ? *lfs : entry;
    if (large) hash = text_at(*lfs, "oid");
    const auto bytes = sized.find("size");
    if (!hash || !is_hash(*hash, large ? 64 : 40) || bytes == sized.end() || !bytes->is_number_unsigned()) continue;
    const uint64_t count = bytes->get<uint64_t>();
    if (count < 1 || count > static_cast<uint64_t>(kMaxFileBytes)) continue;
    files.push_back({*path, static_cast<int64_t>(count), *hash, large});
  }
  return files;
}

std::string parse_commit(std::string_view json, const std::string& where) {
  const Json parsed = core::parse_json<Json>(json, where, kAnswerLimits);
  const std::string* commit = parsed.is_object() ? text_at(parsed, "sha") : nullptr;
  if (!commit || !is_hash(*commit, 40)) throw_error("{}: expected \"sha\", the hash of a commit", where);
  return *commit;
}

std::string next_page(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<'), close = link.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return "";
    const size_t end = std::min(link.find('<', close), link.size());
    if (link.substr(close, end - close).find("rel=\"next\"") != std::string_view::npos)
      return std::string(link.substr(open + 1, close - open - 1));
    link.remove_prefix(end);
  }
  return "";
}

std::vector<RemoteModel> models_of(const std::vector<RemoteFile>& files, const std::string& named) {
  const auto named_shard = gguf::shard_name(named);
  std::map<std::string, std::map<int64_t, RemoteFile>> parts;
  std::vector<RemoteModel> models;
  for (const RemoteFile& file : files) {
    const auto shard = gguf::shard_name(file.path);
    const bool is_named = shard && named_shard ? shard->stem == named_shard->stem : file.path == named;
    if (!is_named && !is_model_file(file.path.substr(file.path.rfind('/') + 1))) continue;
    if (shard)
      parts[fmt::format("{}/{}", shard->stem, shard->count)][shard->number] = file;
    else
      models.push_back({file.path.substr(0, file.path.size() - 5), {file}});
  }
  for (const auto& [key, numbered] : parts) {
    const auto shard = gguf::shard_name(numbered.begin()->second.path);
    if (numbered.begin()->first != 1 || std::ssize(numbered) != shard->count ||
        numbered.rbegin()->first != shard->count)
      continue;
    RemoteModel& model = models.emplace_back();
    model.name = shard->stem;
    for (const auto& [number, file] : numbered) model.files.push_back(file);
  }
  std::ranges::sort(models, {}, &RemoteModel::name);
  return models;
}

const RemoteModel* model_of_type(const std::vector<RemoteModel>& models, const std::string& type,
                                 std::vector<std::string>* others) {
  if (type.empty()) {
    for (const std::string_view usual : kUsual)
      if (const RemoteModel* found = model_of_type(models, std::string(usual), others)) return found;
    return models.size() == 1 ? &models[0] : nullptr;
  }
  std::vector<const RemoteModel*> found;
  for (const RemoteModel& model : models)
    if (is_of_type(model, type)) found.push_back(&model);
  std::ranges::stable_sort(found, {}, [](const RemoteModel* m) { return m->name.size(); });
  for (size_t i = 1; others && i < found.size(); ++i) others->push_back(core::printable(found[i]->name, 200));
  return found.empty() ? nullptr : found[0];
}

const RemoteModel& choose_model(const std::vector<RemoteModel>& models, const Reference& wanted,
                                std::vector<std::string>* others) {
  const std::string what = core::printable(text_of(wanted), 300);
  if (models.empty()) throw_error("{}: contains no complete GGUF model", what);
  if (!wanted.file.empty()) {
    for (const RemoteModel& model : models)
      if (std::ranges::count(model.files, wanted.file, &RemoteFile::path)) return model;
    throw_error("{}: no such file; available: {}", what, list_of(models));
  }
  if (const RemoteModel* found = model_of_type(models, wanted.type, others)) return *found;
  if (wanted.type.empty()) throw_error("{}: contains several models; add a type or a file: {}", what, list_of(models));
  throw_error("{}: has no {}; available: {}", what, wanted.type, list_of(models));
}

const RemoteFile* projector_for(const RemoteModel& model, const std::vector<RemoteFile>& files,
                                const std::string& wanted, std::vector<std::string>* others) {
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.rfind('/') + 1); };
  const auto file_name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  std::vector<std::string> all, models;
  for (const RemoteFile& file : files) {
    const std::string name = file_name(file.path);
    if (is_projector_file(name) && !gguf::shard_name(name)) all.push_back(file.path);
    if (is_model_file(name)) models.push_back(file.path);
  }
  std::vector<std::string> found;
  for (const std::string& folder : {folder_of(model.files[0].path), std::string()})
    if (found.empty())
      std::ranges::copy_if(all, std::back_inserter(found), [&](const auto& path) { return folder_of(path) == folder; });
  if (!wanted.empty()) {
    const auto is_wanted = [&](const std::string& path) {
      return path == wanted || file_name(path) == wanted || is_of_type({path.substr(0, path.size() - 5), {}}, wanted);
    };
    if (std::ranges::any_of(found, is_wanted))
      std::erase_if(found, std::not_fn(is_wanted));
    else {
      found = all;
      std::erase_if(found, std::not_fn(is_wanted));
    }
    if (found.empty())
      throw_error("no image or audio encoder {}; available: {}", core::printable(wanted),
                  all.empty() ? "none" : fmt::format("{}", some_of(all)));
  }
  found = projectors_of(model.files[0].path, std::move(found), models);
  for (const std::string& path : found)
    if (projector_owner(path) != projector_owner(found[0])) {
      if (others) *others = found;
      return nullptr;
    }
  return found.empty() ? nullptr : &*std::ranges::find(files, found[0], &RemoteFile::path);
}

[[noreturn]] void throw_refused(const Head& head, const RequestPolicy& policy, const Reference& reference) {
  const std::string what = core::printable(text_of(reference), 300), code = head.header("x-error-code");
  const std::string page = fmt::format("{}/{}", policy.endpoint, reference.repository);
  if (code == "GatedRepo" || (head.status == 403 && code.empty()))
    throw_error("{}: gated model: accept its terms at {}, and {}", what, page,
                policy.token.empty() ? "set HF_TOKEN to an access token (huggingface.co/settings/tokens)"
                                     : "make sure that your HF_TOKEN has access");
  if (head.status == 401)
    throw_error("{}: {}", what,
                policy.token.empty() ? "no such public repository; for a private or gated one set HF_TOKEN"
                                     : "your HF_TOKEN was rejected, or the repository does not exist");
  if (head.status == 404)
    throw_error("{}: no such {} at {}", what,
                code == "RevisionNotFound" ? "revision"
                : code == "EntryNotFound"  ? "file"
                                           : "repository",
                policy.endpoint);
  if (head.status == 429) throw_error("{}: {} reports too many requests; try again later", what, policy.endpoint);
  throw_error("{}: {} answered with status {}", what, policy.endpoint, head.status);
}

namespace {

Answer ask(Connection& connection, const Reference& reference, const std::string& url) {
  Answer answer = get_text(connection, url, kMaxAnswerBytes);
  if (answer.head.status != 200) throw_refused(answer.head, connection.policy(), reference);
  return answer;
}

std::string api_of(const RequestPolicy& policy, const Reference& reference) {
  return policy.endpoint + "/api/models/" + url_escaped(reference.repository);
}

} // namespace

std::vector<RemoteFile> list_files(Connection& connection, const Reference& reference, const std::string& revision) {
  const RequestPolicy& policy = connection.policy();
  std::vector<RemoteFile> files;
  std::string url = api_of(policy, reference) + "/tree/" + url_escaped(revision, true) + "?recursive=1";
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) throw_error("{}: its list of files has no end", text_of(reference));
    const Answer answer = ask(connection, reference, url);
    for (RemoteFile& file : parse_tree(answer.body, url)) files.push_back(std::move(file));
    if (files.size() > kMaxFiles) throw_error("{}: has more than {} files", text_of(reference), kMaxFiles);
    url = next_page(answer.head.header("link"));
    if (!url.empty() && origin_of(url) != origin_of(policy.endpoint))
      throw_error("{}: its list of files continues at another host, {}", text_of(reference), core::printable(url, 200));
  }
  return files;
}

Listing list_repository(Connection& connection, const Reference& reference) {
  const std::string url = api_of(connection.policy(), reference) + "/revision/" + url_escaped(reference.revision, true);
  Listing listing;
  listing.commit = parse_commit(ask(connection, reference, url).body, url);
  listing.files = list_files(connection, reference, listing.commit);
  return listing;
}

} // namespace ridge::hub
