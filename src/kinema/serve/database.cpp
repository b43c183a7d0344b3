#include "kinema/serve/database.h"

#include <fcntl.h>
#include <sqlite3.h>

#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"

namespace kinema::serve {
namespace {

/// The error of the last call, with what to do about a full disk.
[[noreturn]] void fail_with(sqlite3* database, int code) {
  const bool is_full = (code & 0xff) == SQLITE_FULL;
  fail("[serve] the database failed: {}{}", sqlite3_errmsg(database),
       is_full ? "\n  free space on its disk" : "");
}

}  // namespace

Statement::Statement(sqlite3* database, std::string_view sql) : database_(database) {
  const int code =
      sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
  if (code != SQLITE_OK) {
    fail_with(database_, code);
  }
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(std::string_view value) {
  sqlite3_bind_text64(statement_, ++bound_, value.data() == nullptr ? "" : value.data(),
                      value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind(const std::optional<double>& value) {
  return value ? bind(*value) : bind_null();
}
Statement& Statement::bind_null() {
  sqlite3_bind_null(statement_, ++bound_);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    fail_with(database_, code);
  }
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::number(int column) const { return sqlite3_column_double(statement_, column); }
bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, sqlite3_column_bytes(statement_, column));
}
std::optional<double> Statement::optional_number(int column) const {
  return is_null(column) ? std::nullopt : std::optional(number(column));
}

Database::Database(const std::filesystem::path& path) {
  // Before SQLite makes it with the mode of all files; its log gets the mode of the database.
  const io::Descriptor file = io::Descriptor::open(path, O_RDWR | O_CREAT, 0600);
  check(static_cast<bool>(file), "[serve] the database {} cannot be opened: {}", path.string(),
        std::strerror(errno));
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(opened);
  if (code != SQLITE_OK) {
    fail_with(opened, code);
  }
  sqlite3_busy_timeout(opened, 5000);
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("PRAGMA foreign_keys=ON");
}

void Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    fail_with(handle_.get(), code);
  }
}

int Database::changes() const { return sqlite3_changes(handle_.get()); }

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Transaction::~Transaction() {
  if (is_done_) {
    return;
  }
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {
    // SQLite has undone it itself, as after a full disk.
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  is_done_ = true;
}

}  // namespace kinema::serve
