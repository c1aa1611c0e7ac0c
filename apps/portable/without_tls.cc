// libmicrohttpd speaks TLS with GnuTLS, if it is asked to, and nobody here asks. So the tarball carries no GnuTLS: what
// the archive names is one function that does nothing and says that all went well. Only the two for the library's
// beginning and end are ever called.
//
// Each is another name for that function, of no particular type.
// clang-format off
#define FUNCTIONS_OF_GNUTLS(X) \
  X(gnutls_alpn_set_protocols) X(gnutls_bye) X(gnutls_certificate_allocate_credentials) \
  X(gnutls_certificate_free_credentials) X(gnutls_certificate_server_set_request) X(gnutls_certificate_set_dh_params) \
  X(gnutls_certificate_set_retrieve_function2) X(gnutls_certificate_set_retrieve_function3) \
  X(gnutls_certificate_set_x509_key_mem) X(gnutls_certificate_set_x509_key_mem2) \
  X(gnutls_certificate_set_x509_trust_mem) X(gnutls_cipher_get) X(gnutls_credentials_set) X(gnutls_deinit) \
  X(gnutls_dh_params_deinit) X(gnutls_dh_params_import_pkcs3) X(gnutls_dh_params_init) X(gnutls_global_deinit) \
  X(gnutls_global_init) X(gnutls_handshake) X(gnutls_init) X(gnutls_priority_deinit) X(gnutls_priority_init) \
  X(gnutls_priority_set) X(gnutls_protocol_get_version) X(gnutls_psk_allocate_server_credentials) \
  X(gnutls_psk_free_server_credentials) X(gnutls_psk_set_server_credentials_function) \
  X(gnutls_record_check_pending) X(gnutls_record_get_direction) X(gnutls_record_recv) X(gnutls_record_send) \
  X(gnutls_session_get_ptr) X(gnutls_session_set_ptr) X(gnutls_strerror) X(gnutls_transport_set_int2)
// clang-format on

extern "C" {

__attribute__((visibility("hidden"))) int uroce_no_tls() noexcept;
__attribute__((visibility("hidden"))) int uroce_no_tls() noexcept { return 0; }

// A variable of GnuTLS: its function for memory.
__attribute__((visibility("hidden"))) extern void* (*gnutls_malloc)(unsigned long);
void* (*gnutls_malloc)(unsigned long) = nullptr;

#define DEFINE(name) __attribute__((visibility("hidden"), alias("uroce_no_tls"))) int name() noexcept;
FUNCTIONS_OF_GNUTLS(DEFINE)

}  // extern "C"
