// Getting a model: from a hub into Hugging Face's cache, or from any address into ridge's own folder.
#pragma once

#include "hub/download.h"
#include "hub/local_models.h"
#include "hub/reference.h"

#include <functional>
#include <span>
#include <string>

namespace ridge::hub {

inline constexpr const char* kNoProjector = "none";

struct PullOptions {
  Asker asker;
  std::string cache, downloads; // folders, as hugging_face_cache() and download_folder()
  // The encoder of pictures that is pulled along with a model of a repository: its type or its file; empty: the best;
  // kNoProjector: none.
  std::string projector;
  DownloadOptions download;                                                           // without progress
  std::function<void(const std::string& what, int64_t done, int64_t total)> progress; // bytes of all files
  std::function<void(const std::string& line)> note;
};

// By the environment: HF_ENDPOINT, HF_TOKEN or the file that Hugging Face's tools log in with, and the folders. Throws
// Error where one of them cannot be used.
PullOptions pull_options();

struct Pulled {
  std::string path;  // of the first file
  int64_t bytes = 0; // of all its files
};

// Gets what is missing, checks it, and gives it its place. Throws Error. Safe to run twice at once and to be killed at
// any point.
Pulled pull(const Reference& reference, const PullOptions& options);

// Where the file of an address goes in the folder `downloads`. Throws Error where the address names no GGUF file.
std::string place_of_address(const std::string& url, const std::string& downloads);

// Removes what a stopped pull left, if anything. Returns the bytes that are free then.
int64_t remove_stopped_pull(const Reference& reference);

// The model that a reference means, where one is here already: of its repository the file, or of its type. Null where
// there is none, or where only the hub knows (another revision than main). Sends no request.
const LocalModel* find_pulled(std::span<const LocalModel> models, const Reference& reference);

} // namespace ridge::hub
