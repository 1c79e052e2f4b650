// Piece sizes of prompts.
#include "engine/sequences/prompt_share.h"

#include <doctest/doctest.h>

using ridge::engine::PromptShare;

namespace {

struct Machine {
  double step_s, token_s; // seconds per step without prompts, and per prompt token
  double begin_s = 0;     // fixed cost of a step with prompts
  double seconds(int64_t tokens) const {
    return step_s + (tokens > 0 ? begin_s : 0) + token_s * static_cast<double>(tokens);
  }
};

PromptShare used_to(const Machine& machine) {
  PromptShare share;
  for (int prompt = 0; prompt < 20; ++prompt) {
    for (int i = 0; i < 10; ++i) share.record_step(0, machine.seconds(0));
    for (int64_t left = 2000; left > 0;) {
      const int64_t tokens = std::min(left, share.tokens());
      share.record_step(tokens, machine.seconds(tokens));
      left -= tokens;
    }
  }
  return share;
}

} // namespace

TEST_CASE("prompts take as much of a step as keeps it short") {
  CHECK(used_to({0.005, 0.00002}).tokens() == 512);
  const Machine slow = {0.010, 0.000086}, cpu = {0.2, 0.008}, slowest = {0.01, 0.1};
  CHECK(slow.seconds(used_to(slow).tokens()) <= 0.042);
  CHECK(slow.seconds(used_to(slow).tokens()) >= 0.03);
  const Machine decodes_first = {0.010, 0.00003, 0.024}; // decoding reads weights before the prompt
  CHECK(decodes_first.seconds(used_to(decodes_first).tokens()) <= 0.041);
  CHECK(used_to(decodes_first).tokens() >= 128);
  CHECK(cpu.seconds(used_to(cpu).tokens()) <= 0.8); // 0.6 plus rounding
  CHECK(cpu.seconds(used_to(cpu).tokens()) >= 0.4);
  CHECK(used_to(slowest).tokens() == 32);
}

TEST_CASE("a step that was slow once does not slow prompts down for long") {
  const Machine machine = {0.005, 0.00002};
  PromptShare share = used_to(machine);
  share.record_step(512, 3);
  CHECK(share.tokens() == 256);
  for (int i = 0; i < 4; ++i) share.record_step(share.tokens(), machine.seconds(share.tokens()));
  CHECK(share.tokens() == 512);
  share.record_step(7, machine.seconds(7)); // a prompt's short end must not affect the estimate
  CHECK(share.tokens() == 512);
}
