#include "server/chat_messages.h"

#include "engine/options.h"
#include "server/answer_form.h"
#include "server/openai.h"
#include "server/requests/chat_body.h"
#include "server/requests/pictures.h"
#include "server/tools.h"

#include <algorithm>

namespace ridge::server {

Json read_messages(const Service& service, const Json& messages) {
  return said_of([&] { return text::read_messages(messages, "messages", service.chat_template().source()); });
}

engine::LastTurn last_turn(const Fields& body) {
  const engine::LastTurn last = {.continued = body.flag("continue_final_message"),
                                 .opens_answer = body.flag("add_generation_prompt").value_or(true)};
  if (last.continued.value_or(false) && body.flag("add_generation_prompt").value_or(false))
    throw_invalid("continue_final_message", "continue_final_message and add_generation_prompt cannot be combined");
  return last;
}

void set_effort(Json& variables, const std::string& effort) {
  variables["reasoning_effort"] = effort;
  if (effort == "none") engine::set_thinking(variables, false);
}

Json schema_of_format(const Fields& format) {
  const std::string type = format.text("type").value_or("");
  const auto named = format.object("json_schema");
  const Fields& holder = named ? *named : format;
  if (type == "json_schema") return holder.required("schema");
  if (type == "json_object") return holder.find("schema") ? *holder.find("schema") : Json::object({{"type", "object"}});
  if (type != "text")
    throw_invalid(format.path_of("type"), "{}: expected text, json_object or json_schema", format.path_of("type"));
  return nullptr;
}

Generation chat_generation(const Service& service, const Fields& given) {
  const AnswerForm form = answer_form(given);
  RequestPictures pictures(service);
  Json current = current_chat_body(given.json());
  if (current.contains("messages")) current["messages"] = pictures.put(std::move(current["messages"]), "messages");
  const Fields body(current, "");
  Json variables = Json::object();
  if (const auto effort = body.text("reasoning_effort")) set_effort(variables, *effort);
  if (const auto further = body.object("chat_template_kwargs")) variables.update(further->json());
  const auto tools = openai_tools(body);
  Generation generation = service.chat(read_messages(service, body.required("messages")), tools ? &*tools : nullptr,
                                       variables, form.schema, last_turn(body));
  hold(service, form, generation);
  take_reasoning_budget(given, generation.sampling);
  return generation;
}

std::string content_text(const Json& content, const std::string& path) {
  return said_of([&] { return text::content_text(content, path); });
}

std::string result_text(const Json& content, const std::string& path) {
  return said_of([&] { return text::result_text(content, path); });
}

std::vector<int32_t> token_ids(const Json& json, const std::string& path) {
  const auto is_id = [](const Json& id) {
    return id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() <= INT32_MAX;
  };
  if (!json.is_array() || !std::ranges::all_of(json, is_id))
    throw_invalid(path, "{}: expected a list of token ids", path);
  return json.get<std::vector<int32_t>>();
}

} // namespace ridge::server
