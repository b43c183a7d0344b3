#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinema/data/clip_list.h"
#include "kinema/io/json.h"
#include "kinema/serve/looks.h"

namespace kinema::serve {

/// Folders of clips by the names that clients use: each folder's own, with a number if two have the
/// same.
std::map<std::string, std::filesystem::path> named_folders(const std::vector<std::string>& folders);

/// The data sets of a server. Files are opened only inside their folders, by the listing and not by
/// a path of a client. Safe to use from several threads.
class Datasets {
 public:
  Datasets(const std::vector<std::string>& folders, Looks& looks);

  io::Json list();
  /// Each throws an http::Refusal of status 404 for an unknown data set or clip.
  io::Json clips(const std::string& name, int64_t offset, int64_t limit);
  /// Replaces a caption in the file of its clip, which appears complete or not at all. 409 if it is
  /// not `was` any more or the captions are in one list; 422 for a caption that is no text.
  io::Json set_caption(const std::string& name, const std::string& id, const std::string& caption,
                       const std::string& was);
  /// A clip's file.
  std::filesystem::path file(const std::string& name, const std::string& id);
  /// A small picture of it. 404 if it has none.
  std::filesystem::path thumb(const std::string& name, const std::string& id);

 private:
  struct Set {
    std::filesystem::path folder;
    std::vector<data::CaptionedClip> clips;
    std::vector<std::string> problems;
    std::map<std::string, size_t> by_id;
    int64_t bytes = 0;
    bool is_editable = false;
    std::chrono::steady_clock::time_point read_at{};
  };
  /// With the lock. Reads the folder if it was read ten seconds ago or, `anew`, in any case.
  Set& find(const std::string& name, bool anew = false);
  static void read(Set& set);
  static const data::CaptionedClip& clip_of(const Set& set, const std::string& id);
  static io::Json to_json(const std::string& name, const Set& set, const data::CaptionedClip& clip,
                          const Look& look);

  Looks& looks_;
  std::mutex mutex_;
  std::map<std::string, Set> sets_;
};

}  // namespace kinema::serve
