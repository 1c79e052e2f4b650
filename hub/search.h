// Searching a hub for repositories with GGUF models, and what each of them holds.
#pragma once

#include "hub/repository.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

struct FoundRepository {
  std::string name;      // OWNER/REPO
  int64_t downloads = 0; // of the last month, as the hub counts them
  bool gated = false;    // its terms have to be accepted first
};

// The repositories of an answer of /api/models?search=…; entries of no use are left out. Throws Error where the text is
// no such answer; `where` stands in the message.
std::vector<FoundRepository> parse_search(std::string_view json, const std::string& where);

// What matches the words, the most downloaded first, at most so many. Throws Error.
std::vector<FoundRepository> search(Connection& connection, std::string_view words, int most);

// What a repository holds: `-m hf:…` and a size for each model.
struct OfferedModel {
  std::string reference;
  std::string type; // Q4_K_M; empty: its name does not say
  int64_t bytes = 0;
};
// By size. Names that are of several models become their files' names; models that no reference can name are left out.
std::vector<OfferedModel> offered_models(const std::string& repository, const std::vector<RemoteModel>& models);

} // namespace ridge::hub
