// Experts that the CPU computes for a GPU; here a thread plays the GPU.
#include "kernels/cpu/executor/host_experts.h"

#include "support/numerics.h"
#include "support/random_program.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

using namespace ridge;
using core::ExpertLayer;
using tests::RandomProgram;

namespace {

constexpr int64_t kWidth = 512, kExperts = 6;

struct Model {
  RandomProgram random;
  int64_t hidden;
  std::vector<ExpertLayer> layers;

  Model(uint64_t seed, quant::Type type, int64_t count)
      : random(seed), hidden(quant::format(type).block_weights > 32 ? 256 : 288) {
    for (int64_t i = 0; i < count; ++i) {
      ExpertLayer layer{random.weight(type, kWidth, hidden, kExperts), random.weight(type, kWidth, hidden, kExperts),
                        random.weight(type, hidden, kWidth, kExperts)};
      layer.glu.kind = core::Activation::silu;
      if (i % 2 == 0) {
        layer.norm = random.factors(kWidth, 0.5, 1.5);
        layer.epsilon = 1e-5f;
      }
      if (i % 3 == 0) {
        layer.gate_bias = random.factors(kExperts * hidden, -1, 1);
        layer.up_bias = random.factors(kExperts * hidden, -1, 1);
        layer.down_bias = random.factors(kExperts * kWidth, -1, 1);
      }
      layers.push_back(layer);
    }
  }

  std::vector<float> decoded(core::WeightId id, int64_t first, int64_t count) const {
    const core::Weight& w = random.program.weights[id];
    std::vector<float> values(count);
    quant::find_format(w.type)->decode(w.data + first / w.cols * w.row_bytes + first % w.cols * 4, count,
                                       values.data());
    return values;
  }
  std::vector<double> times(core::WeightId id, core::WeightId bias, int64_t expert,
                            const std::vector<double>& x) const {
    const core::Weight& w = random.program.weights[id];
    std::vector<double> out(w.rows);
    const std::vector<float> added = bias < 0 ? std::vector<float>(w.rows) : decoded(bias, expert * w.rows, w.rows);
    for (int64_t r = 0; r < w.rows; ++r) {
      const std::vector<float> row = decoded(id, (expert * w.rows + r) * w.cols, w.cols);
      out[r] = added[r];
      for (int64_t c = 0; c < w.cols; ++c) out[r] += row[c] * x[c];
    }
    return out;
  }
  std::vector<float> result(const ExpertLayer& layer, int64_t expert, const float* x) const {
    std::vector<double> y(x, x + kWidth);
    if (layer.norm >= 0) {
      double squares = 0;
      for (const double v : y) squares += v * v;
      const std::vector<float> factors = decoded(layer.norm, 0, kWidth);
      for (int64_t i = 0; i < kWidth; ++i) y[i] *= factors[i] / std::sqrt(squares / kWidth + layer.epsilon);
    }
    const std::vector<double> gate = times(layer.gate, layer.gate_bias, expert, y);
    std::vector<double> product = times(layer.up, layer.up_bias, expert, y);
    for (int64_t i = 0; i < hidden; ++i) product[i] *= gate[i] / (1 + std::exp(-gate[i]));
    const std::vector<double> out = times(layer.down, layer.down_bias, expert, product);
    return {out.begin(), out.end()};
  }
};

// Sends messages and waits for answers as the kernels do.
struct Device {
  core::ExpertMail mail;
  std::vector<float> x = std::vector<float>(core::kMostMailedRows * kWidth),
                     results = std::vector<float>(core::kMostMailedExperts * kWidth);
  uint64_t messages = 0;

  core::ExpertMailbox box() { return {&mail, x.data(), results.data()}; }
  void send(int count) {
    std::atomic_ref(mail.sent).store(++messages << core::kMailCountBits | static_cast<uint64_t>(count),
                                     std::memory_order_release);
  }
  void wait() {
    while (std::atomic_ref(mail.answered).load(std::memory_order_acquire) < messages) std::this_thread::yield();
  }
};

std::unique_ptr<core::HostExperts> worker(const Model& model, int threads) {
  return kernels::cpu::make_host_experts(model.random.program, model.layers, {.threads = threads});
}

} // namespace

TEST_CASE("experts for a GPU: an answer has the result of each expert that a message names, in any type") {
  for (const quant::Type type : {quant::Type::Q4_K, quant::Type::Q8_0, quant::Type::MXFP4, quant::Type::F16})
    for (const int threads : {1, 2, 5}) {
      CAPTURE(quant::format(type).name);
      CAPTURE(threads);
      const Model model(3, type, 4);
      Device device;
      const auto experts = worker(model, threads);
      CHECK(experts->threads() == threads);
      CHECK(experts->measure(3) > 0);
      experts->serve(device.box());
      std::mt19937_64 random(7);
      for (int step = 0; step < 6; ++step) {
        experts->expect(device.messages + model.layers.size());
        for (size_t l = 0; l < model.layers.size(); ++l) {
          const int rows = 1 + static_cast<int>(random() % core::kMostMailedRows),
                    count = static_cast<int>(random() % 9);
          for (float& value : device.x) value = std::normal_distribution<float>(0, 1)(random);
          device.mail.layer = static_cast<int32_t>(l);
          for (int i = 0; i < count; ++i) {
            device.mail.expert[i] = static_cast<int32_t>(random() % kExperts);
            device.mail.row[i] = static_cast<int32_t>(random() % rows);
          }
          device.send(count);
          if (count > 0) device.wait();
          for (int i = 0; i < count; ++i) {
            const std::vector<float> expected =
                model.result(model.layers[l], device.mail.expert[i], &device.x[device.mail.row[i] * kWidth]);
            CHECK(tests::nmse({&device.results[i * kWidth], static_cast<size_t>(kWidth)}, expected) < 1e-7);
          }
        }
        if (step % 3 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5)); // they fall asleep
      }
    }
}

TEST_CASE("experts for a GPU: threads end although an announced message never comes, and although none is announced") {
  const Model model(1, quant::Type::Q8_0, 1);
  for (const uint64_t announced : {0, 1, 1000}) {
    Device device;
    const auto experts = worker(model, 3);
    experts->serve(device.box());
    experts->expect(announced);
    if (announced > 1) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
}
