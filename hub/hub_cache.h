// Hugging Face's cache, written as its own tools write it, so that they and others share what is pulled:
//
//   models--OWNER--REPO/blobs/HASH                 a file's content
//                      /snapshots/COMMIT/PATH      links to it
//                      /refs/REVISION              the commit that a branch was at last
//                      /.ridge-pulled              what ridge put there, which `ridge rm` may remove
#pragma once

#include "hub/local_models.h"
#include "hub/reference.h"
#include "hub/repository.h"

#include <string>
#include <vector>

namespace ridge::hub {

inline constexpr const char* kPulledRecord = ".ridge-pulled"; // a blob's name on each line

class HubCache {
 public:
  HubCache(const std::string& cache, const std::string& repository); // OWNER/REPO, which is_repository()

  std::string blob_path(const RemoteFile& file) const;
  std::string incomplete_path(const RemoteFile& file) const;
  std::string link_path(const std::string& commit, const RemoteFile& file) const;
  bool has_blob(const RemoteFile& file) const; // whole: its size is right

  void make_folders(); // throws Error
  void note_pulled(const RemoteFile& file) const;
  void link(const std::string& commit, const RemoteFile& file) const;
  void set_revision(const std::string& revision, const std::string& commit) const;
  int64_t remove_incomplete() const; // what stopped pulls left; returns the bytes that are free then

 private:
  std::string folder_;
};

// Removes a model and what nothing else needs of it: also its encoder of pictures, where ridge pulled that. Throws
// Error where ridge did not pull it. Returns the bytes that are free then.
int64_t remove_model(const LocalModel& model);

} // namespace ridge::hub
