#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/ranged_file.h"
#include "kinema/remote/http.h"

namespace kinema::remote {

/// `gs://BUCKET/NAME` or `s3://BUCKET/NAME`; the name may be empty and does not end with a slash.
struct StorePath {
  std::string scheme;  // gs or s3
  std::string bucket;
  std::string name;

  std::string text() const;
  /// The path of `more` below this one.
  StorePath below(std::string_view more) const;
  bool operator==(const StorePath&) const = default;
};

/// Clients of s3:// query the metadata server of Amazon's machines, and wait for it on other
/// machines. This sets AWS_EC2_METADATA_DISABLED there; call it at the start of a program.
void disable_metadata_server();

/// True for text that starts like the path of a store.
bool is_store_path(std::string_view text);
/// Parses such a path; nothing for other text. Throws an Error for an invalid path.
std::optional<StorePath> read_store_path(const std::string& text);

/// The timeouts of the environment: KINEMA_STORE_RETRIES (4) is the number of retries of a failed
/// request. Throws an Error for a value outside 0 to 16.
Timeouts store_timeouts();

/// TFRecords of a store up to this size are copied, larger ones are read by ranges:
/// KINEMA_STORE_COPY_GB (16) gigabytes, returned in bytes. Throws an Error for a value outside 0 to
/// 1000000.
int64_t records_to_copy();

/// An object of a store.
struct StoredFile {
  std::string name;  // relative to the listed path; empty: the path itself
  int64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
};

/// True if a local file is the copy of an object: same size and time.
bool is_copy(const std::filesystem::path& local, const StoredFile& file);
/// Bytes of an object's partial copy after an interrupted transfer.
int64_t partial_bytes(const std::filesystem::path& to);

class StoredObject;

/// The objects below a path of Google Cloud Storage or S3, through libarrow. Objects are written
/// atomically, so a folder is committed by writing its last object (a manifest) after all others.
///
/// Endpoints and credentials are those of the environment: for gs:// STORAGE_EMULATOR_HOST, and
/// Google's application default credentials; for s3:// AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3),
/// AWS_REGION, and those of the AWS SDK. Without credentials, requests are anonymous, which works
/// for public buckets.
///
/// Requests that fail or stall are retried according to `timeouts`, and whole calls half as often.
/// Then every function throws an Error of one or two lines. Thread-safe; names are relative to the
/// path.
class Store {
 public:
  explicit Store(StorePath path, const Timeouts& timeouts = store_timeouts());

  const StorePath& path() const { return path_; }

  /// All objects below a folder, sorted by name; for the path of an object, that object. Empty if
  /// there are none.
  std::vector<StoredFile> list(const std::string& folder = "") const;
  std::optional<StoredFile> find(const std::string& name = "") const;
  /// A complete object of at most `most` bytes.
  std::string read(const std::string& name, int64_t most = int64_t{64} << 20) const;
  /// An object, to read by ranges.
  StoredObject open(const std::string& name) const;
  /// Downloads an object to a local file, which appears when it is complete, with the object's
  /// time. An interrupted transfer is resumed, also one of an earlier process. Also throws an Error
  /// if the object is no longer `file`, or (gs://) does not match its CRC-32C.
  ///
  /// `on_bytes` receives the bytes so far, including those of earlier processes.
  void download(const StoredFile& file, const std::filesystem::path& to,
                const std::string& folder = "",
                const std::function<void(int64_t bytes)>& on_bytes = {}) const;
  void upload(const std::filesystem::path& from, const std::string& name) const;
  void write(const std::string& name, std::string_view text) const;
  /// A missing object is not an error.
  void remove(const std::string& name) const;
  /// Everything below a folder.
  void remove_folder(const std::string& folder) const;

 private:
  friend class StoredObject;
  struct Connection;

  void put(const std::string& name, std::span<const std::byte> bytes) const;

  StorePath path_;
  std::shared_ptr<const Connection> connection_;
};

/// An object that is read by ranges.
class StoredObject : public io::RangedFile {
 public:
  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  /// A version of the contents, changed by every write. Letters, digits and `-`; may be empty.
  const std::string& version() const { return version_; }
  /// Of the contents, if the service has it (gs:// does).
  std::optional<uint32_t> crc32c() const { return crc32c_; }

  /// Fills `to` with the bytes from `begin`. On gs:// they are those of the opened version. Throws
  /// an Error as Store does, or if the object ends before.
  void read(int64_t begin, std::span<std::byte> to) const override;

 private:
  friend class Store;
  struct Handle;

  StoredObject(std::shared_ptr<const Store::Connection> connection, const StorePath& path);

  std::string path_;
  int64_t size_ = 0;
  std::string version_;
  std::optional<uint32_t> crc32c_;
  std::shared_ptr<const Handle> handle_;
};

}  // namespace kinema::remote
