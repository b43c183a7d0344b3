#pragma once

// Private to the module: what the APIs of other programs share.

#include <functional>
#include <string>
#include <utility>

#include "kinema/io/json.h"
#include "kinema/serve/api.h"

namespace kinema::serve {

void add_openai_routes(Api& api, Context& context);
void add_video_routes(Api& api, Context& context);
void add_a1111_routes(Api& api, Context& context);
void add_metrics_routes(Api& api, Context& context);

/// True if a key has an effect with the model.
bool has_key(Context& context, const std::string& model, const std::string& key);

/// Sets width and height from `WIDTHxHEIGHT`; `auto` and an empty text leave those of the model.
/// Throws a Refusal that names `size`.
void set_size(const std::string& size, io::Json& settings);

/// The id of an upload with the bytes of a base64 text or a `data:` URL. Throws a Refusal for
/// anything else: no URL is fetched for a client.
std::string upload_base64(Context& context, const std::string& text, const std::string& param);

/// The member as a text, or `otherwise` where it is absent or null. Throws a Refusal of status 400
/// that names the member for another type.
std::string text_member(const io::Json& json, const std::string& name,
                        const std::string& otherwise = "");
/// The same for an integer, also one that is written as a text or as 1.0.
int64_t integer_member(const io::Json& json, const std::string& name, int64_t otherwise);
double number_member(const io::Json& json, const std::string& name, double otherwise);
bool bool_member(const io::Json& json, const std::string& name, bool otherwise);

/// Sets image_format and image_quality. Throws a Refusal of status 422 that names `names.first` for
/// another format than png, jpg, jpeg and webp, `names.second` for a quality outside of 0 to 100.
void set_image_format(io::Json& settings, const std::string& format, int64_t quality,
                      const std::pair<const char*, const char*>& names);

/// The whole file as base64.
std::string file_base64(const std::filesystem::path& path);

/// Adds a job whose client may ask again when it thinks that the answer is lost: a retry within 15
/// minutes, which says of itself that it is one, gets the job of the equal first request.
JobRecord add_retried(Context& context, const http::Request& request, std::string_view body,
                      MakeRequest asked, const std::string& source);

/// Sends `answer(job)` when the job has ended, or an error if it failed. It is cancelled when the
/// client has been gone for a while.
void answer_when_ended(Context& context, const http::Request& request, const JobRecord& job,
                       const http::Reply& reply,
                       std::function<http::Response(const JobRecord&)> answer);

/// A job that failed or was cancelled, as a Refusal.
http::Refusal failure_of(const JobRecord& job);

}  // namespace kinema::serve
