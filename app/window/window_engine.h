// The engine behind the window. It takes intents and publishes snapshots.
//
// Six threads take the intents, so that a short one never waits for a long one: the worker runs the model and owns
// the conversation; the query worker answers what takes no time, such as a single block; the study worker reads whole
// tensors, which takes seconds; the list worker looks into the models on this machine; the picture worker reads and
// decodes pictures; the encoder worker encodes those of the message that is being written. Jobs and the server have
// threads of their own.
#pragma once

#include "app/jobs.h"
#include "app/mcp/toolbox.h"
#include "app/window/conversations/conversation_store.h"
#include "app/window/conversations/message_tree.h"
#include "app/window/window_server.h"
#include "app/window/worker.h"
#include "core/clock.h"
#include "core/view/snapshot.h"
#include "engine/conversation.h"
#include "engine/options.h"
#include "engine/pictures/picture_shelf.h"
#include "measure/roofline_report.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <thread>

namespace ridge::app {

struct WindowSetup {
  core::ModelOptions model;
  core::GenerateRequest request; // of every answer; a model's own sampling stands in for what was not chosen
  McpOptions mcp;                // servers whose tools the model may call
  core::PrefixOptions prefixes;  // where conversations are kept that are not the open one
  // How a model gets its executor; empty: as everywhere.
  std::function<engine::Device(engine::LoadedModel&, const core::ExecutorConfig&, const std::string& device,
                               const engine::Placement&)>
      start = {};
  std::function<double()> clock = core::seconds_now; // that answers are timed with
  std::string conversation_folder;                   // empty: conversations end with the engine
  std::string preset_file;                           // empty: presets end with the engine
  bool remember_files = true;                        // among the recent ones
};

class WindowEngine {
 public:
  // Starts loading setup.model. wake is called, from any thread, when there is a new snapshot; at most 100 times a
  // second.
  WindowEngine(WindowSetup setup, std::function<void()> wake);
  ~WindowEngine(); // stops what it is doing

  void send(core::Intent intent);
  std::shared_ptr<const core::Snapshot> snapshot() const;

 private:
  struct Loaded; // a model with its session and conversation
  class SpeedMeter;

  void handle(const core::Intent& intent);
  // A model, with an encoder of pictures if that is named, or an encoder for the open model.
  void load(const std::string& path, const std::string& encoder = {});
  void open_with(const core::intent::OpenModel& wanted);
  // `encoder`: empty: there is none; else it is opened, too, or is what open_encoder() opens.
  void open_model(const std::string& path, gguf::File file, const std::string& encoder, bool with_encoder);
  void set_sampling(const core::intent::SetSampling& wanted);
  void study(const core::Intent& intent);
  void predict(const Loaded& loaded, const core::intent::PredictStep& wanted);

  // answers.cpp
  // The messages as they are, to go back to.
  struct Messages {
    std::vector<core::ChatMessage> shown;
    MessageTree tree;
    core::MessagePictures unsent; // of the message that is being written
  };
  Messages messages() const;
  // Opens it if the messages that are kept, or the new one, have pictures.
  void need_encoder(std::span<const core::ChatMessage> kept, const core::MessagePictures& sent);
  void say(const std::string& text);
  void ask(const std::string& text, const Messages& before);
  std::vector<text::ToolCall> write_answer(); // that it calls
  void answer(const Messages& before);        // `before`: what the conversation goes back to where the answer fails
  void regenerate(const core::intent::Regenerate& wanted);
  void edit(size_t message, const std::string& text);
  void show_speed(core::Snapshot& s, SpeedMeter& meter) const;
  static std::shared_ptr<const core::Sequences> sequences_of(const Loaded& loaded);

  void stop_answer();

  // tools.cpp
  void start_tools();
  void show_tools();
  // Gives the conversation the results of all of them. False: a person has stopped it.
  bool call_tools(const std::vector<text::ToolCall>& calls);
  std::string result_of(const Toolbox::Tool& tool, const text::ToolCall& call);
  bool is_allowed(const Toolbox::Tool& tool, const text::ToolCall& call); // asks where that is not known
  void take_decision(const core::intent::AnswerTool& decision);

  // pictures.cpp
  using Shelf = std::shared_ptr<engine::PictureShelf>; // null: the open model takes no pictures
  using Picture = std::shared_ptr<const core::MessagePicture>;
  void add_picture(const core::intent::AddPicture& wanted);
  void remove_picture(const std::string& key);
  void edit_pictures(size_t message);
  void enlarge_picture(const std::string& key);
  void open_encoder_for_unsent();
  void look_at_pictures(); // at those of which not everything is known
  void look_at(const Picture& picture);
  void take_facts(const Picture& picture, const media::Medium& medium);
  void change_facts(const std::string& key, const std::function<void(core::PictureFacts&)>& how);
  void forget_unused_pictures(); // what is known of them
  Shelf shelf() const;
  void open_encoder(); // and the model again, with it, unless it is open. Throws Error where the model has none.
  void encode_ahead(const core::MessagePicture& picture);
  std::shared_ptr<const engine::ShelvedPicture> encode(const Shelf& shelf, const core::MessagePicture& picture);
  // What stands for them, into the messages that the model gets. They are to be held until it has answered.
  using EncodedPictures = std::vector<std::shared_ptr<const engine::ShelvedPicture>>;
  EncodedPictures put_pictures();

  // load_settings.cpp
  static core::ModelOptions with_settings(core::ModelOptions options, const core::ModelOptions& wanted);
  void fit_model(const core::intent::FitModel& wanted);
  void save_preset(const std::string& name);
  void delete_preset(const std::string& name);
  void keep_presets(std::vector<core::Preset> presets);
  void use_preset(const std::string& name);

  // local_models.cpp
  void list_models(const core::ModelOptions& options);
  void offer_first_models();

  // conversations.cpp
  void open_conversation(const std::string& id); // empty: a new one
  void rename_conversation(const std::string& id, const std::string& title);
  void delete_conversation(const std::string& id);
  void set_system(const std::string& text);
  void show_path();
  void show_version(const core::intent::ShowVersion& wanted);
  void edit_answer(const core::intent::EditAnswer& wanted);
  void search_conversations(const std::string& text);
  void export_conversation(const std::string& path);
  void continue_conversation(Loaded& loaded) const; // gives a newly loaded model the messages so far
  void begin_conversation(const core::ChatMessage& question);
  void give_messages(StoredConversation& stored) const;
  StoredConversation* to_be_changed(const std::string& id); // or a copy of it; nullptr: there is none
  void save_conversation();
  void abandon_conversation(); // where its first question failed
  void list_conversations(core::Snapshot& s) const;

  // measurements.cpp
  void measure_roofs();
  void measure_step(int64_t past);
  static double roof_of(const Loaded& loaded, const std::function<double(engine::Device, int)>& peak);
  static double known_roof(const Loaded& loaded); // bytes per second; 0: not known yet
  void measure_roof_when_idle();
  void profile_here(int repetitions); // a step behind what the session holds
  static std::string roofs_key(const Loaded& loaded);
  void watch_gpu(const std::stop_token& stop);

  static constexpr int kQuickRepetitions = 5;

  // Changes the state under the lock and publishes it: at once, or when the last time is long enough ago.
  enum class Publish { now, soon };
  void change(const std::function<void(core::Snapshot&)>& how, Publish when = Publish::now);
  void fail(const std::string& error);
  void tell(const std::string& notice); // what the user should know, besides
  // Runs work; an Error becomes the snapshot's error.
  void guarded(const std::function<void()>& work, bool of_engine);

  WindowSetup setup_;
  std::function<void()> wake_;
  std::atomic<bool> cancel_ = false, closing_ = false;
  std::atomic<int> studies_waiting_ = 0; // the one that runs stops where there is another
  std::atomic<int> fits_waiting_ = 0;    // only the last one counts
  core::ModelOptions options_;           // as they were at the start
  // Only the worker uses the next ten.
  core::SamplingOptions asked_; // the sampling without what the open model recommends
  std::string path_;            // of the open model; empty: the guide
  std::string encoder_;         // of pictures, for the open model; empty: there is none
  bool told_deleted_ = false;   // that its file is
  double seconds_before_ = 0;   // of generation, in answers before this one
  Toolbox toolbox_;
  uint64_t tool_questions_ = 0;
  std::set<std::string> allowed_; // tools that are called without a question
  ConversationStore store_;
  MessageTree tree_; // of the conversation that is shown

  mutable std::mutex mutex_; // of the following
  core::Snapshot state_;
  std::shared_ptr<const core::Snapshot> published_;
  std::chrono::steady_clock::time_point published_at_;
  std::shared_ptr<Loaded> loaded_;
  std::shared_ptr<const measure::RooflineReport> roofs_; // of roofs_of_
  std::string roofs_of_;
  std::optional<core::intent::MayCall> decision_; // about the tool that is asked for
  std::condition_variable decided_;

  // Last, because their threads use all of the above.
  Worker worker_, study_worker_, query_worker_, list_worker_, picture_worker_, encoder_worker_;
  std::unique_ptr<JobQueue> jobs_;
  std::unique_ptr<WindowServer> server_;
  std::jthread gpu_watch_, roof_watch_;
};

} // namespace ridge::app
