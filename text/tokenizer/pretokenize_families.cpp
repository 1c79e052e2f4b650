// From the models' tokenizer.json, with Unicode's White_Space and case folding.
#include "text/tokenizer/pretokenize.h"

#define GPT2_PATTERN R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
// Shared since GPT-2.
#define PUNCTUATION_AND_SPACE R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define LLAMA3_LIKE(NUMBER) CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)" NUMBER PUNCTUATION_AND_SPACE
// o200k words: upper case, then lower case letters (classes U, L), then TAIL.
#define CASED_WORDS(U, L, TAIL) R"([^\r\n\p{L}\p{N}]?)" U "*" L "+" TAIL R"(|[^\r\n\p{L}\p{N}]?)" U "+" L "*" TAIL
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define HAN_KANA R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define O200K_PUNCTUATION_AND_SPACE R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define DEEPSEEK_V3_WORDS R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
#define BLOOM_PATTERN R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"
// Groups of three digits from the end: 1 234 567.
#define THREES(DIGIT) R"(\A)" DIGIT "{1,2}(?=(?:" DIGIT R"({3})++\z)|)" DIGIT "{3}"
#define DEEPSEEK_HAN R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"

namespace ridge::text {
namespace {

// deepseek-llm: cased letters of an old Unicode.
constexpr const char* kDeepseekWords =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";

constexpr PretokenizerFamily kFamilies[] = {
    {.names = "default", .patterns = {R"([\p{P}$+<=>^~|]+)", GPT2_PATTERN, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 gpt-neox phi-2 mpt olmo jais exaone4 trillion mellum gigachat a.x-4.0 granite-docling modern-bert "
              "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
     .patterns = {GPT2_PATTERN}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {R"(\p{N})", GPT2_PATTERN}},
    {.names = "falcon", .patterns = {R"([\p{P}$+<=>^~|`]+)", GPT2_PATTERN, "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {LLAMA3_LIKE(R"(\p{N}{1,3})")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .patterns = {LLAMA3_LIKE(R"(\p{N}{1,3})")}},
    {.names = "glm4 glm5", .patterns = {LLAMA3_LIKE(R"(\p{N}{1,3})")}, .ignore_merges = true},
    {.names = "jais-2", // power-of-two runs of space; the lookbehind avoids scanning for line ends
     .patterns = {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                              R"(|(?<![\t\x0B\x0C\x{85}\p{Z}])\s*[\r\n]+)"
                              R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))"
                              R"(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"}},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez grok-2 solar-open kormo f2llmv2",
     .patterns = {LLAMA3_LIKE(R"(\p{N})")}},
    {.names = "qwen35",
     .patterns = {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+)"
                              R"(|\s+(?!\S)|\s+)"}},
    {.names = "ufakzeka", .patterns = {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" PUNCTUATION_AND_SPACE}},
    {.names = "minicpm5", .patterns = {R"(\p{N}{1,3})", LLAMA3_LIKE(R"(\p{N}+)")}, .ignore_merges = true},
    {.names = "laguna", .patterns = {R"([^\n]+|\n+)", LLAMA3_LIKE(R"(\p{N})")}},
    {.names = "seed-coder",
     .patterns = {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n])"
                  R"(|\s+(?!\S)|\s+)"}},
    {.names = "exaone-moe", // possessive: backtracking never helps here
     .patterns = {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+)"
                              R"([\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {.names = "deepseek-llm",
     .patterns = {R"([\r\n])", kDeepseekWords,
                  R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+$)",
                  DEEPSEEK_HAN, R"(\p{N}+)"}},
    {.names = "deepseek-coder", .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", DEEPSEEK_HAN, R"(\p{N})"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {R"(\p{N}{1,3})", HAN_KANA, DEEPSEEK_V3_WORDS R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.names = "afmoe",
     .patterns = {R"(\p{N}+)", THREES(R"(\p{N})"),
                  R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F})"
                  R"(\x{2F00}-\x{2FDF}\x{E00}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
                  R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)",
                  DEEPSEEK_V3_WORDS R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.names = "spark2_5",
     .patterns = {R"(\p{N}{1,3})", HAN_KANA, DEEPSEEK_V3_WORDS R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)", R"(\p{N})"}},
    {.names = "tekken",
     .patterns = {CASED_WORDS(UPPER, LOWER, "") R"(|\p{N})" O200K_PUNCTUATION_AND_SPACE},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {CASED_WORDS(UPPER, LOWER, CONTRACTION "?") R"(|\p{N}{1,3})" O200K_PUNCTUATION_AND_SPACE}},
    {.names = "granite-embed-multi-97m",
     .patterns = {CASED_WORDS(UPPER, LOWER, CONTRACTION "?") R"(|\p{N}{1,3})" O200K_PUNCTUATION_AND_SPACE},
     .ignore_merges = true},
    {.names = "tiny_aya cohere2moe",
     .patterns = {R"((?<!\d)\d++\b)", THREES(R"(\d)"),
                  CASED_WORDS(UPPER, LOWER, CONTRACTION "?") R"(|\p{N}{1,3})" O200K_PUNCTUATION_AND_SPACE}},
    {.names = "youtu",
     .patterns = {R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})"
                  R"(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|)" HAN_KANA,
                  CASED_WORDS(UPPER, LOWER, CONTRACTION "?") R"(|\p{N})" O200K_PUNCTUATION_AND_SPACE},
     .ignore_merges = true},
    {.names = "superbpe", .patterns = {R"(\p{N}+)", THREES(R"(\d)")}}, // tokens may span words
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])",
                  GPT2_PATTERN},
     .add_bos = true},
    {.names = "kimi-k2",
     .patterns = {R"(\p{Han}+|)" CASED_WORDS(R"((?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))",
                                             R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))",
                                             CONTRACTION "?") R"(|\p{N}{1,3})" PUNCTUATION_AND_SPACE}},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {BLOOM_PATTERN}},
    {.names = "viking", .patterns = {BLOOM_PATTERN, R"(\p{N})"}},
    {.names = "gemma4 granite-embed-multi-311m",
     .patterns = {R"([^\n]+|\n+)"},
     .add_bos = true,
     .needs_bos = true,
     .byte_level = false},
    {.names = "sarvam-moe", .patterns = {R"([^\n]+|\n+)"}, .byte_level = false},
};

} // namespace

std::span<const PretokenizerFamily> pretokenizer_families() { return kFamilies; }

bool PretokenizerFamily::has_name(std::string_view name) const {
  for (std::string_view rest = names; !rest.empty();) {
    const size_t space = rest.find(' ');
    if (rest.substr(0, space) == name) return true;
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  return false;
}

const PretokenizerFamily* find_pretokenizer(std::string_view name) {
  for (const PretokenizerFamily& family : kFamilies)
    if (family.has_name(name)) return &family;
  return nullptr;
}

} // namespace ridge::text
