// Recognizes files that are often mistaken for GGUF, with advice for each.
#include "gguf/parse.h"

#include "core/strings/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace ridge::gguf {
namespace {

struct Kind {
  std::string_view magic, what;
};

constexpr std::string_view kOldGgml =
    "an old model format that precedes GGUF (GGML, GGMF, GGJT or GGLA); get the model as GGUF";
constexpr std::string_view kPyTorch = "a zip archive or PyTorch checkpoint; unpack it, or convert the model to GGUF";
constexpr std::string_view kPickle = "a Python pickle or old PyTorch checkpoint; convert the model to GGUF";
constexpr std::string_view kCompressed = "a compressed file; unpack it first";

constexpr Kind kKinds[] = {
    {"version https://git-lfs", "a Git LFS pointer instead of the model; fetch the model with `git lfs pull`"},
    {"FUGG", "a byte-swapped GGUF file"},
    {"lmgg", kOldGgml},
    {"fmgg", kOldGgml},
    {"tjgg", kOldGgml},
    {"algg", kOldGgml},
    {"PK\x03\x04", kPyTorch},
    {"\x80\x02", kPickle},
    {"\x80\x04", kPickle},
    {"\x1f\x8b", kCompressed},
    {"\x28\xb5\x2f\xfd", kCompressed},
    {"7z\xbc\xaf\x27\x1c", kCompressed},
    {"\xfd"
     "7zXZ",
     kCompressed},
    {"BZh", kCompressed},
    {"\x93NUMPY", "a NumPy array"},
    {"\x89HDF", "an HDF5 file"},
    {"\x7f"
     "ELF",
     "an executable"},
};

} // namespace

std::string likely_kind(std::span<const std::byte> image) {
  const std::string_view head(reinterpret_cast<const char*>(image.data()), std::min<size_t>(image.size(), 256));
  if (head.size() > 9 && (head.substr(8, 2) == "{\"" || head.substr(8, 2) == "{}")) {
    uint64_t header_bytes;
    std::memcpy(&header_bytes, head.data(), sizeof header_bytes);
    if (header_bytes < (uint64_t{1} << 32)) return "a safetensors file; convert the model with `ridge convert`";
  }
  for (const Kind& kind : kKinds)
    if (head.starts_with(kind.magic)) return std::string(kind.what);
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == 0; }))
    return "only zero bytes; the download has not started to write the file, or failed";

  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  const std::string_view text(std::find_if_not(head.begin(), head.end(), is_space), head.end());
  if (text.starts_with("<")) return "an HTML or XML page; the server sent a web page instead of the model";
  if (text.starts_with("{") || text.starts_with("["))
    return "a JSON file; to convert a model folder, give the folder to `ridge convert`";
  const bool readable =
      std::all_of(text.begin(), text.end(), [&](unsigned char c) { return is_space(c) || (c >= 0x20 && c < 0x7f); });
  if (readable) return fmt::format("text: \"{}\"", core::printable(text.substr(0, 40)));
  std::string bytes = "the bytes";
  for (const char c : head.substr(0, 4)) bytes += fmt::format(" {:02x}", static_cast<uint8_t>(c));
  return bytes;
}

} // namespace ridge::gguf
