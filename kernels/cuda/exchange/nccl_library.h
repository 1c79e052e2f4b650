// NCCL's functions, loaded at run time; also in builds without CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

// Declarations follow the NCCL reference.
struct NcclId {
  std::array<char, 128> bytes;
};

struct NcclLibrary {
  static constexpr int kFloat = 7, kSum = 0;

  std::string problem; // why it cannot be used; empty: it can
  int version = 0;     // 22809: 2.28.9
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(NcclId*) = nullptr;
  int (*init_rank)(void** communicator, int ranks, NcclId, int rank) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, void* communicator, void* stream) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  const char* (*error_string)(int) = nullptr;

  std::string version_text() const;                // "2.28.9"
  void expect(int status, const char* call) const; // throws Error unless 0
};

// Loads the first of `files` that is there.
NcclLibrary load_nccl(const std::vector<std::string>& files);
// By nccl_files(); loaded once.
const NcclLibrary& nccl();

// RIDGE_NCCL alone or, if not set, the loader's library and those of Python packages beside the programs of `paths`
// (PATH) and in `home`.
std::vector<std::string> nccl_files(const std::string& paths, const std::string& home);

} // namespace ridge::kernels::cuda
