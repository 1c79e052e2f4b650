// Downloads a file over HTTP in parallel ranges, with retries; hashes it during the download.
#pragma once

#include "hub/http/http.h"
#include "hub/incomplete_file.h"

#include <functional>
#include <string>

namespace ridge::hub {

struct DownloadOptions {
  int connections = 4;
  int64_t piece_bytes = int64_t{64} << 20;                   // size of a range
  std::function<void(int64_t done, int64_t total)> progress; // bytes; called by the calling thread ten times a second
};

struct Download {
  std::string url;
  std::string name;
  std::string sha256; // expected hash; empty: unknown
  // ETag for If-Range; empty: any. Not used if the hash is known, because mirrors of one hub may send different ETags.
  std::string etag;
};

// Fetches the missing parts of the file and checks them. Throws Error; received bytes stay for a retry unless the hash
// is wrong. refused(head) throws the message for an unexpected status.
void download(const Download& what, const RequestPolicy& policy, IncompleteFile& file, const DownloadOptions& options,
              const std::function<void(const Head&)>& refused);

} // namespace ridge::hub
