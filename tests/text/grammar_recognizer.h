// An independent GBNF parser and recognizer as a reference: computes the end positions of a symbol in a code-point
// string. Well-formed grammars only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace ridge::tests {

class Recognizer {
 public:
  explicit Recognizer(const std::string& gbnf) : text_(decode(gbnf)) {
    space(true);
    while (pos_ < text_.size()) {
      const std::string name = word();
      space(false);
      pos_ += 3;
      space(true);
      rules_[name] = alternatives(false);
      space(true);
    }
  }

  bool accepts(const std::string& output) {
    start(output);
    return ends_of_root().contains(input_.size());
  }

  // Requires that every rule matches something.
  bool is_prefix(const std::string& output) {
    start(output);
    return ends_of_root().contains(input_.size()) || wanted_more_;
  }

  static std::u32string decode(const std::string& utf8) {
    std::u32string result;
    for (size_t i = 0; i < utf8.size();) {
      const auto first = static_cast<unsigned char>(utf8[i]);
      const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
      if ((first >= 0x80 && first < 0xc2) || i + size > utf8.size()) throw std::runtime_error("not UTF-8");
      char32_t value = size == 1 ? first : first & (0xffu >> (size + 1));
      for (size_t k = 1; k < size; ++k) {
        if ((utf8[i + k] & 0xc0) != 0x80) throw std::runtime_error("not UTF-8");
        value = value << 6 | (static_cast<unsigned char>(utf8[i + k]) & 0x3f);
      }
      result += value;
      i += size;
    }
    return result;
  }

 private:
  using Ends = std::set<size_t>;
  struct Node {
    enum { literal, set, rule, sequence, choice, repeat } kind;
    std::u32string chars;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false;
    std::string name;
    std::vector<std::shared_ptr<Node>> children;
    size_t min = 0, max = SIZE_MAX;
  };
  using NodePtr = std::shared_ptr<Node>;

  bool is(char32_t c) const { return pos_ < text_.size() && text_[pos_] == c; }
  static bool is_word(char32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  void space(bool newlines) {
    while (is(' ') || is('\t') || is('#') || (newlines && (is('\n') || is('\r')))) {
      if (is('#')) {
        while (pos_ < text_.size() && !is('\n')) ++pos_;
      } else {
        ++pos_;
      }
    }
  }
  std::string word() {
    std::string name;
    while (pos_ < text_.size() && is_word(text_[pos_])) name += static_cast<char>(text_[pos_++]);
    if (name.empty()) throw std::runtime_error("recognizer: name expected");
    return name;
  }
  size_t number() { return std::stoul(word()); }
  char32_t character() {
    if (!is('\\')) return text_[pos_++];
    const char32_t c = text_[pos_ + 1];
    pos_ += 2;
    if (c == 'n') return '\n';
    if (c == 'r') return '\r';
    if (c == 't') return '\t';
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return c;
    std::string hex;
    for (size_t i = 0; i < digits; ++i) hex += static_cast<char>(text_[pos_++]);
    return static_cast<char32_t>(std::stoul(hex, nullptr, 16));
  }
  NodePtr alternatives(bool nested) {
    auto node = std::make_shared<Node>(Node{Node::choice});
    node->children.push_back(sequence(nested));
    while (is('|')) {
      ++pos_;
      space(true);
      node->children.push_back(sequence(nested));
    }
    return node;
  }
  NodePtr sequence(bool nested) {
    auto node = std::make_shared<Node>(Node{Node::sequence});
    auto& items = node->children;
    while (pos_ < text_.size()) {
      if (is('"')) {
        items.push_back(std::make_shared<Node>(Node{Node::literal}));
        for (++pos_; !is('"');) items.back()->chars += character();
        ++pos_;
      } else if (is('[') || is('.')) {
        items.push_back(std::make_shared<Node>(Node{Node::set}));
        if (is('.')) {
          items.back()->ranges = {{0, 0x10ffff}};
        } else {
          ++pos_;
          if (is('^')) {
            items.back()->negated = true;
            ++pos_;
          }
          while (!is(']')) {
            const char32_t first = character();
            char32_t last = first;
            if (is('-') && text_[pos_ + 1] != ']') {
              ++pos_;
              last = character();
            }
            items.back()->ranges.push_back({first, last});
          }
        }
        ++pos_;
      } else if (is('(')) {
        ++pos_;
        space(true);
        items.push_back(alternatives(true));
        ++pos_;
      } else if (is('*') || is('+') || is('?') || is('{')) {
        auto repeat = std::make_shared<Node>(Node{Node::repeat});
        repeat->children.push_back(items.back());
        if (is('+')) repeat->min = 1;
        if (is('?')) repeat->max = 1;
        if (is('{')) {
          ++pos_;
          repeat->min = repeat->max = number();
          if (is(',')) {
            ++pos_;
            repeat->max = is('}') ? SIZE_MAX : number();
          }
        }
        ++pos_;
        items.back() = repeat;
      } else if (is_word(text_[pos_])) {
        items.push_back(std::make_shared<Node>(Node{Node::rule}));
        items.back()->name = word();
      } else {
        break;
      }
      space(nested);
    }
    return node;
  }

  void start(const std::string& output) {
    input_ = decode(output);
    known_.clear();
    wanted_more_ = false;
  }
  const Ends& ends_of_root() { return ends(*rules_.at("root"), 0); }

  const Ends& ends(const Node& node, size_t at) {
    const auto [entry, is_new] = known_.try_emplace({&node, at});
    if (is_new) {
      Ends result = compute(node, at);
      known_[{&node, at}] = std::move(result);
    }
    return known_[{&node, at}];
  }
  Ends compute(const Node& node, size_t at) {
    switch (node.kind) {
    case Node::literal:
      for (size_t i = 0; i < node.chars.size(); ++i) {
        if (at + i == input_.size()) {
          wanted_more_ = true;
          return {};
        }
        if (input_[at + i] != node.chars[i]) return {};
      }
      return {at + node.chars.size()};
    case Node::set: {
      if (at == input_.size()) {
        wanted_more_ = true;
        return {};
      }
      bool is_in = false;
      for (const auto& [first, last] : node.ranges) is_in |= input_[at] >= first && input_[at] <= last;
      return is_in != node.negated ? Ends{at + 1} : Ends{};
    }
    case Node::rule: return ends(*rules_.at(node.name), at);
    case Node::choice: {
      Ends result;
      for (const auto& child : node.children) result.merge(Ends(ends(*child, at)));
      return result;
    }
    case Node::sequence: {
      Ends current = {at};
      for (const auto& child : node.children) current = all_ends(*child, current);
      return current;
    }
    case Node::repeat: {
      Ends current = {at}, result;
      if (node.min == 0) result = current;
      for (size_t i = 1; i <= node.max && !current.empty(); ++i) {
        current = all_ends(*node.children[0], current);
        const size_t before = result.size();
        if (i >= node.min) result.insert(current.begin(), current.end());
        if (i > node.min && result.size() == before) break;
      }
      return result;
    }
    }
    return {};
  }
  Ends all_ends(const Node& node, const Ends& starts) {
    Ends result;
    for (const size_t start : starts) result.merge(Ends(ends(node, start)));
    return result;
  }

  std::u32string text_, input_;
  size_t pos_ = 0;
  std::map<std::string, NodePtr> rules_;
  std::map<std::pair<const Node*, size_t>, Ends> known_;
  bool wanted_more_ = false;
};

} // namespace ridge::tests
