// The commands that take pictures.
#include "app/support.h"
#include "support/recipes/vision_case.h"

#include <filesystem>

using namespace ridge;
using namespace ridge::tests;

namespace {

// The files of a case in a folder of their own, with its picture.
struct Files {
  TemporaryFolder own;
  std::string model, mmproj, image;

  explicit Files(const VisionCase& c) {
    const auto write = [&](const char* part) {
      const std::vector<std::byte> bytes = c.image(part);
      return own.write(std::string(part) + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    model = write("model");
    mmproj = write("mmproj");
    const media::Picture picture = c.picture();
    image = own.write("cat.ppm", fmt::format("P6 {} {} 255\n", picture.width, picture.height) +
                                     std::string(picture.rgb.begin(), picture.rgb.end()));
  }
};

} // namespace

TEST_CASE("ridge embed and ridge logits write what the reference has of pictures") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gemma3", "qwen3vl-deep"}) {
    CAPTURE(name);
    const VisionCase c(name);
    const Files files(c);
    const std::string out = files.own / "out.npy";
    const Result embedded = run_ridge({"embed", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image,
                                       "--pooling", "none", "--out", out, "--exact"});
    REQUIRE_MESSAGE(embedded.status == 0, embedded.err);
    CHECK(nmse(floats_of_npy(out), c.embeddings()) < 5e-6);
    const Result logits = run_ridge({"logits", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image,
                                     "-p", c.prompt(), "--out", out, "--exact"});
    REQUIRE_MESSAGE(logits.status == 0, logits.err);
    CHECK(nmse(floats_of_npy(out), c.logits()) < 5e-6);
    const Result lines = run_ridge({"embed", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image});
    CHECK(lines.status == 0);
    CHECK(lines.out.find("\"tokens\":") != std::string::npos);
  }
}

TEST_CASE("ridge inspect says of an encoder's file what it is for") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const Result seen = run_ridge({"inspect", files.mmproj});
  CHECK(seen.status == 0);
  CHECK_MESSAGE(seen.out.find("an encoder of pictures for Gemma 3: give it to run, chat or serve with --mmproj") !=
                    std::string::npos,
                seen.out);
}

TEST_CASE("ridge run and ridge chat answer to pictures, and find the encoder beside the model") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const Result ran = run_ridge(
      {"run", "-m", files.model, "--image", files.image, "--image", files.image, "-p", "a cat", "-n", "2", "--json"});
  REQUIRE_MESSAGE(ran.status == 0, ran.err);
  CHECK(ran.err.find("mmproj.gguf") != std::string::npos);
  CHECK(ran.err.find("16 tokens]") != std::string::npos);
  const Result chat = run_ridge({"chat", "-m", files.model, "--mmproj", files.mmproj, "-n", "2"},
                                "/image " + files.image + "\na cat\n/image none.png\n/undo\n/exit\n");
  CHECK(chat.err.find("16 tokens]") != std::string::npos);
  CHECK(chat.err.find("none.png") != std::string::npos);
}

TEST_CASE("commands say what is wrong with pictures") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const auto refusal = [&](std::vector<std::string> arguments) {
    const Result result = run_ridge(arguments);
    CHECK(result.status != 0);
    return result.err;
  };
  const std::string text = files.own.write("text.png", "this is text");
  CHECK(refusal({"run", "-m", files.model, "--image", text, "-p", "x"}).find("is no picture that can be read") !=
        std::string::npos);
  CHECK(refusal({"run", "-m", files.model, "--image", files.image, "-p", "x", "--device", "cuda"}).find("CPU only") !=
        std::string::npos);
  CHECK(refusal({"run", "-m", files.model, "--mmproj", files.model, "-p", "x"}).find("expected 'clip'") !=
        std::string::npos);
  CHECK(refusal({"logits", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image, "-p", "no mark",
                 "--out", files.own / "out.npy"})
            .find("there are 1 pictures") != std::string::npos);
  const Files wider(VisionCase("qwen3vl-deep"));
  CHECK(refusal({"run", "-m", files.model, "--mmproj", wider.mmproj, "-p", "x"}).find("do not belong together") !=
        std::string::npos);
  std::filesystem::remove(files.mmproj);
  CHECK(refusal({"run", "-m", files.model, "--image", files.image, "-p", "x"}).find("no mmproj*.gguf lies beside") !=
        std::string::npos);
}
