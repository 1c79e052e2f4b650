// Manifests, file lists, names, URLs; paths must stay in their folder.
#include "core/error.h"
#include "hub/names.h"
#include "hub/projectors.h"
#include "hub/reference.h"
#include "hub/repository.h"
#include "hub/search.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace ridge;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool stays_below(const std::string& path) {
  return !path.empty() && path[0] != '/' && ("/" + path + "/").find("/../") == std::string::npos &&
         path.find('\0') == std::string::npos;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& blob : {hub::model_blob(text), hub::projector_blob(text)})
    if (blob) require(stays_below(*blob) && blob->find('/') == std::string::npos);
  hub::next_page(text);
  hub::type_in_name(text);
  hub::projector_owner(text);
  try {
    const auto reference = hub::parse_reference(text);
    if (reference && !reference->repository.empty()) {
      require(hub::is_repository(reference->repository) && hub::is_revision(reference->revision));
      require(reference->file.empty() || stays_below(reference->file));
    }
  } catch (const Error&) {
  }
  try {
    hub::parse_commit(text, "fuzz");
  } catch (const Error&) {
  }
  try {
    const std::vector<hub::RemoteFile> files = hub::parse_tree(text, "fuzz");
    for (const hub::RemoteFile& file : files)
      require(stays_below(file.path) && file.bytes > 0 && stays_below(file.blob));
    const std::vector<hub::RemoteModel> models = hub::models_of(files);
    for (const hub::RemoteModel& model : models)
      if (const hub::RemoteFile* projector = hub::projector_for(model, files, ""))
        require(stays_below(projector->path));
    for (const hub::OfferedModel& offered : hub::offered_models("owner/name", models))
      require(hub::parse_reference(offered.reference).has_value());
    hub::choose_model(models, {"owner/name"});
  } catch (const Error&) {
  }
  try {
    for (const hub::FoundRepository& found : hub::parse_search(text, "fuzz"))
      require(hub::is_repository(found.name) && found.downloads >= 0);
  } catch (const Error&) {
  }
  return 0;
}
