// Choosing a model on a terminal: of those here, of a table, or of what a search of the hub finds.
#pragma once

#include "hub/search.h"

#include <string>
#include <vector>

namespace ridge::app {

// Words of the command that is to run next; none: the person left, or there is no terminal to ask on.
using NextCommand = std::vector<std::string>;

// Lists models to begin with, behind those on this machine where these are wanted, too, and asks.
NextCommand choose_first_model(bool with_local);

// What a search of the hub finds.
struct FoundModels {
  hub::FoundRepository repository;
  std::vector<hub::OfferedModel> models; // none: it has none, or does not show its files
};
std::vector<FoundModels> search_hub(const std::string& words, int most);

// Lists it and asks, where there is a terminal.
NextCommand choose_found_model(const std::vector<FoundModels>& found);

} // namespace ridge::app
