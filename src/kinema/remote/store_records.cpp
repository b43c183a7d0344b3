#include "kinema/remote/store_records.h"

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/records/tfrecord.h"

namespace kinema::remote {

namespace fs = std::filesystem;

namespace {

/// An object of a listing, opened at its first read.
class ListedObject : public io::RangedFile {
 public:
  ListedObject(Store store, StoredFile file)
      : store_(std::move(store)),
        file_(std::move(file)),
        path_(store_.path().below(file_.name).text()) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return file_.size; }
  void read(int64_t begin, std::span<std::byte> to) const override { opened().read(begin, to); }

 private:
  const StoredObject& opened() const {
    const std::scoped_lock lock(mutex_);
    if (!object_) {
      StoredObject object = store_.open(file_.name);
      check(object.size() == file_.size, "[remote] {} changed: it had {} bytes, now {}", path_,
            file_.size, object.size());
      object_ = std::move(object);
    }
    return *object_;
  }

  Store store_;
  StoredFile file_;
  std::string path_;
  mutable std::mutex mutex_;
  mutable std::optional<StoredObject> object_;
};

/// An index is a TFRecord file of one record: size and time of the object, then the lengths, all as
/// 64-bit words in this machine's byte order.
std::string index_text(const StoredFile& file, const std::vector<uint64_t>& lengths) {
  std::vector<uint64_t> words{static_cast<uint64_t>(file.size),
                              static_cast<uint64_t>(file.modified_ns)};
  words.insert(words.end(), lengths.begin(), lengths.end());
  return records::frame_record({reinterpret_cast<const char*>(words.data()), words.size() * 8});
}

/// Without it the next run reads the lengths again.
void keep(const fs::path& index, const std::string& text) {
  try {
    io::make_folder(index.parent_path());
    io::write_file(index, text);
  } catch (const Error&) {
  }
}

}  // namespace

std::vector<StoredFile> record_shards(const std::vector<StoredFile>& files) {
  std::map<std::string, StoredFile> here;
  std::vector<std::string> names;
  for (const StoredFile& file : files) {
    if (file.name.find('/') == std::string::npos) {
      names.push_back(file.name);
      here.emplace(file.name, file);
    }
  }
  std::vector<StoredFile> out;
  for (const std::string& name : records::shards_of(std::move(names))) {
    out.push_back(here.at(name));
  }
  return out;
}

std::optional<records::RangedTfRecords> records_by_index(
    const fs::path& index, const StoredFile& shard,
    const std::shared_ptr<const io::RangedFile>& object) {
  try {
    const records::TfRecordFile kept = records::TfRecordFile::open(index);
    const std::span<const std::byte> bytes = kept.at(0);
    std::vector<uint64_t> words(bytes.size() / 8);
    if (words.size() < 2) {
      return std::nullopt;
    }
    std::memcpy(words.data(), bytes.data(), words.size() * 8);
    if (words[0] != static_cast<uint64_t>(shard.size) ||
        words[1] != static_cast<uint64_t>(shard.modified_ns)) {
      return std::nullopt;
    }
    words.erase(words.begin(), words.begin() + 2);
    return records::RangedTfRecords(object, words);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<records::RangedTfRecords> open_records(
    const Store& store, const std::vector<StoredFile>& shards, const fs::path& index,
    int connections, const std::function<void(int64_t done, int64_t total)>& progress) {
  const StorePath& path = store.path();
  const fs::path folder = index / path.scheme / path.bucket / path.name;
  std::vector<std::optional<records::RangedTfRecords>> opened(shards.size());
  std::mutex mutex;
  int64_t done = 0;
  for_each_in_parallel(shards.size(), connections, [&](size_t i) {
    const StoredFile& file = shards[i];
    const auto object = std::make_shared<const ListedObject>(store, file);
    const fs::path kept = folder / (file.name + ".index");
    opened[i] = records_by_index(kept, file, object);
    if (!opened[i]) {
      const std::vector<uint64_t> lengths = records::read_record_lengths(*object);
      opened[i].emplace(object, lengths);
      keep(kept, index_text(file, lengths));
    }
    const std::scoped_lock lock(mutex);
    ++done;
    if (progress) {
      progress(done, static_cast<int64_t>(shards.size()));
    }
  });
  std::vector<records::RangedTfRecords> out;
  for (auto& shard : opened) {
    out.push_back(*std::move(shard));
  }
  return out;
}

}  // namespace kinema::remote
