// Writes safetensors files, optionally malformed.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace ridge::tests {

struct SafeFile {
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string data;
  };
  std::map<std::string, Entry> tensors;

  template <typename T>
  void add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
           const std::vector<T>& values) {
    std::string data(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
    tensors[name] = {dtype, std::move(shape), std::move(data)};
  }

  static std::string with_header(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    const uint64_t size = header.size();
    std::memcpy(bytes.data(), &size, 8);
    return bytes + header + data;
  }

  std::string bytes() const {
    nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const auto& [name, entry] : tensors) {
      header[name] = {{"dtype", entry.dtype},
                      {"shape", entry.shape},
                      {"data_offsets", {data.size(), data.size() + entry.data.size()}}};
      data += entry.data;
    }
    return with_header(header.dump(), data);
  }
};

} // namespace ridge::tests
