// First use: the chat pulls a model from a local hub and answers.
#include "app/models/first_models.h"
#include "app/support.h"
#include "core/json/parse.h"
#include "hub/reference.h"
#include "support/http/fake_hub.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

using namespace ridge;
using namespace ridge::tests;

namespace {

struct NewUser {
  TemporaryFolder folder;
  FakeHub hub;

  std::vector<std::string> command(const std::vector<std::string>& args) const {
    std::vector<std::string> all = {"env",
                                    "-i",
                                    "HOME=" + folder.path(),
                                    "HF_ENDPOINT=" + hub.hub.address(),
                                    "TERM=xterm",
                                    "LC_ALL=C.UTF-8",
                                    "NO_COLOR=1",
                                    "PATH=/usr/bin:/bin",
                                    RIDGE_BINARY};
    all.insert(all.end(), args.begin(), args.end());
    return all;
  }
  Result ridge(const std::vector<std::string>& args) const { return run(command(args)); }
};

void ask_a_question(Terminal& terminal) {
  REQUIRE(terminal.expect("/help for commands"));
  REQUIRE(terminal.expect("> "));
  terminal.type("hello\r");
  CHECK(terminal.expect("· context "));
  REQUIRE(terminal.expect("> "));
  terminal.type("\x04");
  CHECK(terminal.exit_status() == 0);
}

// Number before a name.
std::string number_of(const std::string& screen, const std::string& name) {
  const size_t at = screen.find(" " + name);
  REQUIRE(at != std::string::npos);
  const size_t line = screen.rfind('\n', at) + 1, digit = screen.find_first_not_of(" \r", line);
  return screen.substr(digit, screen.find(' ', digit) - digit);
}

} // namespace

TEST_CASE("models to begin with: each is a reference, and six at most are offered, with the best that is quick") {
  std::set<std::string_view> names;
  int64_t last = 0;
  for (const app::FirstModel& model : app::first_models()) {
    CHECK(hub::parse_reference(model.reference).has_value());
    CHECK(names.insert(model.name).second);
    CHECK(model.bytes >= last);
    CHECK(model.token_bytes <= model.bytes);
    last = model.bytes;
  }
  engine::Room room;
  CHECK(app::first_choice(room).models.empty());
  room.cpu = 1e9;
  app::FirstChoice choice = app::first_choice(room);
  REQUIRE(choice.models.size() == 1);
  CHECK(choice.models[0]->name == "Gemma 3 270M");
  room.cpu = 14e9; // a laptop
  choice = app::first_choice(room);
  CHECK(choice.models.size() == 6);
  CHECK(choice.models[choice.best]->name == "Qwen3-VL 4B");
  CHECK(choice.models.back()->name == "gpt-oss 20B");
  room.gpu = 24e9;
  choice = app::first_choice(room);
  CHECK(choice.models.size() == 6);
  CHECK(choice.models[0]->name == "Gemma 3 270M");
  CHECK(choice.models[choice.best]->name == "Qwen3 8B");
  CHECK(choice.models.back()->name == "Qwen3 32B");
  CHECK(app::runs_on(10'000'000'000, room) == app::RunsOn::gpu);
  CHECK(app::runs_on(30'000'000'000, room) == app::RunsOn::gpu_and_cpu);
  CHECK(app::runs_on(60'000'000'000, room) == app::RunsOn::nothing);
  room.gpus = {24e9, 24e9};
  CHECK(app::runs_on(30'000'000'000, room) == app::RunsOn::gpu);
}

TEST_CASE("ridge alone offers models, pulls the chosen one and chats with it, and the next time it is there") {
  NewUser user;
  user.hub.repository = "ggml-org/gemma-3-270m-it-GGUF";
  user.hub.files = {{"gemma-3-270m-it-Q8_0.gguf", read_file(tiny_model())}};
  {
    Terminal terminal(user.command({}), {}, 160);
    REQUIRE(terminal.expect("Models that fit this machine"));
    REQUIRE(terminal.expect("Ctrl-D quits): "));
    terminal.type("99\r");
    CHECK(terminal.expect("the list has no number 99"));
    REQUIRE(terminal.expect("Ctrl-D quits): "));
    terminal.type(number_of(terminal.seen(), "Gemma 3 270M") + "\r");
    CHECK(terminal.expect("hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0: gemma-3-270m-it-Q8_0, "));
    ask_a_question(terminal);
  }
  user.hub.hub.clear();
  Terminal terminal(user.command({}), {}, 160);
  REQUIRE(terminal.expect("Models on this machine:"));
  REQUIRE(terminal.expect("gemma-3-270m-it-Q8_0"));
  REQUIRE(terminal.expect("(Enter: 1; Ctrl-D quits): "));
  terminal.type("\r");
  ask_a_question(terminal);
  CHECK(user.hub.hub.requests().empty());
}

TEST_CASE("words search the hub, and a number with a type pulls what was found") {
  NewUser user;
  user.hub.files = {{"Tall-Q4_K_M.gguf", read_file(tiny_model())}, {"Tall-Q8_0.gguf", read_file(tiny_model())}};
  for (const std::vector<std::string>& begin : {std::vector<std::string>{"pull"}, {"search", "tall", "model"}}) {
    Terminal terminal(user.command(begin), {}, 160);
    REQUIRE(terminal.expect("Ctrl-D quits): "));
    if (begin.size() == 1) terminal.type("tall model\r");
    REQUIRE((terminal.seen().find("hf:acme/Tall-GGUF, 1.2 million downloads") != std::string::npos ||
             terminal.expect("hf:acme/Tall-GGUF, 1.2 million downloads")));
    if (begin.size() == 1) REQUIRE(terminal.expect("Ctrl-D quits): "));
    CHECK(terminal.seen().find("*Q4_K_M ") != std::string::npos);
    terminal.type("1:Q9\r");
    CHECK(terminal.expect("1 has no Q9"));
    terminal.type("1:q8_0\r");
    ask_a_question(terminal);
  }
  CHECK(user.ridge({"models"}).out.find("Tall-Q8_0") != std::string::npos);
  CHECK(user.ridge({"models"}).out.find("Tall-Q4_K_M") == std::string::npos);
}

TEST_CASE("`guide` and Ctrl-D need no hub") {
  NewUser user;
  Terminal terminal(user.command({}), {}, 100);
  REQUIRE(terminal.expect("Ctrl-D quits): "));
  terminal.type("guide\r");
  REQUIRE(terminal.expect("/help for commands"));
  REQUIRE(terminal.expect("> "));
  terminal.type("\x04");
  CHECK(terminal.exit_status() == 0);
  Terminal leaves(user.command({"pull"}), {}, 100);
  REQUIRE(leaves.expect("Ctrl-D quits): "));
  leaves.type("\x04");
  CHECK(leaves.exit_status() == 0);
  CHECK(user.hub.hub.requests().empty());
}

TEST_CASE("of several models of the usual type the one with the shorter name is taken") {
  NewUser user;
  user.hub.files = {{"Tall-Q4_K_M.gguf", std::string(1000, 'x')},
                    {"Tall-long-Q4_K_M.gguf", std::string(900, 'x')},
                    {"Tall-long-Q8_0.gguf", std::string(1900, 'x')}};
  CHECK(user.ridge({"search", "tall"}).out.find("fits: Q4_K_M 900 B, *Q4_K_M 1.00 kB, Q8_0 1.90 kB") !=
        std::string::npos);
}

TEST_CASE("a pipe gets plain lists and no question") {
  NewUser user;
  user.hub.files = {{"Tall-Q4_K_M.gguf", std::string(1000, 'x')}, {"Tall-Q8_0.gguf", std::string(2000, 'x')}};
  const Result first = user.ridge({"pull"});
  CHECK(first.status == 0);
  CHECK(first.out.find("hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0") != std::string::npos);
  CHECK(first.out.find("Ctrl-D") == std::string::npos);
  CHECK(user.hub.hub.requests().empty());

  const Result found = user.ridge({"search", "tall"});
  CHECK(found.status == 0);
  CHECK(found.out == "hf:acme/Tall-GGUF, 1.2 million downloads\n  fits: *Q4_K_M 1.00 kB, Q8_0 2.00 kB\n");
  const auto json = core::parse_json<nlohmann::json>(user.ridge({"search", "tall", "--json"}).out, "search");
  CHECK(json["found"][0]["repository"].get<std::string>() == "acme/Tall-GGUF");
  CHECK(json["found"][0]["models"][1]["size_bytes"] == 2000);
  CHECK(json["found"][0]["models"][1]["model"].get<std::string>() == "hf:acme/Tall-GGUF:Q8_0");

  CHECK(user.ridge({}).out.find("Use models") != std::string::npos);
  const Result word = user.ridge({"pull", "tall"});
  CHECK(word.status == 2);
  CHECK(word.err.find("`ridge search tall`") != std::string::npos);
}
