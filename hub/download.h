// One file by HTTP into an IncompleteFile: several ranges at once, tries again where that may help, hashed as it comes.
#pragma once

#include "hub/http/http.h"
#include "hub/incomplete_file.h"

#include <functional>
#include <string>

namespace ridge::hub {

struct DownloadOptions {
  int connections = 4;
  int64_t piece_bytes = int64_t{64} << 20;                   // of a range
  std::function<void(int64_t done, int64_t total)> progress; // bytes; from the calling thread, ten times a second
};

struct Download {
  std::string url;
  std::string name;   // for messages
  std::string sha256; // what the bytes must hash to; empty: not known
  // The ETag for which ranges are wanted; empty: any. Where a hash is known, the bytes tell whether they are right, and
  // servers of one hub may have different ETags.
  std::string etag;
};

// Fetches what the file does not have yet, and checks it. Throws Error that says what is wrong in one line; what is
// there stays for the next time, but bytes with a wrong hash are removed. refused(head) throws what is to be said of an
// answer with another status.
void download(const Download& what, const Asker& asker, IncompleteFile& file, const DownloadOptions& options,
              const std::function<void(const Head&)>& refused);

} // namespace ridge::hub
