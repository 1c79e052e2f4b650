// Projectors of models.
#include "hub/projectors.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

using namespace ridge::hub;
using ridge::tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

void put_file(const TemporaryFolder& folder, const std::string& path, const std::string& bytes = "GGUF") {
  fs::create_directories(fs::path(folder / path).parent_path());
  folder.write(path, bytes);
}

std::string manifest_of(const std::string& model, const std::string& projector) {
  return fmt::format(R"({{"layers": [
    {{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:{}"}},
    {{"mediaType": "application/vnd.ollama.image.projector", "digest": "sha256:{}"}}]}})",
                     model, projector);
}

} // namespace

TEST_CASE("names say whose encoder a file is") {
  CHECK(projector_owner("mmproj-Qwen2.5-VL-7B-F16.gguf") == "qwen2.5-vl-7b");
  CHECK(projector_owner("a/b/Tall-8B-mmproj-q8_0.gguf") == "tall-8b");
  for (const char* any : {"mmproj.gguf", "mmproj-F16.gguf", "mmproj_f16.gguf", "mmproj-model-f16.gguf",
                          "mmproj-model.gguf", "mmproj-model-f16-4B.gguf", "Tall-8B-Q8_0.gguf"})
    CHECK_MESSAGE(projector_owner(any) == "", any);
}

TEST_CASE("of several encoders a model has those that are named like it, the best type first") {
  const Names models = {"Tall-8B-Q4_K_M.gguf", "Tall-8B-Q8_0.gguf", "Wide-3B-Q4_K_M.gguf", "Plain.gguf"};
  const auto found = [&](const char* model, Names projectors) { return projectors_of(model, projectors, models); };
  CHECK(found("Tall-8B-Q4_K_M.gguf", {"mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf"}) ==
        Names{"mmproj-F16.gguf", "mmproj-BF16.gguf", "mmproj-Q8_0.gguf", "mmproj-F32.gguf"});
  const Names both = {"mmproj-Wide-3B-f16.gguf", "mmproj-Tall-8B-Q8_0.gguf", "mmproj-F16.gguf"};
  CHECK(found("Tall-8B-Q8_0.gguf", both) == Names{"mmproj-Tall-8B-Q8_0.gguf"});
  CHECK(found("Wide-3B-Q4_K_M-00001-of-00002.gguf", both) == Names{"mmproj-Wide-3B-f16.gguf"});
  CHECK(found("Plain.gguf", both) == Names{"mmproj-F16.gguf"});
  CHECK(found("Plain.gguf", {"mmproj-Tall-8B-Q8_0.gguf"}) == Names{});
  CHECK(found("Plain.gguf", {"mmproj-Gone-f16.gguf"}) == Names{"mmproj-Gone-f16.gguf"}); // no other model's
  CHECK(found("Plain.gguf", {"mmproj-a.gguf", "mmproj-b.gguf"}).size() == 2);            // "a" is not one of its words
}

TEST_CASE("encoders are found beside models, at the top of a repository, and by manifests") {
  const TemporaryFolder folder;
  put_file(folder, "flat/Tall-8B-Q8_0.gguf");
  put_file(folder, "flat/Tall-8B-mmproj-f16.gguf");
  put_file(folder, "flat/notes.txt");
  CHECK(projectors_beside(folder / "flat/Tall-8B-Q8_0.gguf") == Names{folder / "flat/Tall-8B-mmproj-f16.gguf"});
  put_file(folder, "hub/models--a--b/snapshots/c/mmproj-F16.gguf");
  put_file(folder, "hub/models--a--b/snapshots/c/big/x-F16-00001-of-00002.gguf");
  CHECK(projectors_beside(folder / "hub/models--a--b/snapshots/c/big/x-F16-00001-of-00002.gguf") ==
        Names{folder / "hub/models--a--b/snapshots/c/mmproj-F16.gguf"});
  CHECK(projectors_beside(folder / "gone/x.gguf") == Names{});

  const std::string model(64, '1'), eyes(64, '2'), other(64, '3'), gone(64, '4');
  for (const std::string& hash : {model, eyes, other}) put_file(folder, "ollama/blobs/sha256-" + hash);
  const std::string manifests = "ollama/manifests/registry.ollama.ai/library/";
  put_file(folder, manifests + "seer/7b", manifest_of(model, eyes));
  put_file(folder, manifests + "seer/again", manifest_of(model, eyes));
  put_file(folder, manifests + "seer/gone", manifest_of(model, gone));
  put_file(folder, manifests + "other/1b", manifest_of(other, "../../x"));
  put_file(folder, manifests + "broken/1b", "{\"layers\": [");
  CHECK(projectors_beside(folder / ("ollama/blobs/sha256-" + model)) ==
        Names{folder / ("ollama/blobs/sha256-" + eyes)});
  CHECK(projectors_beside(folder / ("ollama/blobs/sha256-" + other)) == Names{});
}
