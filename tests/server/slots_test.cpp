// llama.cpp-style slots.
#include "engine/loading/model_key.h"
#include "support/http/endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/watchdog.h"

#include <filesystem>
#include <fstream>

using namespace ridge;
using server::Json;
using tests::Endpoint;

namespace {

const char* const kPrompt = "Saved slots are found again by whoever asks for a prompt that begins like what they hold.";

struct Slots {
  explicit Slots(const std::string& folder) : endpoint(2) { endpoint.service.save_slots(folder, "the guide"); }

  Json act(int slot, const char* action, const Json& body = Json::object(), int status = 200) const {
    return endpoint.post(fmt::format("/slots/{}?action={}", slot, action), body, status);
  }
  Json complete() const {
    return endpoint.post("/completion", {{"prompt", kPrompt}, {"n_predict", 4}, {"temperature", 0}});
  }

  Endpoint endpoint;
};

} // namespace

TEST_CASE("a slot is saved, erased and restored, also by a later server") {
  const tests::TemporaryFolder folder;
  Json first;
  int64_t tokens = 0;
  {
    const Slots slots(folder.path());
    first = slots.complete();
    CHECK(first["timings"]["cache_n"] == 0);
    const int slot = first["id_slot"];
    const Json saved = slots.act(slot, "save", {{"filename", "one.bin"}});
    tokens = saved["n_saved"];
    CHECK(tokens >= first["tokens_evaluated"].get<int64_t>());
    CHECK(saved["n_written"].get<int64_t>() > 0);
    CHECK(saved["filename"] == "one.bin");
    CHECK(slots.act(slot, "erase")["n_erased"] == tokens);
    const Json fresh = slots.complete();
    CHECK(fresh["timings"]["cache_n"] == 0);
    slots.act(fresh["id_slot"], "save", {{"filename", "one.bin"}});
  }
  const Slots slots(folder.path());
  const Json restored = slots.act(1, "restore", {{"filename", "one.bin"}});
  CHECK(restored["n_restored"] == tokens);
  CHECK(restored["n_read"].get<int64_t>() > 0);
  const Json again = slots.complete();
  CHECK(again["content"] == first["content"]);
  CHECK(again["id_slot"] == 1);
  CHECK(again["timings"]["prompt_n"] == 1); // the token that gives logits
}

TEST_CASE("a request goes to the slot that it names, and a slot of few tokens can be saved") {
  const tests::TemporaryFolder folder;
  const Slots slots(folder.path());
  const auto on = [&](int slot, const char* prompt) {
    return slots.endpoint.post("/completion",
                               {{"prompt", prompt}, {"n_predict", 2}, {"temperature", 0}, {"id_slot", slot}});
  };
  CHECK(on(1, kPrompt)["id_slot"] == 1);
  CHECK(on(0, kPrompt)["id_slot"] == 0);
  CHECK(on(3, kPrompt)["id_slot"] == 1); // as llama.cpp counts
  CHECK(on(1, kPrompt)["timings"]["prompt_n"] == 1);
  CHECK(slots.complete()["timings"]["prompt_n"] == 1); // any of the two
  slots.act(0, "erase");
  CHECK(slots.act(0, "save", {{"filename", "empty"}})["n_saved"] == 0);
  CHECK(slots.act(1, "restore", {{"filename", "empty"}})["n_restored"] == 0);
  const Json short_text = on(1, "Hi");
  CHECK(slots.act(1, "save", {{"filename", "short"}})["n_saved"] == short_text["tokens_cached"]);
  slots.act(0, "restore", {{"filename", "short"}});
  CHECK(on(0, "Hi")["content"] == short_text["content"]);
  const Json row = Json::parse(slots.endpoint.get("/slots"))[0];
  CHECK(row["is_processing"] == false);
  CHECK_FALSE(row.contains("params"));
  CHECK(Json::parse(slots.endpoint.get("/slots?fail_on_no_slot=1")).size() == 2); // both are free
}

TEST_CASE("a slot that works says what it has read and written") {
  const Endpoint endpoint(2);
  tests::Socket stream(endpoint.server.port());
  const Json body = {{"prompt", kPrompt}, {"n_predict", 1'000'000}, {"ignore_eos", true}, {"stream", true}};
  REQUIRE(stream.request("POST /completion", body.dump()));
  Json busy;
  CHECK(tests::eventually("a slot to write", [&] {
    for (const Json& slot : Json::parse(endpoint.get("/slots")))
      if (slot.contains("next_token") && slot["next_token"][0]["n_decoded"].get<int>() > 0) busy = slot;
    return !busy.is_null();
  }));
  CHECK(busy["is_processing"] == true);
  CHECK(busy["id_task"].get<int>() >= 0);
  CHECK(busy["n_prompt_tokens"].get<int>() >= busy["n_prompt_tokens_processed"].get<int>());
  CHECK(busy["n_prompt_tokens_processed"].get<int>() > 10);
  CHECK(busy["n_prompt_tokens_cache"] == 0);
  stream.abort();
}

TEST_CASE("slots that cannot be saved or restored are refused, and nothing leaves the folder") {
  const tests::TemporaryFolder folder;
  const Slots slots(folder.path());
  const auto error = [&](int slot, const char* action, const Json& body = Json::object()) -> std::string {
    return slots.act(slot, action, body, 400)["error"]["message"];
  };
  for (const char* name : {"../x", "a/b", ".hidden", "", "..", "a\\b", "a b"}) {
    CAPTURE(name);
    CHECK(error(0, "save", {{"filename", name}}).starts_with("filename: expected"));
  }
  CHECK(error(0, "save") == "filename is missing");
  CHECK(error(2, "erase").starts_with("id_slot: expected a number from 0 to 1"));
  CHECK(error(0, "frobnicate").starts_with("action: expected"));
  CHECK(error(0, "restore", {{"filename", "absent"}}) == "no slot is saved as absent");

  const Json answer = slots.complete();
  const int slot = answer["id_slot"];
  std::filesystem::create_directory(folder / "mine");
  CHECK(error(slot, "save", {{"filename", "mine"}}).find("is not a saved slot") != std::string::npos);
  slots.act(slot, "save", {{"filename", "good"}});
  for (const auto& entry : std::filesystem::directory_iterator(folder / "good"))
    if (entry.path().filename() != "tokens.json") std::ofstream(entry.path(), std::ios::trunc) << "damaged";
  CHECK(error(slot, "restore", {{"filename", "good"}}).find("cannot be restored") != std::string::npos);
  std::ofstream(folder / "good/tokens.json") << "[1, -5]";
  CHECK(error(slot, "restore", {{"filename", "good"}}).find("expected a list of tokens") != std::string::npos);
  CHECK(slots.complete()["content"] == answer["content"]);

  const Endpoint without(1);
  CHECK(without.post("/slots/0?action=save", {{"filename", "x"}}, 501)["error"]["message"].get<std::string>().find(
            "--slot-save-path") != std::string::npos);
}
