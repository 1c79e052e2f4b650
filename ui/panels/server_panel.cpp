// The server's switch, memory, slots and requests.
#include "core/units.h"
#include "ui/markdown/markdown_view.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::Serving;

constexpr const char* kHere = "127.0.0.1";
constexpr int kMaxSlots = 64;

void wrapped(const std::string& what, ImU32 color) { wrapped_text(what, color, fonts().small); }

void line(const char* name, const std::string& value) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  text_at(at, name, theme().dim, fonts().small);
  text_at({at.x + width, at.y}, value, theme().text, fonts().small, 1);
  ImGui::Dummy({width, fonts().small->FontSize});
}

class ServerPanel : public Panel {
 public:
  void draw(const View& view) override {
    const Serving& serving = *view.now.serving;
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float gap = px(12), form = std::clamp(area.x * 0.3f, px(270), px(330)), rest = area.x - form - gap;
    const float top = px(196);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("switch", {form, area.y}, "Server", true);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(5)));
    draw_switch(view, serving);
    ImGui::PopStyleVar();
    end_card();
    ImGui::SameLine();
    ImGui::BeginGroup();
    begin_card("slots", {(rest - gap) * 0.6f, top}, serving.embeds ? "Texts" : "Slots", true);
    draw_slots(serving);
    end_card();
    ImGui::SameLine();
    begin_card("memory", {0, top}, "Cache and memory");
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(6)));
    draw_memory(serving);
    ImGui::PopStyleVar();
    end_card();
    begin_card("requests", {0, area.y - top - gap}, "Requests");
    draw_requests(serving);
    end_card();
    ImGui::EndGroup();
    ImGui::PopStyleVar();
  }

 private:
  void draw_switch(const View& view, const Serving& serving) {
    const Theme& t = theme();
    const bool off = serving.state == Serving::State::off;
    ImGui::BeginDisabled(!off);
    field_label("Listen on");
    segments("reach", {"this machine", "the network"}, reach_);
    field_label("Port");
    ImGui::SetNextItemWidth(-1);
    if (ImGui::InputInt("##port", &port_, 0)) port_ = std::clamp(port_, 0, 65535);
    field_label("Parallel requests");
    ImGui::SetNextItemWidth(-1);
    ImGui::SliderInt("##parallel", &parallel_, 1, kMaxSlots, "%d", ImGuiSliderFlags_AlwaysClamp);
    field_label("API key");
    ImGui::SetNextItemWidth(-1);
    ImGui::InputTextWithHint("##key", "none", &key_);
    ImGui::EndDisabled();
    if (off && reach_ == 1 && key_.empty()) wrapped("Without a key, anyone on the network can use it.", t.amber);
    ImGui::Dummy({0, px(6)});
    draw_button(view, serving);
    if (!serving.problem.empty()) wrapped(serving.problem, t.red);
    if (off) {
      ImGui::Dummy({0, px(6)});
      wrapped(fmt::format("Serves {} to OpenAI, Anthropic and Ollama clients, alongside the chat: it shares the "
                          "weights in main memory but has separate caches.",
                          view.now.model->label),
              t.dim);
    }
    if (serving.state == Serving::State::on) draw_address(serving);
  }

  void draw_button(const View& view, const Serving& serving) {
    const ImVec2 size{-1, px(34)};
    switch (serving.state) {
    case Serving::State::off:
      if (accent_button("Start", size))
        view.send(intent::StartServer{reach_ ? "0.0.0.0" : kHere, port_, parallel_, key_});
      break;
    case Serving::State::starting:
      ImGui::BeginDisabled();
      ImGui::Button("Loading the model…", size);
      ImGui::EndDisabled();
      break;
    case Serving::State::on:
      if (ImGui::Button("Stop", size)) view.send(intent::StopServer{});
      tooltip("Running answers are ended");
      break;
    case Serving::State::stopping:
      ImGui::BeginDisabled();
      ImGui::Button("Stopping…", size);
      ImGui::EndDisabled();
      break;
    }
  }

  static void draw_address(const Serving& serving) {
    const Theme& t = theme();
    ImGui::Dummy({0, px(4)});
    wrapped(fmt::format("{} is available at", serving.model), t.dim);
    text(serving.address, t.text, fonts().mono);
    const std::string base = serving.address + "/v1";
    if (ImGui::Button("Copy for OpenAI")) ImGui::SetClipboardText(base.c_str());
    tooltip(base);
    ImGui::SameLine();
    if (ImGui::Button("Copy address")) ImGui::SetClipboardText(serving.address.c_str());
    tooltip("for Anthropic and Ollama clients");
    ImGui::Dummy({0, px(2)});
    wrapped("on " + serving.engine, t.dim);
  }

  static void draw_slots(const Serving& serving) {
    const Theme& t = theme();
    if (serving.state == Serving::State::off || serving.state == Serving::State::starting)
      return wrapped("Running requests and their context use appear here.", t.dim);
    if (serving.embeds) return dim_text(fmt::format("{} texts embedded, one after another", serving.requests));
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(10), px(6)));
    const int columns = serving.slots.size() > 4 ? 2 : 1;
    const float width =
        (ImGui::GetContentRegionAvail().x - px(10) * static_cast<float>(columns - 1)) / static_cast<float>(columns);
    for (size_t i = 0; i < serving.slots.size(); ++i) {
      const Serving::Slot& slot = serving.slots[i];
      if (i % static_cast<size_t>(columns) > 0) ImGui::SameLine();
      ImGui::BeginGroup();
      const ImVec2 at = ImGui::GetCursorScreenPos();
      text_at(at, fmt::format("{}", i + 1), t.dim, fonts().small);
      text_at({at.x + width, at.y}, slot.busy ? fmt::format("{} of {} tokens", slot.tokens, serving.context) : "free",
              slot.busy ? t.text : t.dim, fonts().small, 1);
      ImGui::Dummy({width, fonts().small->FontSize});
      bar(static_cast<float>(slot.tokens) / static_cast<float>(std::max<int64_t>(1, serving.context)), {width, px(5)},
          t.accent);
      ImGui::EndGroup();
    }
    ImGui::PopStyleVar();
    if (serving.waiting > 0) text(fmt::format("{} more waiting for a slot", serving.waiting), t.amber, fonts().small);
  }

  static void draw_memory(const Serving& serving) {
    if (serving.context == 0) return wrapped("Not running: uses no memory.", theme().dim);
    line("Weights", core::human_bytes(serving.weight_bytes));
    if (!serving.embeds) line("KV caches", core::human_bytes(serving.cache_bytes));
    line("Scratch", core::human_bytes(serving.scratch_bytes));
    line("Prompt tokens", fmt::format("{}", serving.prompt_tokens));
    if (serving.embeds) return;
    const double share = serving.prompt_tokens > 0 ? 100.0 * static_cast<double>(serving.cached_tokens) /
                                                         static_cast<double>(serving.prompt_tokens)
                                                   : 0;
    line("of them cached", fmt::format("{} ({:.0f} %)", serving.cached_tokens, share));
    line("Generated tokens", fmt::format("{}", serving.answer_tokens));
  }

  void draw_example(const Serving& serving) {
    const bool on = serving.state == Serving::State::on;
    const std::string address = on ? serving.address : fmt::format("http://{}:{}", kHere, port_ > 0 ? port_ : 8080);
    const std::string key = key_.empty() ? "" : " \\\n  -H 'Authorization: Bearer KEY'";
    const std::string text =
        fmt::format("{} Running and recent requests appear here. In a terminal:\n\n"
                    "```bash\ncurl {}/v1/chat/completions{} \\\n"
                    "  -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'\n```\n\n"
                    "Programs for OpenAI's API use the base URL `{}/v1`; those for Anthropic's and Ollama's use `{}`.",
                    on ? "No requests yet." : "Start the server to answer requests.", address, key, address, address);
    ImGui::BeginChild("example");
    example_.draw(text, ImGui::GetContentRegionAvail().x);
    ImGui::EndChild();
  }

  void draw_requests(const Serving& serving) {
    const Theme& t = theme();
    if (serving.latest.empty()) return draw_example(serving);
    ImGui::PushFont(fonts().small);
    if (ImGui::BeginTable("requests", 6,
                          ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_PadOuterX |
                              ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit)) {
      ImGui::TableSetupScrollFreeze(0, 1);
      ImGui::TableSetupColumn("request", ImGuiTableColumnFlags_WidthStretch);
      for (const char* column : {"prompt", "cached", "answer", "time"})
        ImGui::TableSetupColumn(column, ImGuiTableColumnFlags_WidthFixed, px(66));
      ImGui::TableSetupColumn("state", ImGuiTableColumnFlags_WidthFixed, px(150));
      ImGui::TableHeadersRow();
      int64_t waiting = serving.waiting; // the latest requests have no slot yet
      for (const Serving::Request& request : serving.latest) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(request.route.c_str());
        number(fmt::format("{}", request.prompt_tokens));
        number(request.ended ? fmt::format("{}", request.cached_tokens) : "");
        number(fmt::format("{}", request.answer_tokens));
        number(core::human_seconds(request.seconds));
        ImGui::TableNextColumn();
        const bool failed = !request.problem.empty(), begun = request.ended || request.answer_tokens > 0;
        const bool waits = !begun && waiting-- > 0;
        const char* const state = failed          ? request.problem.c_str()
                                  : request.ended ? "done"
                                  : begun         ? "writing"
                                  : waits         ? "waiting"
                                                  : "reading";
        text(state, failed || waits ? t.amber : request.ended ? t.dim : t.green, fonts().small);
        if (failed) tooltip(request.problem);
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  static void number(const std::string& cell) {
    ImGui::TableNextColumn();
    const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(cell.c_str()).x;
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room));
    ImGui::TextUnformatted(cell.c_str());
  }

  MarkdownView example_;
  int reach_ = 0, port_ = 8080, parallel_ = 4;
  std::string key_;
};

} // namespace

std::unique_ptr<Panel> make_server_panel() { return std::make_unique<ServerPanel>(); }

} // namespace ridge::ui
