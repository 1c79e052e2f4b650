#include "hub/local_models.h"

#include "core/files/xdg.h"
#include "hub/names.h"

namespace ridge::hub {
namespace {

std::string at_home(const char* below) {
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + below;
}

std::string cache_folder() {
  const std::string named = environment("XDG_CACHE_HOME");
  return named.starts_with('/') ? named : at_home("/.cache");
}

std::string below(const std::string& folder, const char* name) { return folder.empty() ? "" : folder + name; }

} // namespace

std::string_view name_of(Source source) {
  switch (source) {
  case Source::hugging_face: return "Hugging Face";
  case Source::ridge: return "ridge";
  case Source::lm_studio: return "LM Studio";
  case Source::llama_cpp: return "llama.cpp";
  case Source::ollama: return "Ollama";
  case Source::folder: break;
  }
  return "folder";
}

std::string hugging_face_home() {
  const std::string named = environment("HF_HOME");
  return named.empty() ? below(cache_folder(), "/huggingface") : named;
}

std::string hugging_face_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (std::string folder = environment(name); !folder.empty()) return folder;
  return below(hugging_face_home(), "/hub");
}

std::string download_folder() { return below(core::data_folder(), "/models"); }

std::vector<Place> places() {
  const std::string llama_cache = environment("LLAMA_CACHE"), ollama = environment("OLLAMA_MODELS");
  std::vector<Place> all = {
      {Source::hugging_face, hugging_face_cache()},
      {Source::ridge, download_folder()},
      {Source::lm_studio, at_home("/.lmstudio/models")},
      {Source::lm_studio, below(cache_folder(), "/lm-studio/models")},
      {Source::llama_cpp, llama_cache.empty() ? below(cache_folder(), "/llama.cpp") : llama_cache},
  };
  if (!ollama.empty())
    all.push_back({Source::ollama, ollama});
  else
    for (const std::string& folder :
         {at_home("/.ollama/models"), std::string("/usr/share/ollama/.ollama/models"), std::string("/var/lib/ollama")})
      all.push_back({Source::ollama, folder});
  all.push_back({Source::folder, at_home("/models")});
  std::erase_if(all, [](const Place& place) { return place.folder.empty(); });
  return all;
}

} // namespace ridge::hub
