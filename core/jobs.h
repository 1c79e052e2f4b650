// Work that goes on beside the conversation, as the window asks for it and sees it: plain data, a part of snapshot.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

enum class JobKind : uint8_t { convert, quantize, bench, roofline };
enum class JobState : uint8_t { waiting, running, done, failed, cancelled };

// Words as the command line takes them; what a kind has no use for is not looked at.
struct JobRequest {
  JobKind kind = JobKind::quantize;
  std::string input;  // convert: a checkpoint's folder; else a model file, empty: the guide (roofline: a usual shape)
  std::string output; // the file to write
  std::string type;   // convert: empty (what they are), f16 …; quantize: a recipe, empty where target_size is given
  std::string target_size;               // "4.2GiB": types are chosen for this size
  std::string method = "plain";          // or awq, gptq, awq+gptq, with a calibration text
  std::string calibration, imatrix;      // files
  std::vector<std::string> tensor_types; // "PATTERN=TYPE"
  bool pure = false, allow_requantize = false;
  std::string prompts = "512", generated = "128", depths = "0"; // bench: lists of token counts
  int repetitions = 5;
};

struct JobTable {
  std::string title;
  std::vector<std::string> columns; // the first is text, the others are numbers with their units
  std::vector<std::vector<std::string>> rows;
};

struct Job {
  uint64_t id = 0;
  JobRequest request;
  std::string title; // "quantize llama-1b.gguf to Q4_K_M"
  JobState state = JobState::waiting;
  std::string activity;    // what it does now: "measuring types"
  double share = 0;        // of that which is done, 0 to 1
  double elapsed_s = 0;    // since it started
  double remaining_s = -1; // of the present activity; below 0: not known
  std::string result;      // one line, of a job that is done
  std::string error;       // one line, of one that failed
  std::string opens;       // a model file that it has written
  std::vector<std::string> notes;
  std::vector<JobTable> tables;

  bool over() const { return state != JobState::waiting && state != JobState::running; }
};

// What a job can be asked for.
struct JobChoices {
  struct Recipe {
    std::string name;
    double bits_per_weight; // of its base type
  };
  std::vector<Recipe> recipes;
};

} // namespace ridge::core
