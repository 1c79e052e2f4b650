// LoRA adapters of requests.
#include "engine/adapters/adapters.h"

#include "support/adapters.h"
#include "support/http/endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

using namespace ridge;
using server::Json;
using tests::Endpoint;

namespace {

engine::LoadedModel open_adapted(const tests::TemporaryFolder& folder) {
  tests::TinyModel{}.write(folder / "model.gguf");
  const gguf::File file = gguf::File::open(folder / "model.gguf");
  std::mt19937_64 random(5);
  for (const char* name : {"one.gguf", "two.gguf"}) {
    tests::AdapterImage image("llama", 16);
    image.metadata.set("adapter.lora.task_name", "rhymes");
    if (name[0] == 't') image.metadata.set("adapter.alora.invocation_tokens", std::vector<int32_t>{3, 262});
    for (const gguf::Tensor& tensor : file.tensors())
      if (tensor.n_dims > 1 && tensor.name.starts_with("blk.")) image.add_pair(tensor, 4, random);
    image.write(folder / name);
  }
  engine::LoadedModel model =
      engine::with_adapters(engine::open_model(folder / "model.gguf"),
                            std::vector<api::AdapterOption>{{folder / "one.gguf", 0.5}, {folder / "two.gguf"}});
  core::ExecutorConfig config = engine::executor_config({}, model.program.trained_context);
  config.streams = config.max_outputs = 2;
  config.exact = true;
  engine::start_executor(model, config, "cpu");
  return model;
}

struct Adapted {
  tests::TemporaryFolder folder;
  Endpoint endpoint{[this] { return open_adapted(folder); }};

  std::string complete(const Json& lora, const char* route = "/v1/completions") const {
    Json body = {{"prompt", "a text that goes on"}, {"max_tokens", 10}, {"temperature", 0}, {"ignore_eos", true}};
    if (!lora.is_null()) body["lora"] = lora;
    const Json answer = endpoint.post(route, body);
    return answer.contains("content") ? answer["content"] : answer["choices"][0]["text"];
  }
  static Json scale(double of) { return Json::array({{{"id", 0}, {"scale", of}}}); }
};

} // namespace

TEST_CASE("requests name adapters and scales, and the server has scales for those that do not") {
  const Adapted adapted;
  const std::string plain = adapted.complete(Json::array()), half = adapted.complete(nullptr),
                    whole = adapted.complete(Adapted::scale(1));
  CHECK(plain != whole);
  CHECK(adapted.complete(Adapted::scale(0.5)) == half);
  CHECK(adapted.complete(Adapted::scale(1), "/completion") == whole);
  CHECK(adapted.complete(Adapted::scale(0)) == plain);

  Json list = Json::parse(adapted.endpoint.get("/lora-adapters"));
  REQUIRE(list.size() == 2);
  CHECK(list[0] ==
        Json{{"id", 0}, {"path", "one.gguf"}, {"scale", 0.5}, {"task_name", "rhymes"}, {"prompt_prefix", ""}});
  CHECK(list[1]["alora_invocation_tokens"] == Json::array({3, 262}));
  CHECK(list[1]["alora_invocation_string"].get<std::string>().starts_with("<|im_start|>"));

  const std::string body = Adapted::scale(1).dump();
  CHECK(adapted.endpoint.post_text("/lora-adapters", body, 200)["success"] == true);
  CHECK(adapted.complete(nullptr) == whole);
  CHECK(adapted.complete(Json::array()) == plain);
  list = Json::parse(adapted.endpoint.get("/lora-adapters"));
  CHECK(list[0]["scale"] == 1.0);
  CHECK(list[1]["scale"] == 0.0);
}

TEST_CASE("requests of different adapters at once have the answers that each has alone") {
  const Adapted adapted;
  std::vector<std::string> expected, answers(8);
  for (int i = 0; i < 8; ++i) expected.push_back(adapted.complete(Adapted::scale(i % 4 - 1)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] { answers[i] = adapted.complete(Adapted::scale(i % 4 - 1)); });
  for (std::thread& thread : threads) thread.join();
  CHECK(answers == expected);
}

TEST_CASE("adapters that are not there are an error") {
  const Adapted adapted;
  const auto error = [&](const Json& lora) -> std::string {
    return adapted.endpoint.post("/v1/completions", {{"prompt", "a"}, {"lora", lora}}, 400)["error"]["message"];
  };
  CHECK(error({{"id", 0}}).starts_with("lora: expected a list such as"));
  CHECK(error(Json::array({{{"id", 2}, {"scale", 1}}})).starts_with("lora[0].id"));
  CHECK(error(Json::array({{{"id", 0}}})) == "lora[0].scale is missing");
  CHECK(error(Json::array({{{"id", 0}, {"scale", 1e9}}})).starts_with("lora[0].scale"));
  CHECK(error(Json::array({{{"id", 0}, {"scale", 1}}, {{"id", 0}, {"scale", 1}}})) ==
        "lora[1].id: adapter 0 is listed twice");
  const Json refused = adapted.endpoint.post_text("/lora-adapters", "{}", 400);
  CHECK(refused["error"]["message"] == "the body is not a JSON list");

  const Endpoint guide;
  CHECK(Json::parse(guide.get("/lora-adapters")) == Json::array());
  const Json none = guide.post("/v1/completions", {{"prompt", "a"}, {"lora", Adapted::scale(1)}}, 400);
  CHECK(none["error"]["message"].get<std::string>().find("has no LoRA adapters") != std::string::npos);
}
