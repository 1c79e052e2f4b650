// References, types and kinds of files.
#include "core/error.h"
#include "hub/names.h"
#include "hub/reference.h"
#include "hub/repository.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace ridge;
using namespace ridge::hub;

TEST_CASE("references are read, and wrong ones refused") {
  const auto read = [](const char* text) {
    const auto r = parse_reference(text);
    return r ? fmt::format("{}|{}|{}|{}|{}", r->repository, r->revision, r->type, r->file, r->url) : "none";
  };
  CHECK(read("hf:a/b") == "a/b|main|||");
  CHECK(read("hf:a/b:Q4_K_M") == "a/b|main|Q4_K_M||");
  CHECK(read("hf:a/b@v1:UD-Q4_K_XL") == "a/b|v1|UD-Q4_K_XL||");
  CHECK(read("hf:a/b/c/d.gguf") == "a/b|main||c/d.gguf|");
  CHECK(read("https://huggingface.co/a/b") == "a/b|main|||");
  CHECK(read("https://huggingface.co/a/b/resolve/main/c/d.gguf?download=true") == "a/b|main||c/d.gguf|");
  CHECK(read("https://hf.co/a/b/blob/v2/d.gguf") == "a/b|v2||d.gguf|");
  CHECK(read("https://example.org/d.gguf") == "|main|||https://example.org/d.gguf");
  CHECK(read("model.gguf") == "none");
  CHECK(read("a/b") == "none");
  for (const char* wrong :
       {"hf:", "hf:a", "hf:a/", "hf:a/..", "hf:../b", "hf:a/b/../c.gguf", "hf:a/b:", "hf:a/b:x y", "hf:a/b@",
        "hf:a/b@../x", "hf:a/b/readme.md", "hf:a--b/c", "hf:a/b\n", "https://", "https:///x.gguf", "https://x/a b.gguf",
        "https://huggingface.co/a/b/resolve/main/x.txt", "https://huggingface.co/a"})
    CHECK_THROWS_AS_MESSAGE(parse_reference(wrong), Error, wrong);
  CHECK(type_in_name("Qwen3-8B-Q4_K_M") == "Q4_K_M");
  CHECK(type_in_name("x.iq4_xs") == "IQ4_XS");
  CHECK(type_in_name("Qwen3-8B") == "");
  CHECK(next_page(R"(<https://h/a?p=2>; rel="next", <https://h/a?p=9>; rel="last")") == "https://h/a?p=2");
  CHECK(next_page(R"(<https://h/a>; rel="first")") == "");
}

TEST_CASE("the type that is nearest to the usual one is chosen") {
  const auto chosen = [](std::vector<std::string> names, const std::string& type = "") {
    std::vector<RemoteModel> models;
    for (const std::string& name : names) models.push_back({name, {}});
    const RemoteModel* model = model_of_type(models, type);
    return model ? model->name : "none";
  };
  CHECK(chosen({"x-Q8_0", "x-Q4_K_M", "x-Q4_0"}) == "x-Q4_K_M");
  CHECK(chosen({"x-Q8_0", "x-Q5_K_M", "x-F16"}) == "x-Q5_K_M");
  CHECK(chosen({"x-mxfp4", "x-F16"}) == "x-mxfp4");
  CHECK(chosen({"only"}) == "only");
  CHECK(chosen({"one", "two"}) == "none");
  CHECK(chosen({"long-x-Q4_K_M", "x-Q4_K_M"}) == "x-Q4_K_M");
  CHECK(chosen({"UD-Q4_K_XL/x-UD-Q4_K_XL", "x-Q8_0"}, "UD-Q4_K_XL") == "UD-Q4_K_XL/x-UD-Q4_K_XL");
  CHECK(chosen({"x-IQ4_XS", "x-Q4_K_M"}, "Q4_XS") == "none");
}

TEST_CASE("projectors, drafters and importance matrices are known by what their names begin or end with") {
  for (const char* model : {"Qwen3.6-27B-MTP-Q8_0.gguf", "GLM-4.6V-Flash-heretic-imatrix-Q4_K_M.gguf",
                            "Tiny-MTP-Q8_0.gguf", "Wide-EAGLE3-tuned-Q4_K_M.gguf", "x-dflash-1b.gguf",
                            "Old-imatrixed.gguf", "Seer-with-mmproj-inside-Q8_0.gguf", "mtp.gguf", "good.GGUF"})
    CHECK_MESSAGE(is_model_file(model), model);
  for (const char* other : {"mmproj-F16.gguf",
                            "mmproj.gguf",
                            "mmproj_f16.gguf",
                            "Seer-8B.mmproj-Q8_0.gguf",
                            "Seer-8B-mmproj-f16.gguf",
                            "Seer-8B-mmproj.gguf",
                            "mtp-Qwen3.6-27B-Q8_0.gguf",
                            "MTP-x.gguf",
                            "eagle3-x.gguf",
                            "dflash-x.gguf",
                            "dspark-x.gguf",
                            "imatrix.gguf",
                            "imatrix_x.gguf",
                            "imatrix-x-Q8_0.gguf",
                            "model.imatrix.gguf",
                            "Wide-8B-imatrix.gguf",
                            "Wide-8B_imatrix.GGUF",
                            "imatrix.dat",
                            ".gguf",
                            "readme.md"})
    CHECK_MESSAGE(!is_model_file(other), other);
  CHECK(is_gguf_file("a/b/mmproj-F16.gguf"));
  CHECK_FALSE(is_gguf_file("a/b/.gguf"));
}
