#include "app/window_words.h"

#include <string_view>
#include <utility>

namespace ridge::app {
namespace {

// Longer phrases first.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"lower -ngl (layers on the GPU), -c (context) or -ub (batch)",
     "open it with fewer layers on the GPU or a shorter context (Open…)"},
    {"give --allow-requantize", "tick “requantize packed types”"},
    {"--allow-requantize", "“requantize packed types”"},
    {"--target-divergence: cannot be measured for this model; use --target-size", "give the size of the file"},
    {"--target-size", "the size of the file"},
    {"use --method plain", "use the method “plain”"},
    {"--calibration TEXT", "a calibration text"},
    {"--calibration", "the calibration text"},
    {"--method", "the method"},
    {"--imatrix", "the importance matrix"},
    {" (--chat-template NAME selects another)", ""},
    {" (--text-only converts without the image and audio encoders)",
     " (ridge convert --text-only converts without the image and audio encoders)"},
    {" (--tensor-type NAME=BF16)", ": ridge quantize --tensor-type NAME=BF16"},
    {"--tensor-type", "types of tensors"},
    {"--repetitions", "Repetitions"},
    {"choose one with --mmproj", "drop its file on the window to choose it"},
    {"--draft-model", "the draft model"},
    {"--device cuda", "the GPU"},
    {"quantize: ", ""},
    {"raise -c", "open it with a longer context (Open…)"},
    {" (-c sets it)", " (Open… sets it)"},
    {"lower -c", "open it with a shorter context (Open…)"},
    {"with -c ", "with a context of "},
    {"-c ", "a context of "},
};

} // namespace

std::string in_window_words(std::string line) {
  for (const auto& [flag, words] : kWords)
    for (size_t at = line.find(flag); at != std::string::npos; at = line.find(flag, at + words.size()))
      if (flag[0] != '-' || at == 0 || line[at - 1] != '-') line.replace(at, flag.size(), words);
  return line;
}

} // namespace ridge::app
