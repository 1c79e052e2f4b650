// Parses Jinja2 with break, continue, do, generation.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace ridge::text::jinja {

// `source` is normalized. Throws PlacedProblem.
Block parse(std::string_view source, const Limits& limits);

} // namespace ridge::text::jinja
