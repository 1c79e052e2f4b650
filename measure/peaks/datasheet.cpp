#include "measure/peaks/datasheet.h"

#include <algorithm>
#include <array>

namespace ridge::measure {
namespace {

// NVIDIA's white papers and product pages, boost clocks. GB/s, TFLOP/s, TOP/s.
consteval Datasheet card(std::string_view name, double gigabytes, double fp32, double f16, double int8, double fp8) {
  return {name, gigabytes * 1e9, fp32 * 1e12, f16 * 1e12, int8 * 1e12, fp8 * 1e12};
}

constexpr auto kCards = std::to_array<Datasheet>({
    // Turing
    card("Tesla T4", 320, 8.1, 65, 130, 0),
    card("NVIDIA GeForce RTX 2060", 336, 6.5, 25.8, 103.2, 0),
    card("NVIDIA GeForce RTX 2060 SUPER", 448, 7.2, 28.7, 114.8, 0),
    card("NVIDIA GeForce RTX 2070", 448, 7.5, 29.9, 119.4, 0),
    card("NVIDIA GeForce RTX 2070 SUPER", 448, 9.1, 36.3, 145.0, 0),
    card("NVIDIA GeForce RTX 2080", 448, 10.1, 40.3, 161.1, 0),
    card("NVIDIA GeForce RTX 2080 SUPER", 496, 11.2, 44.6, 178.4, 0),
    card("NVIDIA GeForce RTX 2080 Ti", 616, 13.4, 53.8, 215.2, 0),
    card("NVIDIA TITAN RTX", 672, 16.3, 130.5, 261.0, 0),
    // Ampere
    card("NVIDIA A100-SXM4-40GB", 1555, 19.5, 312, 624, 0),
    card("NVIDIA A100-PCIE-40GB", 1555, 19.5, 312, 624, 0),
    card("NVIDIA A100-SXM4-80GB", 2039, 19.5, 312, 624, 0),
    card("NVIDIA A100 80GB PCIe", 1935, 19.5, 312, 624, 0),
    card("NVIDIA A10", 600, 31.2, 125, 250, 0),
    card("NVIDIA A30", 933, 10.3, 165, 330, 0),
    card("NVIDIA A40", 696, 37.4, 149.7, 299.3, 0),
    card("NVIDIA RTX A4000", 448, 19.2, 76.7, 153.4, 0),
    card("NVIDIA RTX A5000", 768, 27.8, 111.1, 222.2, 0),
    card("NVIDIA RTX A6000", 768, 38.7, 154.8, 309.7, 0),
    card("NVIDIA GeForce RTX 3060", 360, 12.7, 25.5, 101.9, 0),
    card("NVIDIA GeForce RTX 3060 Ti", 448, 16.2, 32.4, 129.6, 0),
    card("NVIDIA GeForce RTX 3070", 448, 20.3, 40.6, 162.6, 0),
    card("NVIDIA GeForce RTX 3070 Ti", 608, 21.7, 43.5, 174.0, 0),
    card("NVIDIA GeForce RTX 3080", 760, 29.8, 59.5, 238.0, 0),
    card("NVIDIA GeForce RTX 3080 Ti", 912, 34.1, 68.2, 272.8, 0),
    card("NVIDIA GeForce RTX 3090", 936, 35.6, 71.2, 284.7, 0),
    card("NVIDIA GeForce RTX 3090 Ti", 1008, 40.0, 80.0, 320.0, 0),
    // Ada
    card("NVIDIA L4", 300, 30.3, 121, 242.5, 242.5),
    card("NVIDIA L40", 864, 90.5, 181, 362, 362),
    card("NVIDIA L40S", 864, 91.6, 362, 733, 733),
    card("NVIDIA RTX 6000 Ada Generation", 960, 91.1, 364.2, 728.5, 728.5),
    card("NVIDIA GeForce RTX 4060", 272, 15.1, 30.2, 120.9, 60.4),
    card("NVIDIA GeForce RTX 4060 Ti", 288, 22.1, 44.1, 176.5, 88.2),
    card("NVIDIA GeForce RTX 4070", 504, 29.1, 58.3, 233.2, 116.6),
    card("NVIDIA GeForce RTX 4070 SUPER", 504, 35.5, 70.9, 283.7, 141.9),
    card("NVIDIA GeForce RTX 4070 Ti", 504, 40.1, 80.2, 320.7, 160.4),
    card("NVIDIA GeForce RTX 4070 Ti SUPER", 672, 44.1, 88.2, 352.6, 176.3),
    card("NVIDIA GeForce RTX 4080", 717, 48.7, 97.5, 389.9, 194.9),
    card("NVIDIA GeForce RTX 4080 SUPER", 736, 52.2, 104.4, 418.0, 208.9),
    card("NVIDIA GeForce RTX 4090", 1008, 82.6, 165.2, 660.6, 330.3),
    card("NVIDIA GeForce RTX 4090 D", 1008, 73.5, 147.1, 588.3, 294.2),
    // Hopper
    card("NVIDIA H100 80GB HBM3", 3350, 66.9, 989.4, 1978.9, 1978.9),
    card("NVIDIA H100 PCIe", 2039, 51.2, 756.4, 1512.9, 1512.9),
    card("NVIDIA H100 NVL", 3938, 60.0, 835.5, 1670.5, 1670.5),
    card("NVIDIA GH200 480GB", 4000, 66.9, 989.4, 1978.9, 1978.9),
    card("NVIDIA H200", 4800, 66.9, 989.4, 1978.9, 1978.9),
    card("NVIDIA H200 NVL", 4800, 60.0, 835.5, 1670.5, 1670.5),
    // Blackwell
    card("NVIDIA B200", 8000, 75, 2250, 4500, 4500),
    card("NVIDIA GeForce RTX 5060", 448, 19.2, 38.4, 153.6, 76.8),
    card("NVIDIA GeForce RTX 5060 Ti", 448, 23.7, 47.4, 189.8, 94.9),
    card("NVIDIA GeForce RTX 5070", 672, 30.9, 61.7, 246.9, 123.5),
    card("NVIDIA GeForce RTX 5070 Ti", 896, 43.9, 87.9, 351.5, 175.8),
    card("NVIDIA GeForce RTX 5080", 960, 56.3, 112.6, 450.2, 225.1),
    card("NVIDIA GeForce RTX 5090", 1792, 104.8, 209.5, 838.0, 419.0),
});

} // namespace

const Datasheet* find_datasheet(std::string_view gpu_name) {
  const auto found = std::ranges::find(kCards, gpu_name, &Datasheet::name);
  return found == kCards.end() ? nullptr : &*found;
}

} // namespace ridge::measure
