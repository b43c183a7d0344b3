#pragma once

// Private to the module: SQLite.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace kinema::serve {

/// A statement with its values, which are bound in order; the destructor resets it.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql);
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind(const std::optional<double>& value);
  Statement& bind_null();

  /// The next row; false behind the last. Throws an Error if the statement fails.
  bool step();
  /// For statements without rows.
  void run();

  int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;
  std::optional<double> optional_number(int column) const;

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// A database file with one connection: not for several threads at a time. What `commit` returned
/// from survives `kill -9` and a loss of power (write-ahead log, synchronous=FULL).
class Database {
 public:
  /// Opens or creates it, readable by its owner only.
  explicit Database(const std::filesystem::path& path);

  Statement prepare(std::string_view sql) { return {handle_.get(), sql}; }
  /// Statements without values or rows.
  void run(const char* sql);
  /// Rows that the last statement changed.
  int changes() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A transaction, which is undone unless `commit` was called.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database_.run("BEGIN IMMEDIATE");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool is_done_ = false;
};

}  // namespace kinema::serve
