#include "remote/gcs_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <atomic>
#include <filesystem>

#include "core/error.h"
#include "io/atomic_write.h"
#include "io/json.h"
#include "io/scratch.h"
#include "remote/test_server.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string new_private_key() {
  EVP_PKEY* const key = EVP_RSA_gen(2048);
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string out(text, static_cast<size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return out;
}

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest()
      : server_([this](const Received&) {
          return Reply{.status = status_,
                       .body = fmt::format(R"({{"access_token": "t{}", "expires_in": {}}})",
                                           ++tokens_, lifetime_)};
        }) {}

  fs::path write(const io::Json& json) {
    io::write_file(scratch_ / "key.json", json.dump());
    return scratch_ / "key.json";
  }
  std::string token_url() const { return server_.url() + "/token"; }

  io::Scratch scratch_;
  std::atomic<int> tokens_ = 0;
  int status_ = 200;
  int lifetime_ = 3600;
  TestServer server_;
  Patience patience_{.connect_s = 2, .stall_s = 2, .retries = 0, .backoff_ms = 1};
};

TEST_F(CredentialsTest, AServiceAccountSignsWhatItAsksFor) {
  const fs::path file = write(io::Json::object({{"type", "service_account"},
                                                {"client_email", "me@project"},
                                                {"private_key_id", "k1"},
                                                {"private_key", new_private_key()},
                                                {"token_uri", token_url()}}));
  const auto credentials = GcsCredentials::from_file(file, patience_);

  EXPECT_EQ(credentials->header(), "Authorization: Bearer t1");
  EXPECT_EQ(credentials->header(), "Authorization: Bearer t1");
  ASSERT_EQ(server_.received().size(), 1U);
  const std::string body = server_.received()[0].body;
  EXPECT_THAT(body, HasSubstr("grant-type%3Ajwt-bearer&assertion="));
  const std::string jwt = body.substr(body.find("assertion=") + 10);
  EXPECT_EQ(std::ranges::count(jwt, '.'), 2);
  EXPECT_GT(jwt.size() - jwt.rfind('.'), 300U);  // 256 bytes of signature in base64
}

TEST_F(CredentialsTest, AUserSendsTheRefreshToken) {
  lifetime_ = 30;  // runs out within the minute that is kept in hand
  const fs::path file = write(io::Json::object({{"type", "authorized_user"},
                                                {"client_id", "id"},
                                                {"client_secret", "a&b"},
                                                {"refresh_token", "r"},
                                                {"token_uri", token_url()}}));
  const auto credentials = GcsCredentials::from_file(file, patience_);
  EXPECT_EQ(credentials->header(), "Authorization: Bearer t1");
  EXPECT_EQ(server_.received()[0].body,
            "grant_type=refresh_token&client_id=id&client_secret=a%26b&refresh_token=r");
}

TEST_F(CredentialsTest, TheMetadataServerIsAskedWithItsHeader) {
  const std::string host = server_.url().substr(std::string("http://").size());
  EXPECT_EQ(GcsCredentials::from_metadata_server(host)->header(), "Authorization: Bearer t1");
  EXPECT_EQ(server_.received()[0].header("metadata-flavor"), "Google");
  EXPECT_EQ(GcsCredentials::from_metadata_server("127.0.0.1:1")->header(), "");
}

TEST_F(CredentialsTest, SaysWhatIsWrong) {
  EXPECT_THAT([&] { GcsCredentials::from_file(scratch_ / "absent.json", patience_); },
              ThrowsMessage<Error>(HasSubstr("absent.json")));
  const fs::path external = write(io::Json::object({{"type", "external_account"}}));
  EXPECT_THAT([&] { GcsCredentials::from_file(external, patience_); },
              ThrowsMessage<Error>(HasSubstr("`external_account`")));
  const fs::path file = write(io::Json::object({{"type", "service_account"},
                                                {"client_email", "me"},
                                                {"private_key", "not a key"},
                                                {"token_uri", token_url()}}));
  EXPECT_THAT([&] { GcsCredentials::from_file(file, patience_)->header(); },
              ThrowsMessage<Error>(HasSubstr("not a PEM key")));
  status_ = 400;
  const fs::path user = write(io::Json::object({{"type", "authorized_user"},
                                                {"client_id", "id"},
                                                {"client_secret", "secret"},
                                                {"refresh_token", "r"},
                                                {"token_uri", token_url()}}));
  EXPECT_THAT([&] { GcsCredentials::from_file(user, patience_)->header(); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("gives out no token (400)"),
                                                  testing::Not(HasSubstr("secret")))));
}

}  // namespace
}  // namespace kinema::remote
