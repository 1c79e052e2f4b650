// Interactive choice of a model.
#pragma once

#include "hub/search.h"

#include <string>
#include <vector>

namespace ridge::app {

// Words of the command to run next; empty: none.
using NextCommand = std::vector<std::string>;

// Lists recommended models, and local ones if wanted, and asks.
NextCommand choose_first_model(bool with_local);

struct FoundModels {
  hub::FoundRepository repository;
  std::vector<hub::OfferedModel> models; // empty: none, or not visible
};
std::vector<FoundModels> search_hub(const std::string& words, int most);

NextCommand choose_found_model(const std::vector<FoundModels>& found);

} // namespace ridge::app
