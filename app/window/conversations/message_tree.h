// All versions of a conversation's messages as a tree, with the shown path. Editing or regenerating adds a branch.
#pragma once

#include "api/snapshot.h"
#include "engine/chat/conversation.h"

#include <cstddef>
#include <vector>

namespace ridge::app {

using engine::Json;

class MessageTree {
 public:
  struct Node {
    int parent; // -1: none
    api::ChatMessage shown;
    Json sent;           // the model's form, without pictures
    int last_child = -1; // last child on the path
  };

  size_t size() const { return path_.size(); }
  const Node& at(size_t message) const { return nodes_[static_cast<size_t>(path_[message])]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& path() const { return path_; }

  void add(api::ChatMessage shown, Json sent); // appends to the path
  void cut(size_t length);                     // later messages leave the path
  void replace(size_t message, const std::string& text);
  void forget_choices(); // call when the vocabulary changes
  // Shows another version of a message; the path then follows last_child. Returns false if there is no such version.
  bool select_version(size_t message, int version);
  // The path's messages with their version numbers.
  std::vector<api::ChatMessage> shown() const;
  Json sent() const;

  // `parent`: -1 for a root. Does not change the path.
  void add_node(int parent, api::ChatMessage shown, Json sent);
  void go_to(int node); // the path then ends at it

 private:
  std::vector<int> versions_of(size_t message) const; // node numbers

  std::vector<Node> nodes_;
  std::vector<int> path_;
};

} // namespace ridge::app
