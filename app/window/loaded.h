// Open model, session and conversation. Internal to WindowEngine.
#pragma once

#include "app/window/window_engine.h"
#include "engine/options.h"
#include "engine/speculation/speculation.h"

namespace ridge::app {

inline constexpr const char* kToNeedLess =
    "open it with fewer layers on the GPU or a shorter context (Open…, load settings)";

struct Loaded {
  engine::LoadedModel model;
  engine::Device device;
  text::ChatTemplate chat_template;
  engine::Session session;
  engine::Conversation conversation;

  Loaded(engine::LoadedModel opened, const WindowSetup& setup, const engine::LoadSteps& steps)
      : model(std::move(opened)), device(start(model, setup, steps)),
        chat_template(engine::choose_template(setup.request.chat_template, model.file, steps.note)),
        session(*model.executor, model.program, engine::make_speculator(setup.model, model, steps),
                engine::prefix_settings(setup.prefixes, model.file, steps.note), setup.clock),
        conversation(model, session, chat_template,
                     engine::template_variables(setup.request.chat_template, chat_template, steps.note)) {}

  static engine::Device start(engine::LoadedModel& model, const WindowSetup& setup, const engine::LoadSteps& steps) {
    const core::ExecutorConfig config = engine::generating_config(setup.model, model.program);
    const engine::Placement placement = engine::placement_of(setup.model);
    return setup.start ? setup.start(model, config, setup.model.device, placement)
                       : engine::start_executor(model, config, setup.model.device, placement, steps, kToNeedLess);
  }
};

} // namespace ridge::app
