#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kinema/http/message.h"

namespace kinema::http {

/// A file as an answer to GET or HEAD: 200, 206 or 416 by `Range`, 304 by `If-None-Match`. The tag
/// follows from the file's number, size and time. Throws a Refusal of status 404 if there is no
/// regular file.
Response file_response(const Request& request, const std::filesystem::path& path,
                       std::string_view type);
/// The same with bytes that are part of the program, whose `tag` changes with them.
Response bytes_response(const Request& request, std::string_view bytes, std::string_view type,
                        std::string_view tag);

/// The media type of a file's name among those that are shown: png, jpg, webp, gif, mp4, webm,
/// json, txt. Others are `application/octet-stream`, which browsers store and never show.
std::string_view media_type_of(const std::filesystem::path& name);

/// The value of `Content-Disposition` that has the browser store a file: ASCII letters of the name
/// are kept for old clients, all of it for others (RFC 6266).
std::string attachment(std::string_view name);

}  // namespace kinema::http
