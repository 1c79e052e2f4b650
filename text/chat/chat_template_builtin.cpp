// Known prompt formats, for files without a usable template. A model's template has priority: it supports tools and
// reasoning.
#include "text/chat/chat_template.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::text {

namespace {

// said(message): string or parts.
constexpr std::string_view kPrelude = R"({%- macro said(message) -%}
{%- if message.content is string -%}{{- message.content -}}
{%- elif message.content -%}{%- for part in message.content -%}{{- part.text or '' -}}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- macro system_text() -%}
{%- if messages and messages[0].role in ('system', 'developer') -%}{{- said(messages[0]) -}}{%- endif -%}
{%- endmacro -%}
)";

struct Row {
  std::string_view names; // the first is ours, the others are llama.cpp's
  std::string_view source;
};

constexpr Row kRows[] = {
    {"plain", R"({%- for m in messages -%}
{{- said(m) -}}{{- '\n' if not loop.last -}}
{%- endfor -%})"},

    // Qwen, Yi, Hermes, SmolLM, Orca and many others.
    {"chatml", R"({%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\n' + said(m) + '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}})"},

    {"llama2 llama2-sys llama2-sys-bos llama2-sys-strip", R"({%- set system = system_text() -%}
{%- set turns = messages[1:] if system else messages -%}
{%- for m in turns -%}
{%- if m.role == 'assistant' -%}
{{- ' ' + said(m).strip() + ' ' + eos_token -}}
{%- else -%}
{{- bos_token + '[INST] ' -}}
{{- '<<SYS>>\n' + system + '\n<</SYS>>\n\n' if system and loop.first -}}
{{- said(m).strip() + ' [/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    {"llama3", R"({{- bos_token -}}
{%- for m in messages -%}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + said(m).strip() + '<|eot_id|>' -}}
{%- endfor -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' if add_generation_prompt -}})"},

    {"llama4", R"({{- bos_token -}}
{%- for m in messages -%}
{{- '<|header_start|>' + m.role + '<|header_end|>\n\n' + said(m).strip() + '<|eot|>' -}}
{%- endfor -%}
{{- '<|header_start|>assistant<|header_end|>\n\n' if add_generation_prompt -}})"},

    // Versions differ in spaces; v7 adds a system section.
    {"mistral-v1", R"({%- set system = system_text() -%}
{{- bos_token -}}
{%- for m in (messages[1:] if system else messages) -%}
{%- if m.role == 'assistant' -%}
{{- ' ' + said(m) + eos_token -}}
{%- else -%}
{{- ' [INST] ' + (system + '\n\n' if system and loop.first else '') + said(m) + ' [/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    {"mistral-v3", R"({%- set system = system_text() -%}
{{- bos_token -}}
{%- for m in (messages[1:] if system else messages) -%}
{%- if m.role == 'assistant' -%}
{{- ' ' + said(m) + eos_token -}}
{%- else -%}
{{- '[INST] ' + (system + '\n\n' if system and loop.first else '') + said(m) + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    {"mistral-v3-tekken", R"({%- set system = system_text() -%}
{{- bos_token -}}
{%- for m in (messages[1:] if system else messages) -%}
{%- if m.role == 'assistant' -%}
{{- said(m) + eos_token -}}
{%- else -%}
{{- '[INST]' + (system + '\n\n' if system and loop.first else '') + said(m) + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    {"mistral-v7", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{{- ' ' + said(m) + eos_token -}}
{%- elif m.role == 'system' -%}
{{- '[SYSTEM_PROMPT] ' + said(m) + '[/SYSTEM_PROMPT]' -}}
{%- else -%}
{{- '[INST] ' + said(m) + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    {"mistral-v7-tekken", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{{- said(m) + eos_token -}}
{%- elif m.role == 'system' -%}
{{- '[SYSTEM_PROMPT]' + said(m) + '[/SYSTEM_PROMPT]' -}}
{%- else -%}
{{- '[INST]' + said(m) + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})"},

    // No system role: text opens the first turn.
    {"gemma", R"({%- set system = system_text() -%}
{{- bos_token -}}
{%- for m in (messages[1:] if system else messages) -%}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' -}}
{{- system.strip() + '\n\n' if system and loop.first -}}
{{- said(m).strip() + '<end_of_turn>\n' -}}
{%- endfor -%}
{{- '<start_of_turn>model\n' if add_generation_prompt -}})"},

    {"gemma4", R"({{- bos_token -}}
{%- for m in messages -%}
{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + said(m).strip() + '<turn|>\n' -}}
{%- endfor -%}
{{- '<|turn>model\n' if add_generation_prompt -}})"},

    {"phi3", R"({%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m) + '<|end|>\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}})"},

    {"phi4", R"({%- for m in messages -%}
{{- '<|im_start|>' + m.role + '<|im_sep|>' + said(m) + '<|im_end|>' -}}
{%- endfor -%}
{{- '<|im_start|>assistant<|im_sep|>' if add_generation_prompt -}})"},

    {"deepseek", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + '\n' -}}
{%- elif m.role == 'assistant' -%}
{{- '### Response:\n' + said(m) + '\n<|EOT|>\n' -}}
{%- else -%}
{{- '### Instruction:\n' + said(m) + '\n' -}}
{%- endif -%}
{%- endfor -%}
{{- '### Response:\n' if add_generation_prompt -}})"},

    {"deepseek2", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + '\n\n' -}}
{%- elif m.role == 'assistant' -%}
{{- 'Assistant: ' + said(m) + eos_token -}}
{%- else -%}
{{- 'User: ' + said(m) + '\n\n' -}}
{%- endif -%}
{%- endfor -%}
{{- 'Assistant:' if add_generation_prompt -}})"},

    {"deepseek3", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) -}}
{%- elif m.role == 'assistant' -%}
{{- '<｜Assistant｜>' + said(m) + '<｜end▁of▁sentence｜>' -}}
{%- else -%}
{{- '<｜User｜>' + said(m) -}}
{%- endif -%}
{%- endfor -%}
{{- '<｜Assistant｜>' if add_generation_prompt -}})"},

    {"zephyr", R"({%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m) + eos_token + '\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}})"},

    {"vicuna", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + ' ' -}}
{%- elif m.role == 'assistant' -%}
{{- ' ASSISTANT: ' + said(m) + eos_token -}}
{%- else -%}
{{- 'USER: ' + said(m) -}}
{%- endif -%}
{%- endfor -%}
{{- ' ASSISTANT:' if add_generation_prompt -}})"},

    {"alpaca", R"({%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + '\n\n' -}}
{%- elif m.role == 'assistant' -%}
{{- '### Response:\n' + said(m) + eos_token + '\n\n' -}}
{%- else -%}
{{- '### Instruction:\n' + said(m) + '\n\n' -}}
{%- endif -%}
{%- endfor -%}
{{- '### Response:\n' if add_generation_prompt -}})"},

    {"openchat", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + '<|end_of_turn|>' -}}
{%- else -%}
{{- 'GPT4 Correct ' + m.role.title() + ': ' + said(m) + '<|end_of_turn|>' -}}
{%- endif -%}
{%- endfor -%}
{{- 'GPT4 Correct Assistant:' if add_generation_prompt -}})"},

    {"solar", R"({%- for m in messages -%}
{{- '### ' + m.role.title() + ':\n' + said(m) + '\n\n' -}}
{%- endfor -%}
{{- '### Assistant:\n' if add_generation_prompt -}})"},

    {"command-r", R"({{- bos_token -}}
{%- set names = {'system': '<|SYSTEM_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'} -%}
{%- for m in messages -%}
{{- '<|START_OF_TURN_TOKEN|>' + names.get(m.role, '<|USER_TOKEN|>') + said(m).strip() + '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' if add_generation_prompt -}})"},

    {"granite granite-4.0 granite-4.1", R"({%- for m in messages -%}
{{- '<|start_of_role|>' + m.role + '<|end_of_role|>' + said(m) + '<|end_of_text|>\n' -}}
{%- endfor -%}
{{- '<|start_of_role|>assistant<|end_of_role|>' if add_generation_prompt -}})"},

    {"falcon3", R"({%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m) + (eos_token if m.role == 'assistant' else '') + '\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}})"},

    {"chatglm3", R"({{- '[gMASK]sop' -}}
{%- for m in messages -%}
{{- '<|' + m.role + '|>\n ' + said(m) -}}
{%- endfor -%}
{{- '<|assistant|>' if add_generation_prompt -}})"},

    {"chatglm4", R"({{- '[gMASK]<sop>' -}}
{%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m) -}}
{%- endfor -%}
{{- '<|assistant|>' if add_generation_prompt -}})"},

    {"minicpm", R"({{- bos_token -}}
{%- for m in messages -%}
{{- '<AI>' if m.role == 'assistant' else '<用户>' if m.role == 'user' -}}
{{- said(m).strip() -}}
{%- endfor -%}
{{- '<AI>' if add_generation_prompt -}})"},

    {"exaone3", R"({%- for m in messages -%}
{{- '[|' + m.role + '|]' + said(m) + ('\n' if m.role == 'user' else '[|endofturn|]\n') -}}
{%- endfor -%}
{{- '[|assistant|]' if add_generation_prompt -}})"},

    {"exaone4", R"({%- for m in messages -%}
{{- '[|' + m.role + '|]\n' + said(m) + '[|endofturn|]\n' -}}
{%- endfor -%}
{{- '[|assistant|]\n' if add_generation_prompt -}})"},

    {"exaone-moe", R"({%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m).strip() + '<|endofturn|>\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}})"},

    {"olmo2", R"({{- bos_token -}}
{%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + said(m) + (eos_token if m.role == 'assistant' else '') + '\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}})"},

    {"kimi-k2", R"({%- for m in messages -%}
{{- '<|im_' + (m.role if m.role in ('user', 'assistant') else 'system') + '|>' + m.role -}}
{{- '<|im_middle|>' + said(m) + '<|im_end|>' -}}
{%- endfor -%}
{{- '<|im_assistant|>assistant<|im_middle|>' if add_generation_prompt -}})"},

    {"gpt-oss", R"({%- for m in messages -%}
{{- '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') + '<|message|>' + said(m) + '<|end|>' -}}
{%- endfor -%}
{{- '<|start|>assistant' if add_generation_prompt -}})"},

    {"seed-oss seed_oss", R"({%- for m in messages -%}
{{- '<seed:bos>' + m.role + '\n' + said(m) + '<seed:eos>' -}}
{%- endfor -%}
{{- '<seed:bos>assistant\n' if add_generation_prompt -}})"},

    {"hunyuan-moe", R"({%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{{- said(m) + '<|eos|>' -}}
{%- else -%}
{{- '<|startoftext|>' + said(m) + ('<|extra_4|>' if m.role == 'system' else '<|extra_0|>') -}}
{%- endif -%}
{%- endfor -%})"},

    {"hunyuan-dense", R"({{- bos_token -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{{- said(m) + '<｜hy_place▁holder▁no▁3｜>' -}}
{%- elif m.role == 'assistant' -%}
{{- '<｜hy_Assistant｜>' + said(m) + '<｜hy_place▁holder▁no▁2｜>' -}}
{%- else -%}
{{- '<｜hy_User｜>' + said(m) -}}
{%- endif -%}
{%- endfor -%}
{{- '<｜hy_Assistant｜>' if add_generation_prompt -}})"},

    // Ling and Ring
    {"bailing bailing-think", R"({%- for m in messages -%}
{{- '<role>' + ('HUMAN' if m.role == 'user' else m.role.upper()) + '</role>' + said(m) -}}
{%- endfor -%}
{{- '<role>ASSISTANT</role>' if add_generation_prompt -}})"},

    {"bailing2", R"({{- '<role>SYSTEM</role>detailed thinking off<|role_end|>' if not system_text() -}}
{%- for m in messages -%}
{{- '<role>' + ('HUMAN' if m.role == 'user' else m.role.upper()) + '</role>' + said(m) + '<|role_end|>' -}}
{%- endfor -%}
{{- '<role>ASSISTANT</role>' if add_generation_prompt -}})"},

    {"ernie", R"({{- '<|begin_of_sentence|>' -}}
{%- for m in messages -%}
{{- {'system': '', 'assistant': 'Assistant: '}.get(m.role, 'User: ') + said(m) -}}
{{- '<|end_of_sentence|>' if m.role == 'assistant' else '\n' -}}
{%- endfor -%}
{{- 'Assistant: ' if add_generation_prompt -}})"},

    {"minimax-m2", R"({{- ']~!b[' -}}
{%- for m in messages -%}
{{- ']~b]' + ('ai' if m.role == 'assistant' else m.role) + '\n' + said(m) + '[e~[\n' -}}
{%- endfor -%}
{{- ']~b]ai\n<think>\n' if add_generation_prompt -}})"},

    {"megrez", R"({%- for m in messages -%}
{{- '<|role_start|>' + m.role + '<|role_end|>' + said(m) + '<|turn_end|>' -}}
{%- endfor -%}
{{- '<|role_start|>assistant<|role_end|>' if add_generation_prompt -}})"},

    {"grok-2", R"({%- for m in messages -%}
{{- {'system': 'System: ', 'assistant': 'Assistant: '}.get(m.role, 'Human: ') + said(m).strip() + '<|separator|>\n\n' -}}
{%- endfor -%}
{{- 'Assistant:' if add_generation_prompt -}})"},

    {"solar-open", R"({%- for m in messages -%}
{{- '<|begin|>' + m.role + '<|content|>' + said(m) + '<|end|>' -}}
{%- endfor -%}
{{- '<|begin|>assistant' if add_generation_prompt -}})"},

    {"smolvlm", R"({{- '<|im_start|>' -}}
{%- for m in messages -%}
{{- said(m) + '\n\n' if m.role == 'system' else m.role.title() + ': ' + said(m) + '<end_of_utterance>\n' -}}
{%- endfor -%}
{{- 'Assistant:' if add_generation_prompt -}})"},

    {"rwkv-world", R"({%- for m in messages -%}
{{- {'system': 'System', 'assistant': 'Assistant'}.get(m.role, 'User') + ': ' + said(m).strip() + '\n\n' -}}
{%- endfor -%}
{{- 'Assistant:' if add_generation_prompt -}})"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

const Row* find_row(std::string_view name) {
  const auto row = std::ranges::find_if(kRows, [&](const Row& one) { return has_word(one.names, name); });
  return row == std::end(kRows) ? nullptr : row;
}

} // namespace

bool ChatTemplate::is_builtin(std::string_view name) { return find_row(name) != nullptr; }

ChatTemplate ChatTemplate::builtin(std::string_view name) {
  if (const Row* row = find_row(name))
    return parse(std::string(kPrelude) + std::string(row->source), std::string(name));
  throw Error(
      fmt::format("unknown built-in chat template '{}'; expected one of {}", name, fmt::join(builtin_names(), ", ")),
      Error::kUsage);
}

std::vector<std::string_view> ChatTemplate::builtin_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.names.substr(0, row.names.find(' ')));
  return names;
}

} // namespace ridge::text
