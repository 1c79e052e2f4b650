// The messages of a conversation with all that were written in their places: a tree, and the path through it that is
// shown. A question that is edited and an answer that is written again leave what was there, with all that followed.
#pragma once

#include "core/view/snapshot.h"
#include "engine/conversation.h"

#include <cstddef>
#include <vector>

namespace ridge::app {

using engine::Json;

class MessageTree {
 public:
  struct Node {
    int parent; // -1: none
    core::ChatMessage shown;
    Json sent;           // as the model has it; pictures are not in it
    int last_child = -1; // that was on the path
  };

  size_t size() const { return path_.size(); } // of the path
  const Node& at(size_t message) const { return nodes_[static_cast<size_t>(path_[message])]; }
  // In the order in which they were written.
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& path() const { return path_; }

  void add(core::ChatMessage shown, Json sent); // at the end of the path
  void cut(size_t length);                      // what follows leaves the path
  void replace(size_t message, const std::string& text);
  void forget_choices(); // of all answers: another vocabulary's
  // The path goes through another version of a message, and on as it did. False where there is none.
  bool turn(size_t message, int version);
  // The path's messages, each with its number among its versions.
  std::vector<core::ChatMessage> shown() const;
  Json sent() const;

  // A node that need not be on the path, below one that is there already (-1: none).
  void add_node(int parent, core::ChatMessage shown, Json sent);
  void go_to(int node); // the path ends there

 private:
  std::vector<int> versions_of(size_t message) const; // numbers of nodes

  std::vector<Node> nodes_;
  std::vector<int> path_;
};

} // namespace ridge::app
