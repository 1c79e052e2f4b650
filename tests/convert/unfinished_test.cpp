// Resuming a killed calibrated quantization.
#include "convert/calibrated.h"
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>

using namespace ridge;
using convert::LayerJournal;

namespace {

struct Killed {};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

convert::PreparedTensors some_tensors(std::mt19937_64& random, int count) {
  convert::PreparedTensors tensors;
  for (int i = 0; i < count; ++i) {
    convert::Prepared made;
    made.bytes.resize(random() % 1000);
    for (std::byte& byte : made.bytes) byte = static_cast<std::byte>(random());
    made.error.weights = static_cast<int64_t>(random() % 100);
    tensors["tensor." + std::to_string(i)] = std::move(made);
  }
  return tensors;
}

void check_equal(const convert::PreparedTensors& a, const convert::PreparedTensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, made] : a) {
    REQUIRE(b.contains(name));
    CHECK(b.at(name).bytes == made.bytes);
    CHECK(b.at(name).error.weights == made.error.weights);
  }
}

} // namespace

TEST_CASE("a journal of layers gives back what is whole of it, whatever happened to its end") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const tests::TemporaryFolder folder;
  const std::string path = folder / "x.unfinished";
  std::vector<convert::PreparedTensors> layers;
  std::vector<uintmax_t> ends;
  {
    LayerJournal journal(path, 7);
    for (int i = 0; i < 3; ++i) {
      REQUIRE(journal.append(layers.emplace_back(some_tensors(random, 1 + i))));
      ends.push_back(std::filesystem::file_size(path));
    }
  }
  const std::string whole = bytes_of(path);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    std::string broken = whole;
    const size_t at = 16 + random() % (whole.size() - 16);
    if (round % 2 == 0)
      broken.resize(at);
    else
      broken[at] ^= static_cast<char>(1 << random() % 8);
    folder.write("x.unfinished", broken);
    LayerJournal journal(path, 7);
    const auto expected = std::ranges::count_if(ends, [&](uintmax_t end) { return end <= at; });
    REQUIRE(journal.records() == expected);
    for (int32_t i = 0; i < journal.records(); ++i) check_equal(journal.read(i), layers[static_cast<size_t>(i)]);
    const convert::PreparedTensors more = some_tensors(random, 2);
    REQUIRE(journal.append(more));
    check_equal(journal.read(journal.records() - 1), more);
  }
  CHECK(LayerJournal(path, 8).records() == 0);
  CHECK(LayerJournal(path, 7).records() == 0);
  folder.write("x.unfinished", "another file");
  LayerJournal journal(path, 7);
  CHECK(journal.records() == 0);
  journal.remove();
  CHECK(folder.file_count() == 0);
}

TEST_CASE("a calibration that was killed in any layer gives the file of one that was not") {
  REQUIRE_REFERENCE();
  const tests::TemporaryFolder folder;
  for (const char* name : {"llama-dense", "qwen2-dense", "qwen35-dense", "falcon-h1-dense", "deepseek2-moe"}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q8_0"), {}, nullptr);
    std::vector<std::vector<int32_t>> chunks(2, recipe.ids());
    std::ranges::reverse(chunks[1]);
    // Stops ("killed") at the first tensor of layer `until`. Returns the reused layers.
    const auto write = [&](const std::string& path, LayerJournal* journal, int until) {
      convert::CalibratedQuantizer calibrated(plan, program, {true, true}, chunks, kernels::cpu::make_cpu_executor, 1);
      if (journal) calibrated.use_journal(*journal, [](const std::string& line) { FAIL(line); });
      const std::string killer = "blk." + std::to_string(until) + ".";
      convert::write(
          plan, {path}, nullptr, convert::encode_on_cpu,
          [&](std::string_view tensor) {
            if (tensor.starts_with(killer)) throw Killed{};
            return calibrated.tensor(tensor);
          },
          nullptr, nullptr);
    };
    write(folder / "whole.gguf", nullptr, -1);
    const std::string journal_path = folder / "killed.gguf.unfinished";
    for (int until = 1; file.find_tensor("blk." + std::to_string(until) + ".attn_norm.weight"); ++until) {
      LayerJournal journal(journal_path, 1);
      CHECK(journal.records() == until - 1);
      CHECK_THROWS_AS(write(folder / "killed.gguf", &journal, until), Killed);
      CHECK(!std::filesystem::exists(folder / "killed.gguf"));
    }
    LayerJournal journal(journal_path, 1);
    CHECK(journal.records() > 0);
    write(folder / "killed.gguf", &journal, -1);
    journal.remove();
    CHECK(bytes_of(folder / "killed.gguf") == bytes_of(folder / "whole.gguf"));
    std::filesystem::remove(folder / "killed.gguf");
  }
}
