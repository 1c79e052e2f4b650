// What a repository of a hub holds, by its API, and which of it is the model that is wanted.
#pragma once

#include "hub/http/http.h"
#include "hub/reference.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

struct RemoteFile {
  std::string path;    // in the repository: safe to join to a folder
  int64_t bytes = 0;   // at least 1
  std::string blob;    // the name of its content: its SHA-256, or Git's hash of a small file
  bool sha256 = false; // which of the two
};

// A model of a repository: its files in order.
struct RemoteModel {
  std::string name; // path without ".gguf" and the number of the part
  std::vector<RemoteFile> files;
  int64_t bytes() const;
};

// The files of an answer of /api/models/OWNER/REPO/tree/REVISION. Files whose entries are of no use (no hash, a path
// that leads elsewhere) are left out. Throws Error where the text is no such answer; `where` stands in the message.
std::vector<RemoteFile> parse_tree(std::string_view json, const std::string& where);
// The commit in an answer of /api/models/OWNER/REPO/revision/REVISION. Throws Error likewise.
std::string parse_commit(std::string_view json, const std::string& where);
// The address of the next page in a Link header; empty: there is none.
std::string next_page(std::string_view link);

// The GGUF models among the files, those of which parts are missing left out, and the model that the file `named` is
// of, whatever it is.
std::vector<RemoteModel> models_of(const std::vector<RemoteFile>& files, const std::string& named = "");

// The model of a type, by its name; of several the one with the shortest, with the names of the `others`. No type:
// Q4_K_M and where there is none the nearest to it, or the only model there is. Null where there is none.
const RemoteModel* model_of_type(const std::vector<RemoteModel>& models, const std::string& type,
                                 std::vector<std::string>* others = nullptr);

// The wanted one, by its file or its type. Throws Error naming what there is where nothing fits.
const RemoteModel& choose_model(const std::vector<RemoteModel>& models, const Reference& wanted,
                                std::vector<std::string>* others = nullptr);

// The encoder of pictures that goes with a model: of its type or its file, where `wanted` names one, else the best that
// lies beside it or at the top. Null: there is none, or there are several for different models, whose names are
// `others`. Throws Error where the wanted one is not there.
const RemoteFile* projector_for(const RemoteModel& model, const std::vector<RemoteFile>& files,
                                const std::string& wanted, std::vector<std::string>* others = nullptr);

// The first of the names, and how many more there are.
std::string some_of(const std::vector<std::string>& names);

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};
// Asks the hub. Throws Error, which says when a token may help.
Listing list_repository(Connection& connection, const Reference& reference);
// The files alone, of a commit or the head of a branch.
std::vector<RemoteFile> list_files(Connection& connection, const Reference& reference, const std::string& revision);

// Throws Error that says why a hub answers `head` for a model.
[[noreturn]] void throw_refused(const Head& head, const Asker& asker, const Reference& reference);

} // namespace ridge::hub
