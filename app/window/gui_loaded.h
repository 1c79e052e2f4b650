// A model with everything that GuiEngine keeps of it; only for its own files.
#pragma once

#include "app/window/gui_engine.h"

namespace ridge::app {

struct GuiEngine::Loaded {
  engine::LoadedModel model;
  engine::Device device;
  text::ChatTemplate chat_template;
  engine::Session session;
  engine::Conversation conversation{model, session, chat_template};

  Loaded(engine::LoadedModel opened, const GuiSetup& setup)
      : model(std::move(opened)), device(setup.start(model, setup.model.executor_config(model.program.trained_context),
                                                     setup.model.device, setup.model.gpu_layers)),
        chat_template(setup.chat_template.choose(model.file, note)), session(*model.executor, model.program) {}
};

} // namespace ridge::app
