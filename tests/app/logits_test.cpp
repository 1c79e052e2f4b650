// ridge logits with a draft head.
#include "app/support.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/draft_model.h"
#include "support/drafts/eagle_runs.h"
#include "support/recipes/draft_runs.h"

#include <fstream>

using namespace ridge::tests;

TEST_CASE("ridge logits --mtp writes the logits of the first draft head, however long the batches are") {
  const std::string path = folder() / "draft.gguf", out = folder() / "draft.npy";
  const DraftModel model = DraftModel::recurrent();
  const std::vector<std::byte> image = model.image();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  const std::vector<float> expected =
      draft_logits(model.open(), ridge::kernels::cpu::make_cpu_executor, exact_config(), ids, ids.size());
  for (const char* batch : {"10", "3"}) {
    const Result result = run_ridge({"logits", "-m", path, "--device", "cpu", "--exact", "--mtp", "--ids",
                                     "3,1,4,1,5,9,2,6,5,3", "-ub", batch, "--out", out});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const std::vector<float> logits = floats_of_npy(out);
    REQUIRE(logits.size() == expected.size());
    CHECK(nmse(logits, expected) < 1e-10);
  }
  const Result refused = run_ridge({"logits", "-m", tiny_model(), "--mtp", "--ids", "1", "--out", out});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("has no draft head") != std::string::npos);
}

TEST_CASE("ridge logits --mtp writes the logits of an EAGLE-3 head beside its model, and fit counts it") {
  const auto write = [](const char* name, const std::vector<std::byte>& image) {
    return folder().write(name, {reinterpret_cast<const char*>(image.data()), image.size()});
  };
  const EaglePair pair;
  const std::string model = write("eagle-model.gguf", *pair.model_image()),
                    head = write("eagle3.gguf", *pair.head_image()), out = folder() / "eagle.npy";
  std::string ids;
  for (const int32_t id : eagle_ids()) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  std::vector<float> golden = read_array<float>(std::string(RIDGE_SOURCE_DIR) + "/tests/golden/eagle3.f32");
  golden.resize((kEagleTokens - 1) * 48);
  for (const char* batch : {"32", "3"}) {
    const Result result = run_ridge({"logits", "-m", model, "--draft-model", head, "--device", "cpu", "--exact",
                                     "--mtp", "--ids", ids, "-ub", batch, "--out", out});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const std::vector<float> logits = floats_of_npy(out);
    REQUIRE(logits.size() == golden.size() + 48);
    CHECK(std::ranges::all_of(std::span(logits).first(48), [](float logit) { return logit == 0; }));
    CHECK(eagle_error({logits.begin() + 48, logits.end()}, golden) < 1e-9);
  }
  const Result fit = run_ridge({"fit", "-m", model, "--draft-model", head, "--device", "cpu"});
  CHECK(fit.status == 0);
  CHECK(fit.out.find("draft heads") != std::string::npos);
  const Result refused = run_ridge({"run", "-m", tiny_model(), "--draft-model", head, "-p", "x"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("it is a draft head for another model") != std::string::npos);
  CHECK(run_ridge({"inspect", head}).status == 0);
}

TEST_CASE("ridge logits gives the same on several ranks, and says which GPUs it cannot use") {
  const std::string out = folder() / "ranks.npy";
  const auto logits = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"logits",  "-m",    tiny_model(), "--device", "cpu",
                                          "--exact", "--ids", "1,2,3",      "--out",    out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run_ridge(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return floats_of_npy(out);
  };
  CHECK(nmse(logits({"--tensor-parallel", "2"}), logits({})) < 1e-10);
  CHECK(nmse(logits({"--pipeline", "2"}), logits({})) < 1e-10);
  CHECK(nmse(logits({"--pipeline", "2", "--tensor-parallel", "2"}), logits({})) < 1e-10);

  for (const char* list : {"0,x", "1,1", "-1"}) {
    const Result refused = run_ridge({"logits", "-m", tiny_model(), "--gpus", list, "--ids", "1", "--out", out});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("--gpus") != std::string::npos);
  }
}
