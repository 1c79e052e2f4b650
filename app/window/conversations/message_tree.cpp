#include "app/window/conversations/message_tree.h"

#include <algorithm>
#include <utility>

namespace ridge::app {

void MessageTree::add(api::ChatMessage shown, Json sent) {
  add_node(path_.empty() ? -1 : path_.back(), std::move(shown), std::move(sent));
  go_to(static_cast<int>(nodes_.size()) - 1);
}

void MessageTree::cut(size_t length) {
  if (length < path_.size()) path_.resize(length);
}

void MessageTree::replace(size_t message, const std::string& text) {
  Node& node = nodes_[static_cast<size_t>(path_[message])];
  node.shown.text = text;
  node.shown.choices = nullptr; // of the old text
  node.sent["content"] = text;
}

void MessageTree::forget_choices() {
  for (Node& node : nodes_) node.shown.choices = nullptr;
}

bool MessageTree::select_version(size_t message, int version) {
  if (message >= path_.size()) return false;
  const std::vector<int> versions = versions_of(message);
  if (version < 0 || version >= static_cast<int>(versions.size())) return false;
  path_.resize(message);
  for (int next = versions[static_cast<size_t>(version)]; next >= 0;
       next = nodes_[static_cast<size_t>(next)].last_child)
    path_.push_back(next);
  go_to(path_.back());
  return true;
}

std::vector<api::ChatMessage> MessageTree::shown() const {
  std::vector<api::ChatMessage> messages;
  for (size_t i = 0; i < path_.size(); ++i) {
    const std::vector<int> versions = versions_of(i);
    messages.push_back(at(i).shown);
    messages.back().versions = static_cast<int>(versions.size());
    messages.back().version = static_cast<int>(std::ranges::find(versions, path_[i]) - versions.begin());
  }
  return messages;
}

Json MessageTree::sent() const {
  Json messages = Json::array();
  for (size_t i = 0; i < path_.size(); ++i) messages.push_back(at(i).sent);
  return messages;
}

void MessageTree::add_node(int parent, api::ChatMessage shown, Json sent) {
  nodes_.push_back({parent, std::move(shown), std::move(sent)});
  if (parent >= 0) nodes_[static_cast<size_t>(parent)].last_child = static_cast<int>(nodes_.size()) - 1;
}

void MessageTree::go_to(int node) {
  path_.clear();
  for (; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) path_.push_back(node);
  std::ranges::reverse(path_);
  for (size_t i = 1; i < path_.size(); ++i) nodes_[static_cast<size_t>(path_[i - 1])].last_child = path_[i];
}

std::vector<int> MessageTree::versions_of(size_t message) const {
  std::vector<int> versions;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].parent == at(message).parent) versions.push_back(static_cast<int>(i));
  return versions;
}

} // namespace ridge::app
