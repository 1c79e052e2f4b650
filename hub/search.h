// Searches a hub for repositories with GGUF models.
#pragma once

#include "hub/repository.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

struct FoundRepository {
  std::string name;
  int64_t downloads = 0;
  bool gated = false; // terms must be accepted first
};

// Repositories in an answer of /api/models?search=…, without malformed entries. Throws Error for other text.
std::vector<FoundRepository> parse_search(std::string_view json, const std::string& where);

// At most `most` repositories, most downloaded first. Throws Error.
std::vector<FoundRepository> search(Connection& connection, std::string_view words, int most);

struct OfferedModel {
  std::string reference;
  std::string type;
  int64_t bytes = 0;
};
// Sorted by size. Ambiguous types become file names; models that no reference can name are dropped.
std::vector<OfferedModel> offered_models(const std::string& repository, const std::vector<RemoteModel>& models);

} // namespace ridge::hub
