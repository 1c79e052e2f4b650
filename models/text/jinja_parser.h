// Source text to a tree: Jinja2's grammar with the extensions chat templates use (break and continue, do, generation).
#pragma once

#include "models/text/jinja_ast.h"
#include "models/text/jinja_limits.h"

namespace ridge::models::text::jinja {

// `source` is normalized. Throws PlacedProblem.
Block parse(std::string_view source, const Limits& limits);

} // namespace ridge::models::text::jinja
