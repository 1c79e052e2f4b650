// Damaged prefix files and conversations must be read or ignored. The first byte selects the kind, and whether to fix
// the checksums as an attacker would.
#include "app/window/conversations/conversation_store.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "engine/prefixes/prefix_files.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

using namespace ridge;

namespace {

// As in engine/prefixes/prefix_files.cpp.
struct Header {
  char magic[8];
  uint64_t key;
  int64_t first, tokens, blocks, states, block_bytes, state_elements;
  uint64_t index_checksum, payload_checksum, checksum;
};

constexpr engine::PrefixStore::Shape kShape = {.block_positions = 4, .block_bytes = 16, .state_elements = 2};
constexpr engine::PrefixFiles::Limits kLimits = {.context = 64, .vocab = 256};
const std::string kModel = "a model";

uint64_t hash_of(std::string_view bytes) { return core::Hash().add(bytes).value(); }

// Recomputes derived fields.
void make_right(std::string& file) {
  if (file.size() < sizeof(Header)) return;
  Header header;
  std::memcpy(&header, file.data(), sizeof(header));
  std::memcpy(header.magic, "RIDGEPF1", 8);
  header.key = hash_of(kModel);
  header.block_bytes = kShape.block_bytes;
  header.state_elements = kShape.state_elements;
  header.tokens &= 127; // plausible
  header.states &= 127;
  header.first &= 127;
  const auto tokens_bytes = static_cast<size_t>(header.tokens * 4),
             states_bytes = static_cast<size_t>(header.states * 8);
  std::string_view rest = std::string_view(file).substr(sizeof(Header));
  const auto next = [&](size_t bytes) {
    const std::string_view part = rest.substr(0, bytes);
    rest.remove_prefix(part.size());
    return part;
  };
  core::Hash index;
  index.add(next(tokens_bytes));
  index.add(next(states_bytes));
  header.index_checksum = index.value();
  header.blocks =
      (header.tokens + kShape.block_positions - 1) / kShape.block_positions - header.first / kShape.block_positions;
  core::Hash payload;
  for (int64_t i = 0; i < header.blocks; ++i) payload.add(next(kShape.block_bytes));
  for (int64_t i = 0; i < header.states; ++i) payload.add(next(kShape.state_elements * sizeof(float)));
  header.payload_checksum = payload.value();
  std::memcpy(file.data(), &header, sizeof(header));
  header.checksum = hash_of(std::string_view(file).substr(0, offsetof(Header, checksum)));
  std::memcpy(file.data(), &header, sizeof(header));
}

engine::PrefixBlock make_block() {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kShape.block_bytes);
  return {bytes, bytes->data()};
}

std::string make_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "ridge-fuzz-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  return path;
}

void write(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void read_prefixes(const std::string& folder, std::string file, bool right) {
  if (right) make_right(file);
  const std::string path = fmt::format("{}/{:016x}-0.ridge-prefix", folder, hash_of(kModel));
  write(path, file);
  engine::PrefixFiles files(folder, 1 << 20, kModel, kShape, kLimits, [](const std::string&) {});
  std::vector<int32_t> tokens(static_cast<size_t>(kLimits.context));
  const size_t copied = file.size() < sizeof(Header) ? 0 : std::min(file.size() - sizeof(Header), tokens.size() * 4);
  if (copied > 0) std::memcpy(tokens.data(), file.data() + sizeof(Header), copied);
  const engine::PrefixPart part = files.read(tokens, 0, 0, make_block);
  if (part.tokens.size() > tokens.size()) std::abort();
}

void read_conversation(const std::string& folder, std::string_view file) {
  write(folder + "/c.json", file);
  app::ConversationStore store(folder);
  if (store.list().size() > 1 || store.list().empty() == store.problem().empty()) std::abort();
  if (store.list().empty()) return;
  const std::string id = store.list()[0].id;
  store.find(id)->title += " ";
  store.save(id);
  if (app::ConversationStore(folder).list().size() != 1) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string conversations = make_folder(), prefixes = make_folder();
  const std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 3 == 0)
      read_conversation(conversations, file);
    else
      read_prefixes(prefixes, std::string(file), data[0] % 3 == 1);
  } catch (const Error&) {
  }
  return 0;
}
