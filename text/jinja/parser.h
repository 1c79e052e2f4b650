// Source text to a tree: Jinja2's grammar with the extensions chat templates use (break and continue, do, generation).
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace ridge::text::jinja {

// `source` is normalized. Throws PlacedProblem.
Block parse(std::string_view source, const Limits& limits);

} // namespace ridge::text::jinja
