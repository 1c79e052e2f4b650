// An open model with its session and conversation. Only for the files of WindowEngine.
#pragma once

#include "app/window/window_engine.h"
#include "engine/options.h"
#include "engine/speculation/speculation.h"

namespace ridge::app {

struct WindowEngine::Loaded {
  engine::LoadedModel model;
  engine::Device device;
  text::ChatTemplate chat_template;
  engine::Session session;
  engine::Conversation conversation;

  Loaded(engine::LoadedModel opened, const WindowSetup& setup)
      : model(std::move(opened)), device(setup.start(model, engine::generating_config(setup.model, model.program),
                                                     setup.model.device, engine::placement_of(setup.model))),
        chat_template(engine::choose_template(setup.request.chat_template, model.file, note)),
        session(*model.executor, model.program, engine::make_speculator(setup.model, model, {}),
                engine::prefix_settings(setup.prefixes, model.file, note), setup.clock),
        conversation(model, session, chat_template,
                     engine::template_variables(setup.request.chat_template, chat_template, note)) {}
};

} // namespace ridge::app
