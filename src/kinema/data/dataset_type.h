#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// What kind of data set a folder is, by the names of its files.
namespace kinema::data {

/// `videos`, `hf` or `tfrecord`; empty: none of the names tells.
std::string dataset_type_of(const std::vector<std::string>& names);

/// Names of the files in a folder and those below it, from the folder's; hidden ones are not among
/// them. At most some thousands: enough to tell what they are.
std::vector<std::string> file_names(const std::filesystem::path& folder);

/// `it holds 3 HEIC pictures, which are not read: ...` and what to do; empty where none of the
/// names is a picture's of such a format.
std::string unread_pictures(const std::vector<std::string>& names);

/// `holds videos: dataset_type=videos reads them`, for who looked for something else; empty where
/// that is not known or no better.
std::string other_type_hint(const std::filesystem::path& folder, const std::string& type);

}  // namespace kinema::data
