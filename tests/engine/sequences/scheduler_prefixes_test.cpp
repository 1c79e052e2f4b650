// Tokens depend on all earlier ones, so that wrong rows change the answer. Tiny models must answer the same without the
// cache.
#include "core/error.h"
#include "engine/sequences/session.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/history_executor.h"
#include "support/numerics.h"
#include "support/recipes/prefix_runs.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

using namespace ridge;
using engine::PrefixSettings;
using engine::Scheduler;
using engine::Sequence;
using tests::History;

namespace {

namespace fs = std::filesystem;
using namespace tests::prefixes;

constexpr int32_t kPromptVocab = 101;

// The cost of going back: none, a state copy, or a copy from beyond a window's cache.
struct Kind {
  bool recurrent = false;
  int64_t rewind_tokens = 0;
  bool needs_copies() const { return recurrent || rewind_tokens > 0; }
};
constexpr Kind kKinds[] = {{}, {.recurrent = true}, {.rewind_tokens = 8}};

History::Settings history_of(const Kind& kind, int64_t streams, int64_t context) {
  return {.streams = streams, .context = context, .recurrent = kind.recurrent, .rewind_tokens = kind.rewind_tokens};
}

Tokens expected(const Tokens& prompt, int64_t limit = 4) {
  uint64_t state = 0;
  for (const int32_t token : prompt) state = History::after(state, token);
  Tokens answer;
  for (; limit > 0; --limit) {
    answer.push_back(History::next_of(state, kPromptVocab));
    state = History::after(state, answer.back());
  }
  return answer;
}

// Returns the cached prompt tokens.
int64_t cached(Scheduler& scheduler, const Tokens& prompt) {
  const auto sequence = submit(scheduler, prompt);
  CHECK(rest(*sequence) == expected(prompt));
  CHECK(sequence->prompt_usage().tokens == std::ssize(prompt) - sequence->cached_tokens());
  return sequence->cached_tokens();
}

PrefixSettings settings_of(int64_t bytes, const std::string& folder = "", std::vector<std::string>* lines = nullptr) {
  return {bytes, folder, 1 << 20, "a model", [lines](const std::string& line) {
            if (lines) lines->push_back(line);
          }};
}

} // namespace

TEST_CASE("prefix cache: what a stream lost to other prompts comes back, up to where a prompt differs") {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.recurrent);
    CAPTURE(kind.rewind_tokens);
    History executor(history_of(kind, 1, 256));
    Scheduler scheduler(executor, executor.program, nullptr, settings_of(1 << 20));
    CHECK(scheduler.keeps_prefixes());
    const Tokens first = some_tokens(1, 90), other = some_tokens(2, 70);
    CHECK(cached(scheduler, first) == 0);
    CHECK(cached(scheduler, other) == 0);
    const Tokens next = joined(joined(first, expected(first)), {1, 2, 3});
    CHECK(cached(scheduler, next) == 93); // last token not evaluated
    CHECK(cached(scheduler, other) == 69);
    CHECK(cached(scheduler, next) == 93); // too few to keep
    Tokens edited = next;
    edited[50] ^= 1;
    CHECK(cached(scheduler, edited) == (kind.needs_copies() ? 0 : 50)); // copies where prompts diverge
    edited[55] ^= 1;
    CHECK(cached(scheduler, edited) == (kind.needs_copies() ? 50 : 55));
    const Scheduler::Counts counts = scheduler.counts();
    CHECK(counts.stored_tokens >= 93 + 69);
    CHECK(counts.disk_tokens == 0);
    CHECK(counts.stored_bytes > 0);
  }
}

TEST_CASE("prefix cache: a long text is not copied because a few tokens at its end change, half of it is") {
  History executor(history_of({}, 1, 256));
  Scheduler scheduler(executor, executor.program, nullptr, settings_of(1 << 20));
  const Tokens text = some_tokens(1, 200);
  CHECK(cached(scheduler, text) == 0);
  CHECK(cached(scheduler, joined(text, {1, 2, 3})) == 200);
  CHECK(scheduler.counts().stored_bytes == 0);
  Tokens edited = text;
  edited[100] ^= 1;
  CHECK(cached(scheduler, edited) == 100);
  CHECK(scheduler.counts().stored_bytes > 0);
  CHECK(cached(scheduler, joined(text, {1, 2, 3})) == 202);
}

TEST_CASE("prefix cache: memory is got ahead for what streams hold, as far as there is room") {
  const auto expects = [](int64_t bytes, std::initializer_list<int64_t> prompts, int64_t blocks) {
    History executor({.streams = 2, .context = 256});
    Scheduler scheduler(executor, executor.program, nullptr, settings_of(bytes));
    for (const int64_t tokens : prompts) cached(scheduler, some_tokens(static_cast<uint64_t>(tokens), tokens));
    CHECK(tests::eventually([&] { return executor.blocks_expected == blocks; }));
  };
  expects(1 << 20, {90}, 3);
  expects(1 << 20, {90, 120}, 7);
  expects(1 << 20, {90, 120, 60}, 6); // 93 of these tokens were evicted
  expects(2 * 256, {90}, 2);
  expects(4 * 256, {90, 120, 60}, 1); // 3 blocks hold evicted tokens
}

TEST_CASE("prefix cache: conversations of many clients over few streams evaluate nothing twice") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const Kind& kind : kKinds)
    for (const bool decodes : {false, true})
      for (const int64_t bytes : {int64_t{1} << 30, int64_t{6000}}) {
        CAPTURE(kind.recurrent);
        CAPTURE(kind.rewind_tokens);
        CAPTURE(bytes);
        History::Settings settings = history_of(kind, 2, 512);
        settings.decodes = decodes;
        History executor(settings);
        Scheduler scheduler(executor, executor.program, nullptr, settings_of(bytes));
        const Tokens system = some_tokens(seed, 60);
        std::atomic<int> wrong = 0;
        std::barrier turns(6); // else one client after the other may finish, and none comes back to a stream of others
        std::vector<std::thread> clients;
        for (uint64_t client = 0; client < 6; ++client)
          clients.emplace_back([&, client] {
            Tokens conversation = system;
            for (uint64_t turn = 0; turn < 8; ++turn) {
              turns.arrive_and_wait();
              conversation = joined(conversation, some_tokens(seed + client * 100 + turn, 20));
              const Tokens answer = rest(*submit(scheduler, conversation));
              if (answer != expected(conversation)) ++wrong;
              conversation = joined(conversation, answer);
            }
          });
        for (std::thread& client : clients) client.join();
        CHECK(wrong == 0);
        const Scheduler::Counts counts = scheduler.counts();
        CHECK(counts.stored_bytes <= bytes);
        const int64_t once = 60 + 6 * 8 * (20 + 4 + 1);
        if (bytes > 6000 && !kind.needs_copies()) CHECK(counts.prompt_tokens - counts.cached_tokens <= once);
        if (bytes > 6000) CHECK(counts.stored_tokens > 0);
      }
}

TEST_CASE("prefix cache: several answers to one prompt evaluate it once, with recurrent state and windows, too") {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.recurrent);
    CAPTURE(kind.rewind_tokens);
    History executor(history_of(kind, 4, 256));
    Scheduler scheduler(executor, executor.program);
    const Tokens prompt = some_tokens(3, 150);
    std::vector<std::shared_ptr<Sequence>> answers;
    for (int i = 0; i < 4; ++i) answers.push_back(submit(scheduler, prompt));
    for (const auto& answer : answers) CHECK(rest(*answer) == expected(prompt));
    CHECK(executor.evaluated <= 150 + 3 + 4 * 4);
  }
}

TEST_CASE("prefix cache: files bring prompts to the next scheduler, and what is wrong with them is said") {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.recurrent);
    CAPTURE(kind.rewind_tokens);
    const tests::TemporaryFolder folder;
    const Tokens first = some_tokens(1, 100), second = joined(first, some_tokens(2, 60)),
                 other = joined({first[0], first[1]}, some_tokens(3, 68)); // too short a prefix
    const History::Settings history = history_of(kind, 1, 256);
    {
      History executor(history);
      Scheduler scheduler(executor, executor.program, nullptr, settings_of(1 << 20, folder.path()));
      for (const Tokens& prompt : {first, other, second}) cached(scheduler, prompt);
      scheduler.drain();
      CHECK(folder.file_count() >= 3);
    }
    std::vector<std::string> lines;
    const auto again = [&](const Tokens& prompt, PrefixSettings settings) {
      History executor(history);
      Scheduler scheduler(executor, executor.program, nullptr, settings);
      const int64_t found = cached(scheduler, prompt);
      CHECK(scheduler.counts().disk_tokens == found);
      return found;
    };
    CHECK(again(second, settings_of(1 << 20, folder.path(), &lines)) == 159);
    CHECK(again(other, settings_of(1 << 20, folder.path(), &lines)) == 69);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder.path())) files.push_back(entry.path());
    PrefixSettings another = settings_of(1 << 20, folder.path(), &lines);
    another.model = "another model";
    CHECK(again(other, another) == 0);
    CHECK(lines.empty());

    // Damaged files are ignored.
    std::mt19937_64 random(7);
    for (int round = 0; round < 60; ++round) {
      const tests::TemporaryFolder damaged;
      for (const fs::path& file : files) {
        std::ifstream in(file, std::ios::binary);
        std::string bytes(std::istreambuf_iterator<char>(in), {});
        if (round % 3 == 0)
          bytes.resize(random() % bytes.size());
        else
          bytes[round % 3 == 1 ? random() % 200 : random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
        damaged.write(file.filename().string(), bytes);
      }
      lines.clear();
      CHECK(again(second, settings_of(1 << 20, damaged.path(), &lines)) == 0);
      CHECK(!lines.empty());
    }
  }
}

TEST_CASE("prefix cache: answers of a model in several processes outlast the loss of one") {
  for (const bool keeps : {true, false}) {
    CAPTURE(keeps);
    const tests::TemporaryFolder folder;
    PrefixSettings settings = settings_of(1 << 20, folder.path());
    settings.keeps_answers = keeps;
    const Tokens prompt = some_tokens(1, 100);
    {
      History executor({.streams = 1, .context = 256});
      Scheduler scheduler(executor, executor.program, nullptr, settings);
      cached(scheduler, prompt);
      CHECK(cached(scheduler, prompt) == 99); // waits for the end of the first answer's step
      executor.broken = executor.copies_break = true;
      CHECK_THROWS_AS(submit(scheduler, some_tokens(2, 100))->next(), Error);
      scheduler.drain();
    }
    History executor({.streams = 1, .context = 256});
    Scheduler scheduler(executor, executor.program, nullptr, settings);
    CHECK(cached(scheduler, prompt) == (keeps ? 99 : 0));
  }
}

TEST_CASE("prefix cache: evicted parts go to files, within a budget, and a folder that cannot be used costs a line") {
  const tests::TemporaryFolder folder;
  std::vector<std::string> lines;
  History executor({.streams = 1, .context = 256});
  PrefixSettings settings = settings_of(4000, folder.path(), &lines);
  settings.folder_bytes = 10000;
  {
    Scheduler scheduler(executor, executor.program, nullptr, settings);
    for (uint64_t i = 0; i < 12; ++i) cached(scheduler, some_tokens(i, 100));
    scheduler.drain();
  }
  {
    Scheduler scheduler(executor, executor.program, nullptr, settings);
    CHECK(cached(scheduler, some_tokens(8, 100)) == 99);
    CHECK(scheduler.counts().disk_tokens == 99);
    CHECK(cached(scheduler, some_tokens(0, 100)) == 0); // deleted for space
    scheduler.drain();
  }
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) bytes += entry.file_size();
  CHECK(bytes <= 10000);
  CHECK(bytes > 5000);
  CHECK(lines.empty());
  {
    Scheduler scheduler(executor, executor.program, nullptr, settings);
    fs::remove_all(folder.path());
    for (uint64_t i = 20; i < 26; ++i) cached(scheduler, some_tokens(i, 100));
    scheduler.drain();
  }
  CHECK(!lines.empty());
  settings.folder = "/proc/none";
  CHECK_THROWS_AS(Scheduler(executor, executor.program, nullptr, settings), Error);
}

TEST_CASE("prefix cache: without memory for it, it is off, and answers go on") {
  History executor(history_of({}, 1, 256));
  executor.blocks_break = true;
  std::vector<std::string> lines;
  engine::Session session(executor, executor.program, nullptr, settings_of(1 << 20, "", &lines));
  for (const int seed : {1, 2}) {
    const Tokens prompt = some_tokens(seed, 90);
    Tokens answer;
    session.generate({.prompt = prompt, .limit = 4, .on_token = [&](const engine::Token& token) {
                        answer.push_back(token.id);
                        return true;
                      }});
    CHECK(answer == expected(prompt));
  }
  CHECK_FALSE(session.scheduler().keeps_prefixes());
  CHECK(lines.size() == 1);
}

TEST_CASE("prefix cache: tiny models say the same with it as without") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-dense", "gemma3-dense", "qwen35-dense", "deepseek2-moe", "glm5-next-moe"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    const auto vocab = static_cast<int32_t>(program.vocab);
    core::ExecutorConfig config;
    config.context = 256;
    config.max_batch = 64;
    config.max_outputs = config.threads = 2;
    config.exact = true;
    const Tokens system = some_tokens(1, 50, vocab);
    std::vector<Tokens> prompts;
    for (uint64_t i = 0; i < 4; ++i) prompts.push_back(joined(system, some_tokens(10 + i, 20, vocab)));
    for (uint64_t i = 0; i < 4; ++i) prompts.push_back(joined(prompts[i], some_tokens(20 + i, 20, vocab)));
    const auto answers = [&](int64_t bytes, int64_t& found) {
      const auto executor = kernels::cpu::make_cpu_executor(program, config);
      Scheduler scheduler(*executor, program, nullptr, settings_of(bytes));
      std::vector<Tokens> all;
      for (const Tokens& prompt : prompts) all.push_back(rest(*submit(scheduler, prompt, 12)));
      found = scheduler.counts().stored_tokens;
      return all;
    };
    int64_t without = 0, with = 0;
    CHECK(answers(0, without) == answers(1 << 26, with));
    CHECK(without == 0);
    CHECK(with >= 4 * 50);
  }
}

TEST_CASE("prefix cache: tiny models whose caches hold only windows share prompts, and say what they say alone") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gemma3-dense", "gpt-oss-moe", "gemma4-e2b"})
    for (const int64_t streams : {1, 3}) tests::check_prefixes(kernels::cpu::make_cpu_executor, name, streams);
}
