// The engine behind the window: takes intents, publishes snapshots.
// Threads: the worker runs the model and owns the conversation; the query worker does quick work; the study worker
// reads whole tensors (seconds); the picture worker decodes; the encoder worker encodes pictures of the unsent message.
// Its parts have threads of their own.
#pragma once

#include "api/snapshot.h"
#include "app/jobs.h"
#include "app/window/board.h"
#include "app/window/conversations/conversation_store.h"
#include "app/window/conversations/message_tree.h"
#include "app/window/model_lists.h"
#include "app/window/tool_desk.h"
#include "app/window/window_server.h"
#include "app/window/worker.h"
#include "core/clock.h"
#include "engine/chat/conversation.h"
#include "engine/options.h"
#include "engine/pictures/picture_shelf.h"
#include "media/sound/microphone.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace ridge::app {

struct WindowSetup {
  api::ModelOptions model;
  api::GenerateRequest request; // unset sampling options come from the model
  McpOptions mcp;
  api::PrefixOptions prefixes; // for closed conversations
  // Creates a model's executor; empty: the default.
  std::function<engine::Device(engine::LoadedModel&, const core::ExecutorConfig&, const std::string& device,
                               const engine::Placement&)>
      start = {};
  std::function<double()> clock = core::seconds_now; // for answer times
  std::string conversation_folder;                   // empty: nothing is stored
  std::string preset_file;                           // empty: nothing is stored
  bool remember_files = true;
};

struct Loaded; // loaded.h
class Gauges;

class WindowEngine {
 public:
  // Starts to load setup.model. `wake` is called from any thread after a new snapshot, at most 100 times a second.
  WindowEngine(WindowSetup setup, std::function<void()> wake);
  ~WindowEngine();

  void send(api::Intent intent);
  std::shared_ptr<const api::Snapshot> snapshot() const { return board_.snapshot(); }

 private:
  class SpeedMeter;

  void handle(const api::Intent& intent);
  // Loads a model with an optional encoder, or an encoder for the open model.
  void load(const std::string& path, const std::string& encoder = {});
  void open_with(const api::intent::OpenModel& wanted);
  void reopen();
  // `encoder` is opened (with_encoder) or left for open_encoder().
  void open_model(const std::string& path, gguf::File file, const std::string& encoder, bool with_encoder);
  void set_sampling(const api::intent::SetSampling& wanted);
  void study(const api::Intent& intent);

  // adapters.cpp
  void add_adapter(const std::string& path);
  void remove_adapter(size_t number);
  void scale_adapter(const api::intent::ScaleAdapter& wanted);
  void open_with_adapters(std::vector<api::AdapterOption> wanted);
  std::vector<api::AdapterRow> rows_of_adapters(const Loaded& loaded) const;
  void use_adapters_of(const StoredConversation& stored);
  void give_adapters(StoredConversation& stored) const;
  const api::GenerateRequest& request_with_adapters();

  // answers.cpp
  // A copy of the messages, to restore them after a failure.
  struct Messages {
    std::vector<api::ChatMessage> shown;
    MessageTree tree;
    api::MessagePictures unsent;
  };
  Messages messages() const;
  // Opens the encoder if any of these messages have pictures.
  void need_encoder(std::span<const api::ChatMessage> kept, const api::MessagePictures& sent);
  void send_message(const std::string& text);
  void append_and_answer(const std::string& text, const Messages& before);
  std::vector<text::ToolCall> write_answer(); // returns its tool calls
  void answer(const Messages& before);        // `before`: restored on failure
  engine::TextSink shown_while_written(SpeedMeter& meter);
  std::function<void(std::span<const int32_t>)> shown_while_forming(SpeedMeter& meter);
  void compact();
  void regenerate(const api::intent::Regenerate& wanted);
  void edit(size_t message, const std::string& text);
  void show_speed(api::Snapshot& s, SpeedMeter& meter, const engine::Usage& generation) const;
  static std::shared_ptr<const api::Sequences> sequences_of(const Loaded& loaded);

  void stop_answer();

  // pictures.cpp
  using Shelf = std::shared_ptr<engine::PictureShelf>; // null: no pictures
  using Picture = std::shared_ptr<const api::MessagePicture>;
  void add_picture(const api::intent::AddPicture& wanted);
  void remove_picture(const std::string& key);
  void edit_pictures(size_t message);
  void enlarge_picture(const std::string& key);
  void listen(bool on); // only the thread that sends intents
  void open_encoder_for_unsent();
  void read_missing_picture_facts();
  void read_picture_facts(const Picture& picture);
  void store_picture_facts(const Picture& picture, const media::Medium& medium);
  void change_facts(const std::string& key, const std::function<void(api::PictureFacts&)>& how);
  void forget_unused_pictures();
  Shelf shelf() const;
  void open_encoder(); // may reopen the model. Throws Error if it has none.
  void encode_ahead(const api::MessagePicture& picture);
  std::shared_ptr<const engine::ShelvedPicture> encode(const Shelf& shelf, const api::MessagePicture& picture);
  // Puts placeholders into the messages. The caller holds the result until the answer ends.
  using EncodedPictures = std::vector<std::shared_ptr<const engine::ShelvedPicture>>;
  EncodedPictures put_pictures();

  // load_settings.cpp
  void save_preset(const std::string& name);
  void delete_preset(const std::string& name);
  void store_presets(std::vector<api::Preset> presets);
  void use_preset(const std::string& name);

  // conversations.cpp
  void open_conversation(const std::string& id); // empty: a new one
  void rename_conversation(const std::string& id, const std::string& title);
  void delete_conversation(const std::string& id);
  void set_system(const std::string& text);
  void show_path();
  void show_context();
  void show_version(const api::intent::ShowVersion& wanted);
  void edit_answer(const api::intent::EditAnswer& wanted);
  void search_conversations(const std::string& text);
  void export_conversation(const std::string& path);
  void continue_conversation(Loaded& loaded) const; // gives the messages to a newly loaded model
  void begin_conversation(const api::ChatMessage& question);
  void give_messages(StoredConversation& stored) const;
  StoredConversation* conversation_for_change(const std::string& id); // the conversation or a copy; nullptr: none
  void save_conversation();
  void abandon_conversation(); // when its first question failed
  void list_conversations(api::Snapshot& s) const;

  const api::Snapshot& state() const { return board_.state(); }
  void change(const std::function<void(api::Snapshot&)>& how, Board::Publish when = Board::Publish::now) {
    board_.change(how, when);
  }
  void fail(const std::string& error) { board_.fail(error); }
  void tell(const std::string& notice) { board_.tell(notice); }
  // Runs `work` on the worker, which is idle afterwards. An exception becomes the snapshot's error.
  void run(const std::function<void()>& work);
  void push(std::function<void()> work) {
    worker_.push([this, work = std::move(work)] { run(work); });
  }
  void push(Worker& worker, std::function<void()> work) {
    worker.push([this, work = std::move(work)] { board_.guarded(work); });
  }

  WindowSetup setup_;
  std::atomic<bool> cancel_ = false, closing_ = false;
  std::atomic<int> studies_waiting_ = 0;          // above one: the running study stops
  std::shared_ptr<media::Microphone> microphone_; // while it listens
  // Only the worker uses the next eight.
  api::SamplingOptions requested_sampling_;                         // without the model's recommendations
  std::string path_;                                                // empty: the guide
  std::string encoder_;                                             // empty: none
  std::map<std::string, std::vector<api::AdapterOption>> adapters_; // by the model's path
  bool deletion_reported_ = false;
  double seconds_before_ = 0; // of generation, in earlier answers
  ConversationStore store_;
  MessageTree tree_;

  Board board_;
  std::shared_ptr<Loaded> loaded_; // other threads read it under the board's lock
  ToolDesk tools_;

  // Last: their threads use the members above.
  Worker worker_, study_worker_, query_worker_, picture_worker_, encoder_worker_;
  ModelLists lists_;
  std::unique_ptr<Gauges> gauges_;
  std::unique_ptr<JobQueue> jobs_;
  std::unique_ptr<WindowServer> server_;
};

} // namespace ridge::app
