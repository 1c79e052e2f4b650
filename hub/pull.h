// Pulls models from a hub or URL.
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
  RequestPolicy policy;
  std::string cache, downloads;
  // Type or file of the projector to pull along; empty: the best; kNoProjector: none.
  std::string projector;
  DownloadOptions download;
  std::function<void(const std::string& what, int64_t done, int64_t total)> progress;
  std::function<void(const std::string& line)> note;
};

// Reads HF_ENDPOINT, HF_TOKEN and the other variables. Throws Error for unusable values.
PullOptions pull_options();

struct Pulled {
  std::string path;
  int64_t bytes = 0;
};

// Fetches what is missing and checks it. Safe to run concurrently and to kill. Throws Error.
Pulled pull(const Reference& reference, const PullOptions& options);

// The path of a URL's file in `downloads`. Throws Error if the URL names no GGUF file.
std::string place_of_address(const std::string& url, const std::string& downloads);

// Returns freed bytes.
int64_t remove_stopped_pull(const Reference& reference);

// The local model that a reference means; null if absent, or if only the hub can tell (another revision than main).
// Sends no request.
const LocalModel* find_pulled(std::span<const LocalModel> models, const Reference& reference);

} // namespace ridge::hub
