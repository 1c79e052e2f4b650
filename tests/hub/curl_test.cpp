// Compares hub/http/curl.h with libcurl's headers.
#include "hub/http/curl.h"

#include <doctest/doctest.h>

#if __has_include(<curl/curl.h>)
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

namespace {

namespace c = ridge::hub::curl;

#define RIDGE_SAME(ours, theirs) static_assert(static_cast<long>(ours) == static_cast<long>(theirs))
RIDGE_SAME(c::kWriteData, CURLOPT_WRITEDATA);
RIDGE_SAME(c::kUrl, CURLOPT_URL);
RIDGE_SAME(c::kRange, CURLOPT_RANGE);
RIDGE_SAME(c::kErrorBuffer, CURLOPT_ERRORBUFFER);
RIDGE_SAME(c::kUserAgent, CURLOPT_USERAGENT);
RIDGE_SAME(c::kLowSpeedLimit, CURLOPT_LOW_SPEED_LIMIT);
RIDGE_SAME(c::kLowSpeedTime, CURLOPT_LOW_SPEED_TIME);
RIDGE_SAME(c::kHttpHeader, CURLOPT_HTTPHEADER);
RIDGE_SAME(c::kHeaderData, CURLOPT_HEADERDATA);
RIDGE_SAME(c::kNoProgress, CURLOPT_NOPROGRESS);
RIDGE_SAME(c::kProgressData, CURLOPT_XFERINFODATA);
RIDGE_SAME(c::kConnectTimeout, CURLOPT_CONNECTTIMEOUT);
RIDGE_SAME(c::kBufferSize, CURLOPT_BUFFERSIZE);
RIDGE_SAME(c::kNoSignal, CURLOPT_NOSIGNAL);
RIDGE_SAME(c::kProtocols, CURLOPT_PROTOCOLS);
RIDGE_SAME(c::kWriteFunction, CURLOPT_WRITEFUNCTION);
RIDGE_SAME(c::kHeaderFunction, CURLOPT_HEADERFUNCTION);
RIDGE_SAME(c::kProgressFunction, CURLOPT_XFERINFOFUNCTION);
RIDGE_SAME(c::kProxy, CURLOPT_PROXY);
RIDGE_SAME(c::kTimeoutMs, CURLOPT_TIMEOUT_MS);
RIDGE_SAME(c::kSocketData, CURLOPT_OPENSOCKETDATA);
RIDGE_SAME(c::kDirectHosts, CURLOPT_NOPROXY);
RIDGE_SAME(c::kSocketFunction, CURLOPT_OPENSOCKETFUNCTION);
RIDGE_SAME(sizeof(c::SocketAddress), sizeof(curl_sockaddr));
RIDGE_SAME(offsetof(c::SocketAddress, address), offsetof(curl_sockaddr, addr));
RIDGE_SAME(c::kHttp, CURLPROTO_HTTP);
RIDGE_SAME(c::kHttps, CURLPROTO_HTTPS);
RIDGE_SAME(c::kRedirectUrl, CURLINFO_REDIRECT_URL);
RIDGE_SAME(c::kOk, CURLE_OK);
RIDGE_SAME(c::kNoProxy, CURLE_COULDNT_RESOLVE_PROXY);
RIDGE_SAME(c::kNoHost, CURLE_COULDNT_RESOLVE_HOST);
RIDGE_SAME(c::kNoConnection, CURLE_COULDNT_CONNECT);
RIDGE_SAME(c::kHttp2Failed, CURLE_HTTP2);
RIDGE_SAME(c::kPartOfFile, CURLE_PARTIAL_FILE);
RIDGE_SAME(c::kWriteError, CURLE_WRITE_ERROR);
RIDGE_SAME(c::kTimedOut, CURLE_OPERATION_TIMEDOUT);
RIDGE_SAME(c::kNoSecureConnection, CURLE_SSL_CONNECT_ERROR);
RIDGE_SAME(c::kGotNothing, CURLE_GOT_NOTHING);
RIDGE_SAME(c::kSendFailed, CURLE_SEND_ERROR);
RIDGE_SAME(c::kReceiveFailed, CURLE_RECV_ERROR);
RIDGE_SAME(c::kStreamFailed, CURLE_HTTP2_STREAM);
RIDGE_SAME(c::kHttp3Failed, CURLE_HTTP3);
RIDGE_SAME(c::kQuicFailed, CURLE_QUIC_CONNECT_ERROR);
RIDGE_SAME(c::kScheme, CURLUPART_SCHEME);
RIDGE_SAME(c::kHost, CURLUPART_HOST);
RIDGE_SAME(c::kPort, CURLUPART_PORT);
RIDGE_SAME(c::kDefaultPort, CURLU_DEFAULT_PORT);
RIDGE_SAME(c::kErrorBytes, CURL_ERROR_SIZE);

} // namespace
#endif

TEST_CASE("libcurl is loaded at run time and has all functions") { CHECK_NOTHROW(ridge::hub::curl::library()); }
