#include "hub/reference.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "hub/names.h"

#include <algorithm>
#include <vector>

namespace ridge::hub {
namespace {

[[noreturn]] void refuse(std::string_view text, const char* problem) {
  throw Error(fmt::format("{}: {}; expected hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, hf:OWNER/REPO/FILE.gguf or "
                          "https://HOST/FILE.gguf",
                          core::printable(text, 300), problem),
              Error::kUsage);
}

bool is_type(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string_view take_parts(std::string_view& text, int n) {
  size_t at = 0;
  for (int i = 0; i < n && at != std::string_view::npos; ++i) at = text.find('/', at + (i > 0));
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? "" : text.substr(at + 1);
  return taken;
}

// OWNER/REPO[@REVISION][:TYPE] or OWNER/REPO[@REVISION]/FILE
Reference parse_repository(std::string_view text, std::string_view whole) {
  Reference found;
  std::string_view rest = text;
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos) {
    found.type = rest.substr(colon + 1);
    if (!is_type(found.type)) refuse(whole, "no valid type after ':'");
    rest = rest.substr(0, colon);
  }
  const size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    std::string_view behind = rest.substr(at + 1);
    found.revision = behind;
    rest = rest.substr(0, at);
    if (!is_revision(found.revision)) refuse(whole, "no valid revision after '@'");
  }
  found.repository = take_parts(rest, 2);
  found.file = rest;
  if (!is_repository(found.repository)) refuse(whole, "not OWNER/REPO");
  if (!found.file.empty() && (!is_safe_path(found.file) || !is_gguf_file(found.file) || !found.type.empty()))
    refuse(whole, "not a GGUF file after the repository");
  return found;
}

} // namespace

std::optional<Reference> parse_reference(std::string_view text) {
  if (text.starts_with("hf:")) return parse_repository(text.substr(3), text);
  if (!text.starts_with("https://") && !text.starts_with("http://")) return std::nullopt;
  std::string_view rest = text.substr(text.find("//") + 2);
  const std::string_view host = take_parts(rest, 1);
  if (host == "huggingface.co" || host == "hf.co" || host == "www.huggingface.co") {
    const std::string_view path = rest.substr(0, rest.find_first_of("?#"));
    rest = path;
    const std::string_view repository = take_parts(rest, 2), kind = take_parts(rest, 1);
    Reference found = parse_repository(repository, text);
    if (kind.empty()) return found;
    if (kind != "resolve" && kind != "blob" && kind != "tree") refuse(text, "not the page or file of a model");
    found.revision = take_parts(rest, 1);
    found.file = rest;
    if (!is_revision(found.revision) || (found.file.empty() && kind != "tree") ||
        (!found.file.empty() && (!is_safe_path(found.file) || !is_gguf_file(found.file))))
      refuse(text, "not a GGUF file");
    return found;
  }
  Reference found;
  found.url = text;
  if (host.empty() || core::printable(text, text.size() + 1) != text || text.find(' ') != std::string_view::npos)
    refuse(text, "not an address");
  return found;
}

std::string text_of(const Reference& reference) {
  if (reference.repository.empty()) return reference.url;
  return fmt::format("hf:{}{}{}{}", reference.repository, reference.revision == "main" ? "" : "@" + reference.revision,
                     reference.file.empty() ? "" : "/" + reference.file,
                     reference.type.empty() ? "" : ":" + reference.type);
}

} // namespace ridge::hub
