// Suggestions for mistyped words.
#include "core/strings/closest.h"

#include <doctest/doctest.h>

using ridge::core::closest;
using ridge::core::did_you_mean;

TEST_CASE("the nearest known word is one with few other letters, or one that begins so") {
  const std::vector<std::string> commands = {"chat", "run", "serve", "quantize", "tokenize", "detokenize", "models"};
  CHECK(closest("caht", commands) == "chat");
  CHECK(closest("quantise", commands) == "quantize");
  CHECK(closest("Model", commands) == "models");
  CHECK(closest("quan", commands) == "quantize");
  CHECK(closest("tokenise", commands) == "tokenize");
  CHECK(closest("frobnicate", commands) == "");
  CHECK(closest("", commands) == "");
  CHECK(closest(std::string(100000, 'x'), commands) == "");
  const std::vector<std::string> types = {"Q4_0", "Q4_K_M", "Q5_K_M", "IQ4_XS"};
  CHECK(closest("Q4_KM", types) == "Q4_K_M");
  CHECK(closest("q4km", types) == "Q4_K_M");
  CHECK(closest("q5_k", types) == "Q5_K_M");
}

TEST_CASE("a suggestion is a question behind an error, and names nothing that could steer a terminal") {
  const std::vector<std::string> known = {"a\033[2Jb", "chat"};
  CHECK(did_you_mean("chta", known) == "; did you mean 'chat'?");
  CHECK(did_you_mean("a\033[2Jc", known).find('\033') == std::string::npos);
  CHECK(did_you_mean("something else", known) == "");
}
