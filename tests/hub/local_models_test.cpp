// Models in other programs' folders, with hostile names.
#include "core/error.h"
#include "hub/local_models.h"
#include "hub/names.h"
#include "hub/pull.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

using namespace ridge;
using namespace ridge::hub;
using tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

void put(const TemporaryFolder& folder, const std::string& path, const std::string& bytes = "GGUF") {
  fs::create_directories(fs::path(folder / path).parent_path());
  folder.write(path, bytes);
}

void put_blob(const TemporaryFolder& folder, const std::string& repo, const std::string& commit,
              const std::string& file, const std::string& hash, const std::string& bytes) {
  const std::string at = "hub/models--" + repo;
  put(folder, at + "/blobs/" + hash, bytes);
  const fs::path link = folder / (at + "/snapshots/" + commit + "/" + file);
  fs::create_directories(link.parent_path());
  fs::create_symlink(fs::path(folder / (at + "/blobs/" + hash)).lexically_relative(link.parent_path()), link);
}

std::vector<std::string> names(const std::vector<LocalModel>& models) {
  std::vector<std::string> all;
  for (const LocalModel& model : models) all.push_back(model.name);
  return all;
}

using Names = std::vector<std::string>;

std::string manifest(const std::string& hash) {
  return fmt::format(R"({{"schemaVersion": 2, "layers": [
    {{"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:{}", "size": 3}},
    {{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:{}", "size": 4}}]}})",
                     std::string(64, 'b'), hash);
}

} // namespace

TEST_CASE("models are found in the layouts of Hugging Face, LM Studio, llama.cpp and Ollama, and in folders") {
  const TemporaryFolder folder;
  put_blob(folder, "acme--Tall-8B-GGUF", "c1", "Tall-8B-Q4_K_M.gguf", "aa", "older");
  put_blob(folder, "acme--Tall-8B-GGUF", "c2", "Tall-8B-Q4_K_M.gguf", "bb", "newest");
  put_blob(folder, "acme--Tall-8B-GGUF", "c2", "big/Tall-8B-F16-00001-of-00002.gguf", "cc", "one");
  put_blob(folder, "acme--Tall-8B-GGUF", "c2", "big/Tall-8B-F16-00002-of-00002.gguf", "dd", "two!");
  put_blob(folder, "acme--Tall-8B-GGUF", "c2", "mmproj-F16.gguf", "ee", "eyes");
  put_blob(folder, "acme--Tall-8B-GGUF", "c2", "README.md", "ff", "text");
  put(folder, "hub/models--acme--Tall-8B-GGUF/refs/main", "c2\n");
  put(folder, "lm/maker/Repo-GGUF/short-Q8_0.gguf");
  put(folder, "llama/acme_Flat_flat.gguf");
  const std::string hash(64, '7'), gone(64, '8');
  put(folder, "ollama/blobs/sha256-" + hash, "blob");
  put(folder, "ollama/manifests/registry.ollama.ai/library/wide/3b", manifest(hash));
  put(folder, "ollama/manifests/registry.ollama.ai/library/wide/gone", manifest(gone));
  put(folder, "models/half-00001-of-00003.gguf");
  put(folder, "models/half-00003-of-00003.gguf");
  fs::create_symlink(folder / "llama/acme_Flat_flat.gguf", folder / "models/again.gguf");

  const Place places[] = {{Source::hugging_face, folder / "hub"}, {Source::lm_studio, folder / "lm"},
                          {Source::llama_cpp, folder / "llama"},  {Source::ollama, folder / "ollama"},
                          {Source::folder, folder / "models"},    {Source::folder, folder / "nowhere"}};
  const std::vector<LocalModel> models = local_models(places);
  CHECK(names(models) ==
        Names{"acme_Flat_flat", "half", "short-Q8_0", "Tall-8B-F16", "Tall-8B-Q4_K_M", "Tall-8B-Q4_K_M", "wide:3b"});
  CHECK(models[0].source == Source::llama_cpp);
  CHECK_FALSE(models[1].whole);
  CHECK(models[2].origin == "maker/Repo-GGUF");
  CHECK(models[3].origin == "acme/Tall-8B-GGUF");
  CHECK(models[3].whole);
  CHECK(models[3].bytes == 7);
  CHECK(models[3].parts.size() == 2);
  CHECK(models[4].bytes == 6);
  CHECK(models[5].bytes == 5);
  CHECK(models[6].path == folder / ("ollama/blobs/sha256-" + hash));
}

TEST_CASE("a name is its beginning or a part of it, as long as that is one model's") {
  std::vector<LocalModel> models;
  const auto add = [&](const char* name, const char* origin, Source source, int64_t bytes) {
    models.push_back({name, origin, source, fmt::format("/{}/{}", origin, name), {}, bytes});
  };
  add("Qwen3-8B-Q4_K_M", "acme/Qwen3-8B-GGUF", Source::hugging_face, 5);
  add("Qwen3-8B-Q8_0", "acme/Qwen3-8B-GGUF", Source::hugging_face, 9);
  add("Qwen3-8B", "/home/me/models", Source::folder, 7);
  add("wide:latest", "registry.ollama.ai", Source::ollama, 1);
  add("twin", "a/b", Source::hugging_face, 3);
  add("twin", "/home/me/models", Source::folder, 3);
  add("other", "x/y", Source::hugging_face, 3);
  add("other", "v/w", Source::hugging_face, 4);
  const auto found = [&](const char* wanted) {
    const LocalModel* model = find_model(models, wanted);
    return model ? model->path : "";
  };
  CHECK(found("Qwen3-8B-Q8_0") == "/acme/Qwen3-8B-GGUF/Qwen3-8B-Q8_0");
  CHECK(found("qwen3-8b-q8") == "/acme/Qwen3-8B-GGUF/Qwen3-8B-Q8_0");
  CHECK(found("q8_0") == "/acme/Qwen3-8B-GGUF/Qwen3-8B-Q8_0");
  CHECK(found("acme/qwen3-8b-gguf/qwen3-8b-q4_k_m") == "/acme/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M");
  CHECK(found("Qwen3-8B") == "//home/me/models/Qwen3-8B");
  CHECK(found("wide") == "/registry.ollama.ai/wide:latest");
  CHECK(found("twin") == "/a/b/twin");
  CHECK(found("v/w/other") == "/v/w/other");
  CHECK(found("home") == "");
  CHECK(found("absent") == "");
  CHECK_THROWS_WITH_AS(find_model(models, "qwen3-8b-q"),
                       "qwen3-8b-q: ambiguous; it matches Qwen3-8B-Q4_K_M, Qwen3-8B-Q8_0", Error);
  CHECK_THROWS_WITH_AS(find_model(models, "other"), "other: ambiguous; it matches x/y/other, v/w/other", Error);
}

TEST_CASE("hostile folders cost neither time nor an error") {
  const TemporaryFolder folder;
  put(folder, "models/evil\033[2J.gguf");
  put(folder, "models/two\nlines.gguf");
  put(folder, "models/x-00001-of-99999.gguf");
  put(folder, "models/y-00000-of-00000.gguf");
  put(folder, "models/.gguf");
  put(folder, "models/good.GGUF");
  fs::create_directories(folder / "models/a.gguf");
  for (const char* link : {"up", "again", "more"})
    fs::create_directory_symlink(folder / "models", folder / ("models/" + std::string(link)));
  fs::create_symlink("nothing", folder / "models/dangling.gguf");
  put(folder, "hub/models--/snapshots/c/x.gguf");
  put(folder, "hub/models--a--b/refs/main", std::string(2 << 20, 'x'));
  const std::string outside = R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": ")";
  put(folder, "ollama/manifests/h/n/m/out", outside + R"(sha256:../../models/good.GGUF"}]})");
  put(folder, "ollama/manifests/h/n/m/deep", std::string(100000, '['));
  put(folder, "ollama/manifests/h/n/m/text", "no json");
  const Place places[] = {
      {Source::folder, folder / "models"}, {Source::hugging_face, folder / "hub"}, {Source::ollama, folder / "ollama"}};
  CHECK(names(local_models(places)) == Names{"good", "x"});
}

TEST_CASE("a manifest names one blob by its hash") {
  CHECK(model_blob(manifest(std::string(64, 'a'))) == "sha256-" + std::string(64, 'a'));
  for (const std::string& hash : {std::string(63, 'a'), std::string(64, 'A'), std::string(64, '/'), std::string()})
    CHECK_FALSE(model_blob(manifest(hash)));
  for (const char* text : {"", "[]", "{}", R"({"layers": 3})", R"({"layers": [1, {}, {"mediaType": 3}]})",
                           R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": 7}]})"})
    CHECK_FALSE(model_blob(text));
}

TEST_CASE("places follow the environment") {
  const auto cache_with = [](std::vector<std::pair<const char*, const char*>> variables) {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS"})
      ::unsetenv(name);
    ::setenv("HOME", "/home/me", 1);
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    return hugging_face_cache();
  };
  CHECK(cache_with({}) == "/home/me/.cache/huggingface/hub");
  CHECK(cache_with({{"XDG_CACHE_HOME", "/c"}}) == "/c/huggingface/hub");
  CHECK(cache_with({{"XDG_CACHE_HOME", "/c"}, {"HF_HOME", "/h"}}) == "/h/hub");
  CHECK(cache_with({{"HF_HOME", "/h"}, {"HF_HUB_CACHE", "/k"}}) == "/k");
  CHECK(cache_with({{"HOME", ""}}) == "");
  cache_with({{"OLLAMA_MODELS", "/o"}});
  const std::vector<Place> all = places();
  CHECK(std::ranges::count(all, Source::ollama, &Place::source) == 1);
  CHECK(std::ranges::count(all, "/home/me/models", &Place::folder) == 1);
}

TEST_CASE("the token is found where Hugging Face's tools keep it") {
  const TemporaryFolder folder;
  put(folder, ".cache/huggingface/token", "hf_default\n");
  put(folder, "xdg/huggingface/token", "hf_xdg");
  put(folder, "home/token", "hf_home");
  put(folder, "elsewhere/token", "hf_beside_the_cache");
  put(folder, "named", "hf_named");
  put(folder, "bad", "no token");
  const auto token_with = [&](std::vector<std::pair<const char*, std::string>> variables) {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_TOKEN",
                             "HF_TOKEN_PATH", "HF_ENDPOINT"})
      ::unsetenv(name);
    ::setenv("HOME", folder.path().c_str(), 1);
    for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
    const std::string token = pull_options().policy.token;
    for (const auto& [name, value] : variables) ::unsetenv(name);
    return token;
  };
  CHECK(token_with({}) == "hf_default");
  CHECK(token_with({{"HF_HUB_CACHE", folder / "elsewhere/hub"}}) == "hf_default");
  CHECK(token_with({{"HF_HUB_CACHE", folder / "elsewhere/hub"}, {"XDG_CACHE_HOME", folder / "xdg"}}) == "hf_xdg");
  CHECK(token_with({{"HF_HUB_CACHE", folder / "elsewhere/hub"}, {"HF_HOME", folder / "home"}}) == "hf_home");
  CHECK(token_with({{"HF_HOME", folder / "home"}, {"HF_TOKEN_PATH", folder / "named"}}) == "hf_named");
  CHECK(token_with({{"HF_TOKEN_PATH", folder / "named"}, {"HF_TOKEN", "hf_told"}}) == "hf_told");
  CHECK(token_with({{"HF_HOME", folder / "nowhere"}}) == "");
  CHECK(token_with({{"HOME", ""}}) == "");
  const std::string bad = folder / "bad";
  CHECK_THROWS_WITH_AS(token_with({{"HF_TOKEN_PATH", bad}}),
                       (bad + ": contains no valid token: unexpected characters").c_str(), Error);
}
