// Models in a hub's repository.
#pragma once

#include "hub/http/http.h"
#include "hub/reference.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

struct RemoteFile {
  std::string path;  // safe to join to a folder
  int64_t bytes = 0; // at least 1
  std::string blob;  // SHA-256, or Git's hash of a small file
  bool sha256 = false;
};

struct RemoteModel {
  std::string name;
  std::vector<RemoteFile> files;
  int64_t bytes() const;
};

// Files in an answer of /api/models/OWNER/REPO/tree/REVISION, without unusable entries. Throws Error for other text;
// `where` is for the message.
std::vector<RemoteFile> parse_tree(std::string_view json, const std::string& where);
// The commit in an answer of /api/models/OWNER/REPO/revision/REVISION. Throws Error likewise.
std::string parse_commit(std::string_view json, const std::string& where);
// From a Link header; empty: none.
std::string next_page(std::string_view link);

// Complete models among the files, and the one that contains `named`.
std::vector<RemoteModel> models_of(const std::vector<RemoteFile>& files, const std::string& named = "");

// The model of a type; of several the one with the shortest name, with the rest in `others`. Without a type: the
// closest to Q4_K_M. Null: none.
const RemoteModel* model_of_type(const std::vector<RemoteModel>& models, const std::string& type,
                                 std::vector<std::string>* others = nullptr);

// Throws Error that lists the models if none fits.
const RemoteModel& choose_model(const std::vector<RemoteModel>& models, const Reference& wanted,
                                std::vector<std::string>* others = nullptr);

// The projector of the type or file `wanted`, else the best one. Null: none, or several candidates, then in `others`.
// Throws Error if `wanted` is missing.
const RemoteFile* projector_for(const RemoteModel& model, const std::vector<RemoteFile>& files,
                                const std::string& wanted, std::vector<std::string>* others = nullptr);

std::string some_of(const std::vector<std::string>& names);

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};
// Queries the hub. Throws Error, which mentions a token if one may help.
Listing list_repository(Connection& connection, const Reference& reference);
std::vector<RemoteFile> list_files(Connection& connection, const Reference& reference, const std::string& revision);

[[noreturn]] void throw_refused(const Head& head, const RequestPolicy& policy, const Reference& reference);

} // namespace ridge::hub
