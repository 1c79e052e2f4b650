#include "hub/search.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "core/strings/printable.h"
#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::hub {
namespace {

constexpr size_t kMaxFoundBytes = size_t{8} << 20;
constexpr core::JsonLimits kFoundLimits{.depth = 16, .containers = 200'000, .bytes = kMaxFoundBytes};

bool names_file(const std::string& reference, const std::string& path) {
  try {
    const auto parsed = parse_reference(reference);
    return parsed && parsed->file == path;
  } catch (const Error&) {
    return false;
  }
}

} // namespace

std::vector<FoundRepository> parse_search(std::string_view json, const std::string& where) {
  const nlohmann::json parsed = core::parse_json<nlohmann::json>(json, where, kFoundLimits);
  if (!parsed.is_array()) throw_error("{}: expected a list of models, found something else", where);
  std::vector<FoundRepository> found;
  for (const nlohmann::json& entry : parsed) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("id"), downloads = entry.find("downloads"), gated = entry.find("gated");
    if (name == entry.end() || !name->is_string()) continue;
    FoundRepository repository;
    repository.name = name->get<std::string>();
    if (!is_repository(repository.name)) continue;
    if (downloads != entry.end() && downloads->is_number_unsigned())
      repository.downloads = static_cast<int64_t>(std::min<uint64_t>(downloads->get<uint64_t>(), INT64_MAX));
    repository.gated = gated != entry.end() && (gated->is_string() || (gated->is_boolean() && gated->get<bool>()));
    found.push_back(std::move(repository));
  }
  return found;
}

std::vector<FoundRepository> search(Connection& connection, std::string_view words, int most) {
  const RequestPolicy& policy = connection.policy();
  const std::string url = fmt::format("{}/api/models?search={}&filter=gguf&sort=downloads&direction=-1&limit={}",
                                      policy.endpoint, url_escaped(words, true), most);
  const Answer answer = get_text(connection, url, kMaxFoundBytes);
  if (answer.head.status == 429) throw_error("{} reports too many requests; try again later", policy.endpoint);
  if (answer.head.status != 200)
    throw_error("{} answered the search with status {}", policy.endpoint, answer.head.status);
  std::vector<FoundRepository> found = parse_search(answer.body, url);
  if (std::ssize(found) > most) found.resize(static_cast<size_t>(most));
  return found;
}

std::vector<OfferedModel> offered_models(const std::string& repository, const std::vector<RemoteModel>& models) {
  std::vector<OfferedModel> offered;
  for (const RemoteModel& model : models) {
    OfferedModel row{fmt::format("hf:{}/{}", repository, model.files[0].path), type_in_name(model.name), model.bytes()};
    if (!row.type.empty() && model_of_type(models, row.type) == &model)
      row.reference = fmt::format("hf:{}:{}", repository, row.type);
    else if (!names_file(row.reference, model.files[0].path))
      continue;
    offered.push_back(std::move(row));
  }
  std::ranges::stable_sort(offered, {}, &OfferedModel::bytes);
  return offered;
}

} // namespace ridge::hub
