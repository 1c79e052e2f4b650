// Writes one grammar rule per part of a schema.
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

  // Returns an expression: a name or a group. Throws Error if the schema is too large, or unsatisfiable and
  // detail().strict.
  std::string convert(const Json& schema, const std::string& hint);

 private:
  // References that are open outside a part of a value do not count as recursion inside it.
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
  using Schemas = std::vector<std::pair<Json, std::string>>;

  std::string visit(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_any(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_reference(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_alternatives(const Schemas& schemas, const std::string& hint);
  std::string visit_types(const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_type(const std::string& type, const Json& schema, const std::string& path, const std::string& hint);
  std::string visit_array(const Json& schema, const std::string& path, const std::string& hint);

  std::string visit_part(const Json& schema, const std::string& path, const std::string& hint);
  // nullopt: unsatisfiable.
  std::optional<std::string> visit_optional(const Json& schema, const std::string& path, const std::string& hint);
  void forget(size_t rule_count);
  std::string write_types(const Json& schema);

  struct Property {
    std::string pair;
    bool required;
  };
  struct NamePattern {
    StringSet names;
    Json schema;
  };
  struct Object {
    std::vector<Property> properties;
    std::set<std::string> names;
    std::vector<NamePattern> patterns;
    std::optional<StringSet> allowed; // by propertyNames; nullopt: all
    bool open = false;                // allows names without a pattern,
    Json additional = true;           // with this schema
    std::string more;                 // rule of a further "name": value; empty: none
  };
  std::string visit_object(const Json& schema, const std::string& path, const std::string& hint);
  Json schema_of(const Object& object, const std::string& name, const Json* declared) const;
  bool may_be_there(const Object& object, const std::string& name) const;
  void add_property(Object& object, const std::string& name, const Json& value, bool required, const std::string& path,
                    const std::string& hint);
  void read_patterns(Object& object, const Json& schema, const std::string& path);
  // propertyNames, if a plain list.
  std::optional<std::set<std::string>> read_names(Object& object, const Json& schema, const std::string& path);
  std::string write_more(const Object& object, const std::string& path, const std::string& hint);
  std::string write_any_name(const Object& object, const Json& value, const std::string& path, const std::string& hint);
  std::string write_members(const Object& object, const std::string& hint);
  std::string write_counted_members(const Object& object, uint32_t min, std::optional<uint32_t> max,
                                    const std::string& path, const std::string& hint);

  SchemaParts parts_;
  GrammarRules& rules_;
  std::map<std::string, size_t> rule_of_reference_;
  std::vector<std::string> open_references_; // followed since the innermost part began
  size_t nesting_ = 0, depth_ = 0;
};

} // namespace ridge::text
