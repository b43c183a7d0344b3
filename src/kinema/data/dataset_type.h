#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// The kind of data set in a folder, from the names of its files.
namespace kinema::data {

/// `videos`, `hf` or `tfrecord`; empty: unknown.
std::string detect_dataset_type(const std::vector<std::string>& names);

/// Relative names of the files in a folder and its subfolders, without hidden files. At most some
/// thousands, which is enough to identify the kind.
std::vector<std::string> file_names(const std::filesystem::path& folder, size_t most = 4096);

/// `it holds 3 HEIC pictures, which are not read: ...` with a remedy, else the same of an archive;
/// empty if there are neither.
std::string unread_files(const std::vector<std::string>& names);

/// `holds videos: dataset_type=videos reads them`, for an error about a folder of another kind;
/// empty if the kind is unknown or the same.
std::string other_type_hint(const std::filesystem::path& folder, const std::string& type);

}  // namespace kinema::data
