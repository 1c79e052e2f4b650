// Instruction rates. Operands are random, because zeros draw less power and may run faster.
#include "kernels/cuda/microbench/microbench.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChains = 8; // latencies overlap

// Bytes 0x30 to 0x3f and 0xb0 to 0xbf are moderate f16, bf16, f32, e4m3 and int8 numbers.
__device__ uint32_t random_word(uint32_t i) {
  i = (i ^ 61) ^ (i >> 16);
  i *= 9;
  i ^= i >> 4;
  i *= 0x27d4eb2d;
  i ^= i >> 15;
  return (i & 0x8f8f8f8f) | 0x30303030;
}

// kOperations: per warp; kMinimum: first architecture.
#pragma nv_diag_suppress 177 // not used in all passes
struct Fma {
  static constexpr double kOperations = 2 * 32;
  struct Chain {
    float sum[1];
  };
  static __device__ void accumulate(Chain& c, const uint32_t (&a)[4], const uint32_t (&)[2]) {
    // Two registers never collide in banks; the tiny factor keeps sums random.
    c.sum[0] = fmaf(c.sum[0], __uint_as_float(a[0] & 0x31ffffff), c.sum[0]);
  }
  static __device__ uint32_t result(const Chain& c) { return __float_as_uint(c.sum[0]); }
};

struct Dp4a {
  static constexpr double kOperations = 8 * 32;
  struct Chain {
    int sum[1];
  };
  static __device__ void accumulate(Chain& c, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    c.sum[0] = __dp4a(static_cast<int>(a[0]), static_cast<int>(b[0]), c.sum[0]);
  }
  static __device__ uint32_t result(const Chain& c) { return static_cast<uint32_t>(c.sum[0]); }
};

#define RIDGE_MMA(Name, K, minimum, instruction, Sum, constraint)                                                      \
  struct Name {                                                                                                        \
    static constexpr double kOperations = 2.0 * 16 * 8 * K;                                                            \
    static constexpr int kMinimum = minimum;                                                                           \
    struct Chain {                                                                                                     \
      Sum sum[4] = {};                                                                                                 \
    };                                                                                                                 \
    static __device__ void accumulate(Chain& c, const uint32_t (&a)[4], const uint32_t (&b)[2]) {                      \
      asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                \
                   : "+" constraint(c.sum[0]), "+" constraint(c.sum[1]), "+" constraint(c.sum[2]),                     \
                     "+" constraint(c.sum[3])                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                \
    }                                                                                                                  \
    static __device__ uint32_t result(const Chain& c) { return static_cast<uint32_t>(c.sum[0] + c.sum[3]); }           \
  }
RIDGE_MMA(MmaF16, 16, 800, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", float, "f");
RIDGE_MMA(MmaBf16, 16, 800, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", float, "f");
RIDGE_MMA(MmaTf32, 8, 800, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", float, "f");
RIDGE_MMA(MmaInt8, 32, 800, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", int, "r");
RIDGE_MMA(MmaFp8, 32, 890, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f");
#undef RIDGE_MMA

// Twice f32's rate on GeForce.
struct MmaF16Sums {
  static constexpr double kOperations = 2.0 * 16 * 8 * 16;
  static constexpr int kMinimum = 800;
  struct Chain {
    uint32_t sum[2] = {};
  };
  static __device__ void accumulate(Chain& c, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(c.sum[0]), "+r"(c.sum[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  static __device__ uint32_t result(const Chain& c) { return c.sum[0] ^ c.sum[1]; }
};

// Turing lacks m16n8k16.
struct MmaF16Turing {
  static constexpr double kOperations = 2.0 * 16 * 8 * 8;
  static constexpr int kMinimum = 750;
  struct Chain {
    float sum[4] = {};
  };
  static __device__ void accumulate(Chain& c, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
  static __device__ uint32_t result(const Chain& c) { return static_cast<uint32_t>(c.sum[0] + c.sum[3]); }
};

// `ran` is unchanged if the chip lacks the instruction.
template <typename Instruction>
__device__ void run_chains(int rounds, uint32_t* ran) {
  uint32_t a[4], b[kChains][2];
  for (int i = 0; i < 4; ++i) a[i] = random_word(threadIdx.x * 8 + i);
  // Distinct, so that the compiler cannot merge chains.
  typename Instruction::Chain chains[kChains];
  for (int c = 0; c < kChains; ++c) {
    chains[c].sum[0] = __uint_as_float(random_word(threadIdx.x + 32 * c));
    for (int i = 0; i < 2; ++i) b[c][i] = random_word(threadIdx.x * 32 + 2 * c + i);
  }
#pragma unroll 16
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int c = 0; c < kChains; ++c) Instruction::accumulate(chains[c], a, b[c]);
  uint32_t all = 0;
  for (int c = 0; c < kChains; ++c) all ^= Instruction::result(chains[c]);
  if (blockIdx.x == 0 && threadIdx.x == 0) *ran = all | 1;
}

template <typename Instruction>
__global__ void __launch_bounds__(kThreads) scalar_kernel(int rounds, uint32_t* ran) {
  run_chains<Instruction>(rounds, ran);
}
template <typename Instruction>
__global__ void __launch_bounds__(kThreads) mma_kernel(int rounds, uint32_t* ran) {
#if defined(__CUDA_ARCH__)
  if constexpr (__CUDA_ARCH__ >= Instruction::kMinimum) run_chains<Instruction>(rounds, ran);
#endif
}

// [64 x K] by [K x 128] per 128 threads, in swizzled rows.
[[maybe_unused]] constexpr int kWgmmaBytes = (64 + 128) * 128;
constexpr int kWgmmaGroups = 3; // per multiprocessor, limited by registers

#define RIDGE_8(c, base)                                                                                               \
  c(s[base]), c(s[base + 1]), c(s[base + 2]), c(s[base + 3]), c(s[base + 4]), c(s[base + 5]), c(s[base + 6]),          \
      c(s[base + 7])
#define RIDGE_64(c)                                                                                                    \
  RIDGE_8(c, 0), RIDGE_8(c, 8), RIDGE_8(c, 16), RIDGE_8(c, 24), RIDGE_8(c, 32), RIDGE_8(c, 40), RIDGE_8(c, 48),        \
      RIDGE_8(c, 56)
#define RIDGE_SUMS                                                                                                     \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"    \
  "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"   \
  "%58,%59,%60,%61,%62,%63}, %64, %65, 1"
#define RIDGE_WGMMA(Name, K, instruction, Sum, constraint, tail)                                                       \
  struct Name {                                                                                                        \
    static constexpr double kOperations = 2.0 * 64 * 128 * K;                                                          \
    using Value = Sum;                                                                                                 \
    static __device__ void accumulate(Sum (&s)[64], uint64_t a, uint64_t b) {                                          \
      asm volatile("wgmma.mma_async.sync.aligned." instruction " " RIDGE_SUMS tail ";"                                 \
                   : RIDGE_64("+" constraint)                                                                          \
                   : "l"(a), "l"(b));                                                                                  \
    }                                                                                                                  \
  }
RIDGE_WGMMA(WgmmaF16, 16, "m64n128k16.f32.f16.f16", float, "f", ", 1, 1, 0, 0");
RIDGE_WGMMA(WgmmaBf16, 16, "m64n128k16.f32.bf16.bf16", float, "f", ", 1, 1, 0, 0");
RIDGE_WGMMA(WgmmaTf32, 8, "m64n128k8.f32.tf32.tf32", float, "f", ", 1, 1");
RIDGE_WGMMA(WgmmaInt8, 32, "m64n128k32.s32.s8.s8", int, "r", "");
RIDGE_WGMMA(WgmmaFp8, 32, "m64n128k32.f32.e4m3.e4m3", float, "f", ", 1, 1");
#undef RIDGE_WGMMA

template <typename Instruction>
__global__ void __launch_bounds__(128 * kWgmmaGroups) wgmma_kernel(int rounds, uint32_t* ran) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ alignas(1024) uint32_t tile[kWgmmaBytes / 4];
  for (int i = threadIdx.x; i < kWgmmaBytes / 4; i += blockDim.x) tile[i] = random_word(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const auto descriptor = [](uint32_t address) {
    return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
  };
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  const uint64_t a = descriptor(address), b = descriptor(address + 64 * 128);
  typename Instruction::Value sums[64] = {};
  for (int round = 0; round < rounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) Instruction::accumulate(sums, a + 2 * k, b + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  uint32_t all = 0;
  for (int i = 0; i < 64; ++i) all ^= static_cast<uint32_t>(sums[i]);
  if (blockIdx.x == 0 && threadIdx.x == 0) *ran = all | 1;
#endif
}

class Rates {
 public:
  explicit Rates(Bench& bench) : bench_(bench), ran_(4, "the rate measurement") {}

  template <typename Instruction>
  void scalar(const char* name, const char* how) {
    add(name, how, scalar_kernel<Instruction>, 8, kThreads, kChains * Instruction::kOperations * kThreads / 32);
  }
  template <typename Instruction>
  void mma(const char* name, const char* how) {
    add(name, how, mma_kernel<Instruction>, 4, kThreads, kChains * Instruction::kOperations * kThreads / 32);
  }
  template <typename Instruction>
  void wgmma(const char* name, const char* how) {
    add(name, how, wgmma_kernel<Instruction>, 1, 128 * kWgmmaGroups, 4 * Instruction::kOperations * kWgmmaGroups);
  }

 private:
  // Runs 2 ms: dwarfs a launch, and stays at boost clock.
  void add(const char* name, const char* how, void (*kernel)(int, uint32_t*), int blocks_per_sm, int threads,
           double operations_per_round) {
    const int blocks = blocks_per_sm * bench_.launch.sm_count;
    const cudaStream_t stream = bench_.launch.stream;
    const auto seconds = [&](int rounds, int runs) {
      return median_seconds(stream, runs,
                            [&] { bench_.launch(kernel, blocks, threads, 0, rounds, ran_.as<uint32_t>()); });
    };
    RIDGE_CUDA(cudaMemsetAsync(ran_.as(), 0, 4, stream));
    constexpr int kFew = 200;
    const double few = seconds(kFew, 3);
    uint32_t ran = 0;
    RIDGE_CUDA(cudaMemcpyAsync(&ran, ran_.as(), 4, cudaMemcpyDeviceToHost, stream));
    RIDGE_CUDA(cudaStreamSynchronize(stream));
    if (ran == 0) return; // this GPU's code lacks it
    const int rounds = std::clamp(static_cast<int>(kFew * 2e-3 / few), kFew, 1 << 20);
    bench_.add(name, core::Ceiling::Unit::operations_per_second,
               operations_per_round * rounds * blocks / seconds(rounds, 5), how);
  }

  Bench& bench_;
  DeviceMemory ran_;
};

} // namespace

void measure_f16_rates(Bench& bench) {
  Rates rates(bench);
  if (bench.properties.major >= 8)
    rates.mma<MmaF16>("mma_f16", "mma.sync m16n8k16, f32 sums");
  else
    rates.mma<MmaF16Turing>("mma_f16", "mma.sync m16n8k8, f32 sums");
  rates.wgmma<WgmmaF16>("wgmma_f16", "wgmma m64n128k16, f32 sums");
}

void measure_rates(Bench& bench) {
  measure_f16_rates(bench);
  Rates rates(bench);
  rates.scalar<Fma>("fp32", "fma in registers");
  rates.scalar<Dp4a>("dp4a", "dp4a in registers: 4 int8 products, summed");
  rates.mma<MmaF16Sums>("mma_f16_f16_sums", "mma.sync m16n8k16, f16 sums");
  rates.mma<MmaBf16>("mma_bf16", "mma.sync m16n8k16, f32 sums");
  rates.mma<MmaTf32>("mma_tf32", "mma.sync m16n8k8");
  rates.mma<MmaInt8>("mma_int8", "mma.sync m16n8k32, s32 sums");
  rates.mma<MmaFp8>("mma_fp8", "mma.sync m16n8k32, e4m3, f32 sums");
  rates.wgmma<WgmmaBf16>("wgmma_bf16", "wgmma m64n128k16, f32 sums");
  rates.wgmma<WgmmaTf32>("wgmma_tf32", "wgmma m64n128k8");
  rates.wgmma<WgmmaInt8>("wgmma_int8", "wgmma m64n128k32, s32 sums");
  rates.wgmma<WgmmaFp8>("wgmma_fp8", "wgmma m64n128k32, e4m3, f32 sums");
}

} // namespace ridge::kernels::cuda
