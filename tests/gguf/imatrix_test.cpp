// Importance matrices: both layouts, damaged and mismatched files.
#include "gguf/imatrix.h"

#include "core/error.h"
#include "gguf/writer.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

#include <cmath>

using namespace ridge;

namespace {

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<int32_t>(text.size()));
  bytes += text;
}

std::string dat(std::vector<float> values = {4, 8, 0}, int32_t calls = 4, bool tail = true) {
  std::string bytes;
  put(bytes, int32_t{1});
  put_text(bytes, "blk.0.attn_q.weight");
  put(bytes, calls);
  put(bytes, static_cast<int32_t>(values.size()));
  for (const float value : values) put(bytes, value);
  if (tail) {
    put(bytes, int32_t{7});
    put_text(bytes, "wiki.txt");
  }
  return bytes;
}

std::string imatrix_refusal(const std::string& path) {
  try {
    gguf::Imatrix::read(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

} // namespace

TEST_CASE("what was written is read again") {
  const tests::TemporaryFolder folder;
  gguf::Imatrix out;
  out.entries["blk.0.ffn_down_exps.weight"] = {{2, 4, 6, 8}, {2, 0}};
  out.entries["blk.0.attn_q.weight"] = {{1, 2, 3}, {4}};
  out.datasets = {"a.txt", "b.txt"};
  out.chunks = 3;
  out.chunk_tokens = 512;
  out.write(folder / "i.gguf");
  const gguf::Imatrix in = gguf::Imatrix::read(folder / "i.gguf");
  CHECK(in.datasets == out.datasets);
  CHECK(in.chunks == 3);
  CHECK(in.chunk_tokens == 512);
  REQUIRE(in.entries.size() == 2);
  const auto* experts = in.find("blk.0.ffn_down_exps.weight", 2, 2);
  REQUIRE(experts);
  CHECK(experts->mean_squares(0, 2) == std::vector<float>{1, 2});
  CHECK(experts->mean_squares(1, 2).empty());
  CHECK(in.find("blk.0.attn_q.weight", 3, 1)->mean_squares(0, 1) == std::vector<float>{0.25f, 0.5f, 0.75f});
  CHECK(in.find("blk.9.attn_q.weight", 3, 1) == nullptr);
}

TEST_CASE("the older layout is read, with and without its tail") {
  const tests::TemporaryFolder folder;
  for (const bool tail : {true, false}) {
    const gguf::Imatrix in = gguf::Imatrix::read(folder.write("i.dat", dat({4, 8, 0}, 4, tail)));
    CHECK(in.find("blk.0.attn_q.weight", 3, 1)->mean_squares(0, 1) == std::vector<float>{1, 2, 0});
    CHECK(in.chunks == (tail ? 7 : 0));
    CHECK(in.datasets.size() == (tail ? 1 : 0));
  }
}

TEST_CASE("an entry of another shape is refused, naming file and tensor") {
  const tests::TemporaryFolder folder;
  const gguf::Imatrix in = gguf::Imatrix::read(folder.write("i.dat", dat()));
  CHECK_THROWS_WITH_AS(in.find("blk.0.attn_q.weight", 4, 1), doctest::Contains("belongs to another model"), Error);
  CHECK_THROWS_WITH_AS(in.find("blk.0.attn_q.weight", 4, 1), doctest::Contains("i.dat"), Error);
}

TEST_CASE("truncated anywhere, a file of the older layout is refused") {
  const tests::TemporaryFolder folder;
  const std::string whole = dat();
  const size_t tail = dat({4, 8, 0}, 4, false).size();
  for (size_t size = 1; size < whole.size(); ++size) {
    if (size == tail || size == tail + 4) continue; // valid files of early writers
    CAPTURE(size);
    CHECK(imatrix_refusal(folder.write("i.dat", whole.substr(0, size))).find("i.dat") != std::string::npos);
  }
}

TEST_CASE("values and counts that cannot be are refused") {
  const tests::TemporaryFolder folder;
  CHECK(imatrix_refusal(folder.write("i.dat", dat({1, NAN, 0}))).find("nan") != std::string::npos);
  CHECK(imatrix_refusal(folder.write("i.dat", dat({1, INFINITY, 0}))).find("inf") != std::string::npos);
  CHECK(imatrix_refusal(folder.write("i.dat", dat({-1, 0, 0}))).find("-1") != std::string::npos);
  CHECK(imatrix_refusal(folder.write("i.dat", dat({1, 1, 1}, 0))).find("0 calls") != std::string::npos);
  CHECK(imatrix_refusal(folder.write("i.dat", dat({}))).find("0 values") != std::string::npos);
  std::string huge = dat();
  const int32_t count = 0x7fffffff;
  std::memcpy(huge.data() + 4 + 4 + 19 + 4, &count, 4);
  CHECK(imatrix_refusal(folder.write("i.dat", huge)).find("needs 8589934588 bytes") != std::string::npos);
}

TEST_CASE("GGUF files that are no importance matrix, or half of one, are refused") {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "i.gguf";
  const auto write = [&](const char* type, std::vector<gguf::TensorInfo> infos, float value = 1) {
    gguf::Metadata metadata;
    if (type) metadata.set("general.type", type);
    gguf::Writer writer(path, metadata, infos);
    for (const gguf::TensorInfo& info : infos) {
      std::vector<std::byte> data(info.bytes());
      if (info.type == quant::Type::F32)
        for (size_t i = 0; i < data.size(); i += 4) std::memcpy(data.data() + i, &value, 4);
      writer.write(data);
    }
    writer.finish();
    return imatrix_refusal(path);
  };
  const gguf::TensorInfo sums{"t.in_sum2", quant::Type::F32, {6, 1}}, counts{"t.counts", quant::Type::F32, {1, 1}};
  CHECK(write("imatrix", {sums, counts}) == "accepted");
  CHECK(write(nullptr, {sums, counts}).find("not an importance matrix") != std::string::npos);
  CHECK(write("imatrix", {sums}).find("'t.counts' is missing") != std::string::npos);
  CHECK(write("imatrix", {counts}).find("contains no importance data") != std::string::npos);
  CHECK(write("imatrix", {sums, {"t.counts", quant::Type::F32, {1, 4}}}).find("cannot be divided") !=
        std::string::npos);
  CHECK(write("imatrix", {{"t.in_sum2", quant::Type::F16, {6, 1}}, counts}).find("expected F32") != std::string::npos);
  CHECK(write("imatrix", {sums, counts}, -2).find("-2") != std::string::npos);
}
