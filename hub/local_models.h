// The models that lie on this machine, wherever programs of this field put them. Nothing is copied: a model is a path.
//
// Folders, file names and manifests are other programs' and may be hostile. A name that cannot be shown is left out, so
// is what a walk finds beyond some depth and number of entries, and nothing here throws for what it finds on a disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

enum class Source : uint8_t {
  hugging_face, // models--OWNER--REPO/{refs,blobs,snapshots}
  ridge,        // where `ridge pull https://…` puts files
  lm_studio,    // PUBLISHER/REPO/FILE.gguf
  llama_cpp,    // FILE.gguf, or Hugging Face's layout
  ollama,       // manifests/HOST/NAMESPACE/MODEL/TAG and blobs
  folder,       // anything
};
std::string_view name_of(Source source); // "Hugging Face", …

struct Place {
  Source source;
  std::string folder;
};

// Where this user's programs keep models, by their environment variables and defaults. The folders need not be there.
std::vector<Place> places();
std::string hugging_face_home();  // of its tools' settings; empty where there is no home
std::string hugging_face_cache(); // the first of them; empty where there is no home
std::string download_folder();    // for files of no hub: $XDG_DATA_HOME/ridge/models; empty likewise

struct LocalModel {
  std::string name;   // what -m takes: "Qwen3-8B-Q4_K_M", "llama3.2:3b"
  std::string origin; // OWNER/REPO where it has some, else the folder it was found in
  Source source = Source::folder;
  std::string path;               // its file; of a split model the first
  std::vector<std::string> parts; // all its files, in order
  int64_t bytes = 0;              // of all its files
  bool whole = true;              // no part is missing
};

// All models of the places, by name. A file that is found twice counts where it is found first. With `encoders`, those
// of pictures that ridge pulled and that lie beside their models are there, too.
std::vector<LocalModel> local_models(std::span<const Place> places, bool encoders = false);

// The model that a person means: by its name, the beginning of it, or a part of ORIGIN/NAME, whatever the case. Null
// where there is none; throws Error (usage) naming the candidates where there are several. Copies of one model are
// one.
const LocalModel* find_model(std::span<const LocalModel> models, const std::string& wanted);

} // namespace ridge::hub
