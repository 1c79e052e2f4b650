// Walks a schema and writes one grammar rule per part of it. Rules with the same body are written once.
#pragma once

#include "text/grammar/json_schema/json_schema_parts.h"
#include "text/grammar/json_schema/json_schema_rules.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ridge::text {

class SchemaConverter {
 public:
  // Both must outlive it.
  SchemaConverter(const Json& document, GrammarRules& rules) : parts_(document, rules), rules_(rules) {}

  // An expression for a schema within the document: a name or something in parentheses. Throws Error where the schema
  // becomes too large, and where nothing satisfies it, unless the rules' detail says otherwise.
  std::string convert(const Json& schema, const std::string& hint);

 private:
  // Inside a part of a value, the references that are open outside no longer mean endless recursion.
  class Part {
   public:
    explicit Part(SchemaConverter& converter) : converter_(converter) {
      outer_.swap(converter.open_references_);
      ++converter.depth_;
    }
    ~Part() {
      outer_.swap(converter_.open_references_);
      --converter_.depth_;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    SchemaConverter& converter_;
    std::vector<std::string> outer_;
  };
  using Schemas = std::vector<std::pair<Json, std::string>>; // with their paths

  std::string visit(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_any(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_reference(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_alternatives(const Schemas& schemas, const std::string& hint);
  std::string visit_types(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_type(const std::string& type, const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_array(const Json& schema, const std::string& path, const std::string& hint);

  std::string visit_part(const Json& schema, const std::string& path, const std::string& hint);
  // Null: nothing satisfies the part.
  std::optional<std::string> visit_optional(const Json& schema, const std::string& path, const std::string& hint);
  void forget(size_t rule_count); // all rules but so many
  // Any value of the schema's types.
  std::string write_types(const Json& schema);

  // Objects (json_schema_objects.cpp).
  struct Property {
    std::string pair; // the rule of "name": value
    bool required;
  };
  struct NamePattern {
    StringSet names;
    Json schema;
  };
  struct Object {
    std::vector<Property> properties;
    std::set<std::string> names;       // of these and of those that must be absent
    std::vector<NamePattern> patterns; // further names
    std::optional<StringSet> allowed;  // names, by propertyNames; null: all
    bool open = false;                 // names without a pattern may be there, too,
    Json additional = true;            // and are of this schema
    std::string more;                  // the rule of one further "name": value; empty: there is none
  };
  std::string visit_object(const Json& schema, const std::string& path, const std::string& hint);
  Json schema_of(const Object& object, const std::string& name, const Json* declared) const;
  bool may_be_there(const Object& object, const std::string& name) const;
  void add_property(Object& object, const std::string& name, const Json& value, bool required, const std::string& path,
                    const std::string& hint);
  void read_patterns(Object& object, const Json& schema, const std::string& path);
  // The names that propertyNames lists, unless it says something else.
  std::optional<std::set<std::string>> read_names(Object& object, const Json& schema, const std::string& path);
  std::string write_more(const Object& object, const std::string& path, const std::string& hint);
  std::string write_any_name(const Object& object, const Json& value, const std::string& path, const std::string& hint);
  std::string write_members(const Object& object, const std::string& hint);
  std::string write_counted_members(const Object& object, uint32_t min, std::optional<uint32_t> max,
                                    const std::string& path, const std::string& hint);

  SchemaParts parts_;
  GrammarRules& rules_;
  std::map<std::string, size_t> rule_of_reference_; // by $ref
  std::vector<std::string> open_references_;        // followed since the last part of a value was entered
  size_t nesting_ = 0, depth_ = 0;
};

} // namespace ridge::text
