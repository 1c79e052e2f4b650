// Hugging Face's cache, in its tools' layout, so that pulled files are shared:
//      models--OWNER--REPO/blobs/HASH                 a file's content
//                         /snapshots/COMMIT/PATH      links to blobs
//                         /refs/REVISION              the last commit of a branch
//                         /.ridge-pulled              blobs that `ridge rm` may remove
#pragma once

#include "hub/local_models.h"
#include "hub/reference.h"
#include "hub/repository.h"

#include <string>
#include <vector>

namespace ridge::hub {

inline constexpr const char* kPulledRecord = ".ridge-pulled";

class HubCache {
 public:
  HubCache(const std::string& cache, const std::string& repository); // OWNER/REPO, is_repository()

  std::string blob_path(const RemoteFile& file) const;
  std::string incomplete_path(const RemoteFile& file) const;
  std::string link_path(const std::string& commit, const RemoteFile& file) const;
  bool has_blob(const RemoteFile& file) const;

  void make_folders();
  void note_pulled(const RemoteFile& file) const;
  void link(const std::string& commit, const RemoteFile& file) const;
  void set_revision(const std::string& revision, const std::string& commit) const;
  int64_t remove_incomplete() const;

 private:
  std::string folder_;
};

// Removes a model, the blobs that only it uses, and its pulled projector. Returns freed bytes. Throws Error if ridge
// did not pull the model.
int64_t remove_model(const LocalModel& model);

} // namespace ridge::hub
