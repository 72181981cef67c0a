//! Encrypted connections, and servers that are not who they say they are.

use std::path::Path;
use std::process::Command;

use tract_core::{RepoName, StoreErrorKind, block_on};
use tract_store_postgres::{PostgresOptions, open};
use tract_testkit::fixtures::line;

use crate::{server, support};

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output =
        output.expect("openssl makes certificates: install it (`apt-get install openssl`)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes an authority, and a certificate of it for the loopback address.
fn certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30";
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca"));
    openssl(folder, &format!("req -x509 {key} -keyout other.key -out other.pem -subj /CN=other"));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\n").expect("written");
    let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30";
    openssl(folder, &format!("{sign} -extfile names -out server.crt"));
}

#[test]
fn a_server_is_checked_and_then_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    // The server insists that no other user can read its key.
    let closed = Command::new("chmod").args(["600", &path("server.key")]).status();
    assert!(closed.is_ok_and(|status| status.success()));
    server::give(folder.path());
    let settings = [
        "ssl = on".to_owned(),
        format!("ssl_cert_file = '{}'", path("server.crt")),
        format!("ssl_key_file = '{}'", path("server.key")),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = server::Server::start(&settings) else { return server::left_out() };
    let url =
        |roots: &str| format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), path(roots));
    let store = block_on(open(&url("ca.pem"), &support::options())).expect("it is who it says");
    block_on(line(&store, &RepoName::default(), "main", None, &["one"])).expect("it is written");
    // The server itself says that what the store sends is encrypted.
    support::execute(
        &server.url(),
        "DO $$ BEGIN ASSERT (SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a \
         USING (pid) WHERE a.application_name = 'tract'); END $$",
    );
    let options = PostgresOptions { retry_for: std::time::Duration::ZERO, ..support::options() };
    let error =
        block_on(open(&url("other.pem"), &options)).expect_err("no authority vouches for it");
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
    // Without a name of an authority it is the operating system's that count: never nobody's.
    let required = format!("{}?sslmode=require", server.url());
    let error = block_on(open(&required, &options)).expect_err("no authority vouches for it");
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
    // The same server under a name that is not in its certificate.
    let elsewhere = url("ca.pem").replace("127.0.0.1", "localhost");
    let error = block_on(open(&elsewhere, &options)).expect_err("that is not its name");
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
    let error = block_on(open(&url("absent.pem"), &options)).expect_err("there is no such file");
    assert_eq!(error.kind, StoreErrorKind::Invalid, "{error}");
}
