// Sums over ranks in other processes by NCCL. Needs no CUDA headers.
#pragma once

#include "core/parallel/communicator.h"
#include "kernels/cuda/exchange/nccl_library.h"

#include <memory>

namespace ridge::kernels::cuda {

// All ranks call it at once, with the id that one of them has made. Throws Error if that fails, a rank fails or it
// takes over a minute.
std::unique_ptr<core::Communicator> make_nccl_communicator(std::unique_ptr<core::Communicator> host, int device,
                                                           const NcclId& id);

} // namespace ridge::kernels::cuda
