// The conversation of a request to POST /v1/responses.
#pragma once

#include "server/models/service.h"
#include "server/requests/pictures.h"

#include <functional>

namespace ridge::server {

// That of `previous_response_id`, if any, and `input`; `pictures` must outlive it. Throws ApiError for an unknown id
// and malformed items, and without `input`, unless it is optional and there is an earlier response.
Json response_messages(const Service& service, const Fields& body, RequestPictures& pictures,
                       bool input_is_optional = false);

// Drops as few of the oldest messages as necessary for at most `room` tokens of make(messages). Initial system messages
// stay; results stay with their calls.
Generation without_oldest(const Json& messages, int64_t room, const std::function<Generation(const Json&)>& make);

} // namespace ridge::server
