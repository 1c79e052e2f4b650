// Models on this machine, in the folders of known programs.
// Folders, names and manifests may be hostile: unprintable names and entries beyond the limits are dropped, and nothing
// here throws for what is on the disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

enum class Source : uint8_t {
  hugging_face, // models--OWNER--REPO/{refs,blobs,snapshots}
  ridge,
  lm_studio, // PUBLISHER/REPO/FILE.gguf
  llama_cpp, // FILE.gguf, or Hugging Face's layout
  ollama,    // manifests/HOST/NAMESPACE/MODEL/TAG and blobs
  folder,
};
std::string_view name_of(Source source);

struct Place {
  Source source;
  std::string folder;
};

// This user's model folders, from environment variables and defaults. They may not exist.
std::vector<Place> places();
std::string hugging_face_home();  // empty without a home folder
std::string hugging_face_cache(); // empty without a home folder
std::string download_folder();    // for URLs: $XDG_DATA_HOME/ridge/models

struct LocalModel {
  std::string name;   // what -m takes: "Qwen3-8B-Q4_K_M", "llama3.2:3b"
  std::string origin; // OWNER/REPO if known, else its folder
  Source source = Source::folder;
  std::string path;
  std::vector<std::string> parts;
  int64_t bytes = 0;
  bool whole = true; // no part is missing
};

// Sorted by name; for duplicates the first place wins. `encoders` adds pulled projectors beside their models.
std::vector<LocalModel> local_models(std::span<const Place> places, bool encoders = false);

// Finds a model by name, prefix, or part of ORIGIN/NAME, ignoring case. Null: none. Throws Error (usage) if several
// match; copies of one model count as one.
const LocalModel* find_model(std::span<const LocalModel> models, const std::string& wanted);

} // namespace ridge::hub
