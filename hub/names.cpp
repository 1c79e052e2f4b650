#include "hub/names.h"

#include "core/json/parse.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace ridge::hub {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool is_letter(char c) { return c != '_' && is_word(c) && (c < '0' || c > '9'); }

// Whether a name begins or ends with a word that no letter adjoins.
bool begins_with_word(std::string_view name, std::string_view word) {
  return name.starts_with(word) && (name.size() == word.size() || !is_letter(name[word.size()]));
}
bool ends_with_word(std::string_view name, std::string_view word) {
  return name.ends_with(word) && (name.size() == word.size() || !is_letter(name[name.size() - word.size() - 1]));
}

constexpr std::string_view kGguf = ".gguf";

std::string lower_stem(std::string_view file_name) {
  return core::lower(file_name.substr(0, file_name.size() - kGguf.size()));
}

std::optional<std::string> blob_of_type(std::string_view manifest, std::string_view wanted) {
  constexpr core::JsonLimits kManifestLimits{.containers = 10'000, .bytes = size_t{1} << 20};
  constexpr std::string_view kKind = "sha256:";
  const nlohmann::json parsed = core::find_json<nlohmann::json>(manifest, kManifestLimits).value_or(nullptr);
  const auto layers = parsed.is_object() ? parsed.find("layers") : parsed.end();
  if (!parsed.is_object() || layers == parsed.end() || !layers->is_array()) return std::nullopt;
  std::optional<std::string> found;
  for (const nlohmann::json& layer : *layers) {
    if (!layer.is_object()) continue;
    const auto type = layer.find("mediaType"), digest = layer.find("digest");
    if (type == layer.end() || *type != wanted || digest == layer.end() || !digest->is_string()) continue;
    const std::string& hash = digest->get_ref<const std::string&>();
    if (found || !hash.starts_with(kKind) || !is_hash(std::string_view(hash).substr(kKind.size()), 64))
      return std::nullopt;
    found = "sha256-" + hash.substr(kKind.size());
  }
  return found;
}

} // namespace

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_gguf_file(std::string_view path) {
  return core::lower(path).ends_with(kGguf) && path.size() > kGguf.size() &&
         path[path.size() - kGguf.size() - 1] != '/';
}

// Only the first and last words count: names of models may contain "MTP" or "imatrix". Names of projectors may end with
// a type.
bool is_model_file(std::string_view file_name) {
  if (!is_gguf_file(file_name)) return false;
  const std::string name = lower_stem(file_name);
  for (const char* drafter : {"mtp-", "eagle3-", "dflash-", "dspark-"})
    if (name.starts_with(drafter)) return false;
  return !begins_with_word(name, "imatrix") && !ends_with_word(name, "imatrix") && !is_projector_file(file_name);
}

bool is_projector_file(std::string_view file_name) {
  if (!is_gguf_file(file_name)) return false;
  std::string name = lower_stem(file_name);
  if (const size_t type = type_in_name(name).size(); type > 0) name.resize(name.size() - type - 1);
  return begins_with_word(name, "mmproj") || ends_with_word(name, "mmproj");
}

std::string type_in_name(std::string_view name) {
  size_t start = name.size();
  while (start > 0 && is_word(name[start - 1])) --start;
  const std::string tag = upper(name.substr(start));
  if (start == 0 || (name[start - 1] != '-' && name[start - 1] != '.')) return "";
  const auto numbered = [&](std::string_view prefix) {
    return tag.starts_with(prefix) && tag.size() > prefix.size() && tag[prefix.size()] >= '0' &&
           tag[prefix.size()] <= '9';
  };
  const bool known = numbered("Q") || numbered("IQ") || numbered("TQ") || numbered("BF") || numbered("F") ||
                     numbered("FP") || numbered("MXFP") || numbered("NVFP");
  return known ? tag : "";
}

bool is_hash(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_safe_path(std::string_view path) {
  constexpr size_t kMaxBytes = 1000, kMaxPartBytes = 240;
  if (path.empty() || path.size() > kMaxBytes || core::printable(path, path.size() + 1) != path) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part.size() > kMaxPartBytes || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_repository(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  return text.size() <= kMaxBytes && std::ranges::count(text, '/') == 1 && is_safe_path(text) &&
         text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         std::ranges::all_of(text, [](char c) { return is_word(c) || c == '-' || c == '.' || c == '/'; });
}

bool is_revision(std::string_view text) {
  return is_safe_path(text) && !text.starts_with('-') &&
         std::ranges::all_of(text, [](char c) { return is_word(c) || c == '-' || c == '.' || c == '/' || c == '+'; });
}

std::string url_escaped(std::string_view path, bool slashes) {
  std::string out;
  for (const char c : path)
    if (is_word(c) || c == '-' || c == '.' || c == '~' || (c == '/' && !slashes))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

std::optional<std::string> model_blob(std::string_view manifest) {
  return blob_of_type(manifest, "application/vnd.ollama.image.model");
}

std::optional<std::string> projector_blob(std::string_view manifest) {
  return blob_of_type(manifest, "application/vnd.ollama.image.projector");
}

} // namespace ridge::hub
