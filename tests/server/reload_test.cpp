// The list of a folder's models, read again.
#include "support/http/models_endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace ridge;
using server::Json;
namespace fs = std::filesystem;

namespace {

struct ChangingFolder {
  ChangingFolder() {
    write("a", 1);
    write("b", 2);
  }
  // By renaming, since loaded files are mapped.
  void write(const std::string& name, uint64_t seed) const {
    tests::TinyModel{.seed = seed}.write(folder / "new");
    fs::rename(folder / "new", folder / (name + ".gguf"));
  }
  tests::TemporaryFolder folder;
};

struct Reloading : ChangingFolder, tests::ModelsEndpoint {
  Reloading() : tests::ModelsEndpoint(folder.path(), 64, "a") {}
  std::string names(const std::string& path) const {
    std::string names;
    const Json list = get(path);
    for (const Json& model : list["data"]) names += model["id"].get<std::string>() + " ";
    return names;
  }
  std::string answer(const std::string& model) const {
    return post("/v1/completions",
                {{"model", model}, {"prompt", "x"}, {"max_tokens", 8}, {"temperature", 0}})["choices"][0]["text"];
  }
};

} // namespace

TEST_CASE("models are listed again where a request asks for it") {
  Reloading endpoint;
  const std::string before = endpoint.answer("a");
  endpoint.answer("b");
  fs::remove(endpoint.folder / "b.gguf");
  endpoint.write("a", 9);
  endpoint.write("c", 3);
  CHECK(endpoint.names("/models") == "a b ");
  CHECK(endpoint.names("/models?reload=0") == "a b ");
  CHECK(endpoint.answer("a") == before);
  CHECK(endpoint.names("/models?reload=1") == "a c ");
  CHECK(endpoint.names("/v1/models") == "a c ");
  CHECK(endpoint.answer("a") != before);
  CHECK_FALSE(endpoint.answer("c").empty());
  endpoint.post("/v1/completions", {{"model", "b"}, {"prompt", "x"}}, 404);

  endpoint.write("b", 2); // while the removed one may still go
  CHECK(endpoint.names("/v1/models?reload=1") == "a b c ");
  CHECK_FALSE(endpoint.answer("b").empty());
  for (const char* name : {"a", "b", "c"}) fs::remove(endpoint.folder / (std::string(name) + ".gguf"));
  CHECK(endpoint.get("/models?reload=1")["error"]["message"].get<std::string>().find("contains no GGUF files") !=
        std::string::npos);
  CHECK(endpoint.names("/models") == "a b c ");
}

TEST_CASE("requests of many clients are answered while models come and go") {
  Reloading endpoint;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      for (int k = 0; k < 6; ++k) CHECK_FALSE(endpoint.answer("a").empty());
    });
  for (uint64_t seed = 10; seed < 16; ++seed) {
    endpoint.write("a", seed);
    if (seed % 2)
      fs::remove(endpoint.folder / "b.gguf");
    else
      endpoint.write("b", seed);
    CHECK(endpoint.names("/models?reload=1") == (seed % 2 ? "a " : "a b "));
    if (seed % 2 == 0) endpoint.answer("b");
  }
  for (std::thread& client : clients) client.join();
}

TEST_CASE("properties without a model's name are the router's, and load nothing") {
  const Reloading endpoint;
  const Json router = endpoint.get("/props");
  CHECK(router["role"] == "router");
  CHECK(router["max_instances"] == 0);
  CHECK(router["models_autoload"] == true);
  CHECK(router["build_info"].get<std::string>().starts_with("b"));
  CHECK(endpoint.get("/props?model=a&autoload=false")["error"]["message"] == "the model a is not loaded");
  CHECK(endpoint.get("/v1/models")["data"][0]["status"]["value"] == "unloaded");
  CHECK(endpoint.get("/props?model=a")["role"] == "model");
  CHECK(endpoint.get("/props?model=a&autoload=false")["total_slots"] == 4);
  CHECK(endpoint.get("/props?model=z")["error"]["message"].get<std::string>().find("z") != std::string::npos);
}

TEST_CASE("a subfolder with the files of one model is a model of its name") {
  const ChangingFolder files;
  const auto put = [&](const char* from, const std::string& to) {
    fs::create_directories((fs::path(files.folder.path()) / to).parent_path());
    fs::copy_file(files.folder / from, files.folder / to);
  };
  put("a.gguf", "gemma/model-Q8_0.gguf");
  put("b.gguf", "gemma/mmproj-F16.gguf");
  put("a.gguf", "split/x-00001-of-00002.gguf");
  put("b.gguf", "split/x-00002-of-00002.gguf");
  put("a.gguf", "kinds/small.gguf");
  put("a.gguf", "kinds/large.gguf");
  put("a.gguf", ".hidden/c.gguf");
  fs::create_directories(files.folder / "empty/deeper");
  std::string found;
  for (const server::ModelFile& file :
       server::model_files(files.folder.path(), [](const std::string& name) { return !name.starts_with("mmproj"); }))
    found += file.name + "=" + fs::relative(file.path, files.folder.path()).string() + " ";
  CHECK(found == "a=a.gguf b=b.gguf gemma=gemma/model-Q8_0.gguf large=kinds/large.gguf small=kinds/small.gguf "
                 "split=split/x-00001-of-00002.gguf ");
}
