// Fixtures of pull tests.
#pragma once

#include "core/error.h"
#include "hub/pull.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

inline std::string random_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

inline const std::string kBig = random_bytes(3'000'000, 1), kSmall = random_bytes(1000, 2);

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Puller {
  TemporaryFolder folder;
  hub::PullOptions options;
  std::vector<std::string> notes;

  explicit Puller(const std::string& endpoint) {
    options.policy.endpoint = endpoint;
    options.cache = folder / "hub";
    options.downloads = folder / "downloads";
    options.policy.retry_seconds = 0.001;
    options.policy.tries = 3;
    options.note = [this](const std::string& line) { notes.push_back(line); };
  }
  hub::Pulled pull(const std::string& what) { return hub::pull(*hub::parse_reference(what), options); }
  std::string refusal(const std::string& what) {
    try {
      pull(what);
    } catch (const Error& error) {
      const std::string line = error.what();
      CHECK(line.find('\n') == std::string::npos);
      CHECK(line.size() < 700);
      return line;
    }
    return "(no error)";
  }
  // Relative paths of files and links.
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      if (!entry.is_directory() || entry.is_symlink())
        found.push_back(std::filesystem::relative(entry.path().parent_path(), folder.path()) / entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  bool has_model() const {
    for (const std::string& file : files())
      if (file.find("snapshots") != std::string::npos || file.ends_with(".gguf")) return true;
    return false;
  }
};

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace ridge::tests
