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

/// `gs://BUCKET/NAME` or `s3://BUCKET/NAME`; the name may be empty and has no slash at its end.
struct StorePath {
  std::string scheme;  // gs or s3
  std::string bucket;
  std::string name;

  std::string text() const;
  /// The path of a name below this one.
  StorePath below(std::string_view more) const;
  bool operator==(const StorePath&) const = default;
};

/// Clients of s3:// ask a server of Amazon's machines who they are, and wait for it where there is
/// none. Sets AWS_EC2_METADATA_DISABLED on other machines; one of a program's first calls.
void without_metadata_server();

/// True for text that begins like the path of a store.
bool is_store_path(std::string_view text);
/// Reads such a path; nothing for other text. Throws an Error for one that cannot be.
std::optional<StorePath> read_store_path(const std::string& text);

/// The patience of the environment: KINEMA_STORE_RETRIES (4) times is a failed request tried again.
/// Throws an Error for another value than 0 to 16.
Patience store_patience();

/// Up to so many bytes are TFRecords of a store copied, and beyond read from there as they are
/// needed: KINEMA_STORE_COPY_GB (16) gigabytes. Throws an Error for another value than 0 to
/// 1000000.
int64_t records_to_copy();

/// An object of a store.
struct StoredFile {
  std::string name;  // relative to what was listed; empty: that itself
  int64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
};

/// True when a local file is the copy of an object: of its size and time.
bool is_copy(const std::filesystem::path& local, const StoredFile& file);
/// How many bytes of an object's copy have come, where a transfer broke.
int64_t bytes_on_the_way(const std::filesystem::path& to);

class StoredObject;

/// What lies below a path of Google Cloud Storage or S3, through libarrow. An object appears whole
/// or not at all, so that a folder is committed by writing its last object (a manifest) after all
/// others.
///
/// Endpoints and credentials are those of the environment: for gs:// STORAGE_EMULATOR_HOST, and
/// Google's application default credentials; for s3:// AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3),
/// AWS_REGION, and what the AWS SDK looks for. Where there are no credentials, requests are
/// anonymous, which public buckets answer.
///
/// Requests that fail or stall are tried again as `patience` says, and then whole calls half as
/// often. Then every function throws an Error in one or two lines. May be used from several
/// threads; names are relative to the path.
class Store {
 public:
  explicit Store(StorePath path, const Patience& patience = store_patience());

  const StorePath& path() const { return path_; }

  /// All objects below a folder, in order of name; of a path that is an object, that one. Nothing
  /// where there is nothing.
  std::vector<StoredFile> list(const std::string& folder = "") const;
  std::optional<StoredFile> find(const std::string& name = "") const;
  /// A whole object, up to `most` bytes.
  std::string read(const std::string& name, int64_t most = int64_t{64} << 20) const;
  /// An object, to read parts of it.
  StoredObject open(const std::string& name) const;
  /// Brings an object to a local file, which appears when it is whole and carries the object's
  /// time. A transfer that breaks goes on from where it stopped, and so does one that an earlier
  /// process left. Throws an Error also where the object is no longer `file`, or (gs://) does not
  /// have its CRC-32C.
  ///
  /// `on_bytes` is told how many bytes have come, those of earlier processes included.
  void download(const StoredFile& file, const std::filesystem::path& to,
                const std::string& folder = "",
                const std::function<void(int64_t bytes)>& on_bytes = {}) const;
  void upload(const std::filesystem::path& from, const std::string& name) const;
  void write(const std::string& name, std::string_view text) const;
  /// It is no error when there is none.
  void remove(const std::string& name) const;
  /// All that lies below a folder.
  void remove_folder(const std::string& folder) const;

 private:
  friend class StoredObject;
  struct Connection;

  void put(const std::string& name, std::span<const std::byte> bytes) const;

  StorePath path_;
  std::shared_ptr<const Connection> connection_;
};

/// An object of which parts are read.
class StoredObject : public io::RangedFile {
 public:
  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  /// Of the contents: another one after every write. Letters, digits and `-`; may be empty.
  const std::string& version() const { return version_; }
  /// Of the contents, where the service says it (gs:// does).
  std::optional<uint32_t> crc32c() const { return crc32c_; }

  /// Fills `to` with the bytes from `begin` on. On gs:// they are those of the version that was
  /// opened. Throws an Error as Store does, or when the object ends before.
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
