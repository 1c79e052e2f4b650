// Ranks as processes.
#include "app/support.h"
#include "support/http/socket.h"
#include "support/numerics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

int first_of_two_ports() { return free_port() - 1; } // ranks connect to the second one

Result run_rank(int rank, int ranks, int port, std::vector<std::string> args, const std::string& patience = "900") {
  std::vector<std::string> all = {"env",
                                  "RANK=" + std::to_string(rank),
                                  "WORLD_SIZE=" + std::to_string(ranks),
                                  "MASTER_PORT=" + std::to_string(port),
                                  "RIDGE_RANK_TIMEOUT=" + patience,
                                  "XDG_CACHE_HOME=" + folder().path(),
                                  RIDGE_BINARY};
  all.insert(all.end(), args.begin(), args.end());
  return run(all);
}

std::vector<Result> run_two(const std::vector<std::string>& args) {
  const int port = first_of_two_ports();
  std::vector<Result> results(2);
  std::thread thread([&] { results[1] = run_rank(1, 2, port, args); });
  results[0] = run_rank(0, 2, port, args);
  thread.join();
  return results;
}

std::vector<std::string> logits_to(const std::string& out) {
  return {"logits", "-m", tiny_model(), "--device", "cpu", "--exact", "--ids", "1,2,3,4,5", "-ub", "3", "--out", out};
}

} // namespace

TEST_CASE("three processes that are ranks of one model give the logits of one, and only the first writes") {
  const std::string one = folder() / "one.npy", shared = folder() / "shared.npy", other = folder() / "other.npy";
  REQUIRE(run_ridge(logits_to(one)).status == 0);
  const int port = first_of_two_ports();
  std::vector<Result> others(2);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < 3; ++rank)
    threads.emplace_back([&, rank] { others[rank - 1] = run_rank(rank, 3, port, logits_to(other)); });
  {
    Socket stranger(port + 1); // before or during the wait
    if (stranger.is_open()) stranger.send("GET / HTTP/1.1\r\n\r\n");
  }
  std::thread calling([port] { // a partial handshake and silence
    while (true) {
      Socket begins(port + 1), silent(port + 1);
      if (!begins.is_open() || !silent.is_open()) continue;
      begins.send("rdg3" + std::string(96, 'x'));
      begins.rest();
      return;
    }
  });
  const Result first = run_rank(0, 3, port, logits_to(shared));
  calling.join();
  for (std::thread& thread : threads) thread.join();
  REQUIRE_MESSAGE(first.status == 0, first.err);
  CHECK(nmse(floats_of_npy(shared), floats_of_npy(one)) < 1e-10);
  for (const Result& result : others) {
    CHECK(result.status == 0);
    CHECK(result.out.empty());
  }
  CHECK(!std::filesystem::exists(other));
}

TEST_CASE("ranks of several hosts are stages of a pipeline, and give the same logits and texts") {
  const std::string one = folder() / "alone.npy", shared = folder() / "stages.npy";
  REQUIRE(run_ridge(logits_to(one)).status == 0);
  const std::vector<std::string> text = {"run", "-m",     tiny_model(),   "-p",       "on",
                                         "-n",  "12",     "-t",           "1",        "--seed",
                                         "3",   "--json", "--ignore-eos", "--device", "cpu"};
  const auto run_two_hosts = [](const std::vector<std::string>& args) {
    const int port = first_of_two_ports();
    std::vector<Result> results(2);
    const auto run_host = [&](int rank) {
      std::vector<std::string> all = {"env",
                                      "RIDGE_HOST_ID=host " + std::to_string(rank),
                                      "RANK=" + std::to_string(rank),
                                      "WORLD_SIZE=2",
                                      "MASTER_PORT=" + std::to_string(port),
                                      "RIDGE_RANK_TIMEOUT=900",
                                      "XDG_CACHE_HOME=" + folder().path(),
                                      RIDGE_BINARY};
      all.insert(all.end(), args.begin(), args.end());
      results[rank] = run(all);
    };
    std::thread other([&] { run_host(1); });
    run_host(0);
    other.join();
    return results;
  };
  const std::vector<Result> logits = run_two_hosts(logits_to(shared));
  REQUIRE_MESSAGE(logits[0].status == 0, logits[0].err);
  CHECK(logits[1].status == 0);
  CHECK(logits[0].err.find("2 hosts are stages of a pipeline") != std::string::npos);
  CHECK(floats_of_npy(shared) == floats_of_npy(one));
  const std::vector<Result> texts = run_two_hosts(text);
  REQUIRE_MESSAGE(texts[0].status == 0, texts[0].err);
  CHECK(json::parse(texts[0].out)["content"] == json::parse(run_ridge(text).out)["content"]);
}

TEST_CASE("ranks that do not come, or run something else, are named") {
  const std::string out = folder() / "never.npy";
  const Result alone = run_rank(0, 3, first_of_two_ports(), logits_to(out), "1");
  CHECK(alone.status == 1);
  CHECK(alone.err == "ridge: error: rank 1, 2 of 3 did not come within 1 s (RIDGE_RANK_TIMEOUT)\n");

  const int port = first_of_two_ports();
  const Result unanswered = run_rank(1, 2, port, logits_to(out), "1");
  CHECK(unanswered.status == 1);
  CHECK(unanswered.err.find("rank 1: rank 0 does not answer at 127.0.0.1 port") != std::string::npos);

  Result second;
  std::thread thread([&] {
    std::vector<std::string> args = logits_to(out);
    args.insert(args.end(), {"-c", "77"});
    second = run_rank(1, 2, port, args);
  });
  const Result first = run_rank(0, 2, port, logits_to(out));
  thread.join();
  CHECK(first.status == 1);
  CHECK(first.err.find("rank 1 runs ridge") != std::string::npos);
  CHECK(second.status == 1);
  CHECK(second.err.find("-c 77") != std::string::npos);

  const Result confused = run_rank(5, 3, port, logits_to(out));
  CHECK(confused.status == 2);
  CHECK(confused.err == "ridge: error: RANK=5: expected a number from 0 to 2\n");
}

TEST_CASE("commands that several processes cannot share are refused by every one of them at once") {
  const std::string text = folder().write("ranks.txt", std::string(200, 'x')), out = folder() / "never.gguf";
  const std::vector<std::vector<std::string>> commands = {
      {"imatrix", "-m", tiny_model(), "-f", text, "-o", out, "-c", "32", "--device", "cpu"},
      {"serve", "-m", tiny_model(), "-m", tiny_model(), "--port", "0", "--device", "cpu"},
      {"serve", "--models-dir", folder() / "", "--port", "0", "--device", "cpu"}};
  for (const std::vector<std::string>& command : commands)
    for (int rank = 0; rank < 2; ++rank) {
      const Result result = run_rank(rank, 2, first_of_two_ports(), command);
      CAPTURE(result.err);
      CHECK(result.status == 2);
      CHECK(result.out.empty());
      CHECK(result.err.starts_with("ridge: error: " + command[0] + ": is one of 2 processes, and "));
      CHECK(result.err.find("start it by itself, without torchrun, mpirun or srun") != std::string::npos);
      CHECK(std::ranges::count(result.err, '\n') == 1);
    }
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("a second model beside the one that processes share runs in the first of them") {
  TinyModel other;
  other.seed = 9;
  const std::string draft = folder() / "ranks-draft.gguf", text = folder().write("second.txt", std::string(300, 'y'));
  other.write(draft);
  const std::vector<std::string> drafted = {"run", "-m",       tiny_model(), "-md",    draft,         "-p",
                                            "on",  "-n",       "12",         "--temp", "0",           "-t",
                                            "1",   "--device", "cpu",        "--json", "--ignore-eos"};
  const std::vector<std::string> against = {"perplexity", "-m", tiny_model(), "--against", draft, "-f",    text,
                                            "-c",         "64", "--exact",    "--device",  "cpu", "--json"};
  for (const std::vector<std::string>& command : {drafted, against}) {
    const Result alone = run_ridge(command);
    const std::vector<Result> two = run_two(command);
    REQUIRE_MESSAGE(two[0].status == 0, two[0].err);
    CHECK(two[1].status == 0);
    CHECK(two[1].out.empty());
    const json shared = json::parse(two[0].out), one = json::parse(alone.out);
    if (command[0] == "run") {
      CHECK(shared["content"] == one["content"]);
      CHECK(shared["speculation"]["guessed_tokens"] > 0);
      continue;
    }
    const double found = shared["divergence"]["kld_mean_nats"], expected = one["divergence"]["kld_mean_nats"];
    CHECK(found == doctest::Approx(expected).epsilon(1e-4));
    CHECK(found > 0.01);
  }
}

TEST_CASE("several processes refuse to measure several settings or models, before the first") {
  const std::vector<std::string> one = {"bench", "-m", tiny_model(), "-p",       "8",  "-n",
                                        "0",     "-r", "1",          "--device", "cpu"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{"-t", "1,2"}, {"-m", tiny_model()}}) {
    std::vector<std::string> command = one;
    command.insert(command.end(), more.begin(), more.end());
    for (const Result& result : run_two(command)) {
      CHECK(result.status == 2);
      CHECK(result.out.empty());
      CHECK(result.err.find("they share out one model, with one setting, not several") != std::string::npos);
    }
  }
}

TEST_CASE("ranks of several hosts need a secret, and ranks without the same one do not run") {
  const std::string out = folder() / "never.npy";
  const auto with = [](std::vector<std::string> variables, int rank, int port) {
    std::vector<std::string> args = {"env", "RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                     "MASTER_PORT=" + std::to_string(port), "RIDGE_RANK_TIMEOUT=1"};
    args.insert(args.end(), variables.begin(), variables.end());
    args.push_back(RIDGE_BINARY);
    for (std::string& arg : logits_to(folder() / "never.npy")) args.push_back(std::move(arg));
    return run(args);
  };
  for (int rank = 0; rank < 2; ++rank) {
    const Result missing = with({"MASTER_ADDR=192.0.2.1"}, rank, first_of_two_ports());
    CHECK(missing.status == 2);
    CHECK(missing.err.find("ranks of several hosts have to know a secret") != std::string::npos);
    CHECK(missing.err.find("RIDGE_RANK_SECRET_FILE") != std::string::npos);
  }
  const int port = first_of_two_ports();
  Result second;
  std::thread thread([&] { second = with({"RIDGE_RANK_SECRET=another-secret-here"}, 1, port); });
  const Result first = with({"RIDGE_RANK_SECRET=some-secret-of-16"}, 0, port);
  thread.join();
  CHECK(first.status == 1);
  CHECK(first.err.find("rank 1 of 2 did not come within 1 s") != std::string::npos);
  CHECK(second.status == 1);
  CHECK(second.err.find("ridge: error: rank 1: ") != std::string::npos);
  CHECK(!std::filesystem::exists(out));
}
