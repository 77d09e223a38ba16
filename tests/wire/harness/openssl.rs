//! Certificates made for a test by `openssl`: an authority, and what it signs.
//!
//! Callers: the tests of TLS, towards the origin and towards clients.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A key of the kind that most certificates have.
const EC: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// Runs `openssl` in a directory.
pub fn openssl(dir: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, `ca.pem` and `ca.key`.
pub fn authority(dir: &Path) {
    let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(dir, &[&authority[..], &EC, &["-nodes"]].concat());
    // `ca` and not `x509`: only it takes dates in the past everywhere.
    let files = "database=index\nserial=ca.srl\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\nunique_subject=no\n";
    std::fs::write(dir.join("ca.cnf"), format!("[ca]\ndefault_ca=own\n[own]\n{files}[any]\ncommonName=supplied\n"))
        .unwrap();
    std::fs::write(dir.join("index"), "").unwrap();
}

/// A certificate for `name` that the authority signed, `cert.pem` with `key.pem`, good from and to these days.
pub fn signed(dir: &Path, name: &str, days: &[&str]) {
    let request = ["req", "-new", "-subj", "/CN=origin", "-keyout", "key.pem", "-out", "cert.csr"];
    openssl(dir, &[&request[..], &EC, &["-nodes"]].concat());
    sign_request(dir, name, days);
}

/// A certificate for `name` and the key in `key.pem`, of any kind.
pub fn signed_for_key(dir: &Path, name: &str, days: &[&str]) {
    openssl(dir, &["req", "-new", "-subj", "/CN=origin", "-key", "key.pem", "-out", "cert.csr"]);
    sign_request(dir, name, days);
}

fn sign_request(dir: &Path, name: &str, days: &[&str]) {
    std::fs::write(dir.join("leaf.ext"), format!("subjectAltName={name}\nbasicConstraints=CA:FALSE\n")).unwrap();
    let sign =
        ["ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-create_serial"];
    openssl(dir, &[&sign[..], &["-in", "cert.csr", "-extfile", "leaf.ext", "-out", "cert.pem"], days].concat());
}

/// An authority and a certificate for `name` that it signed.
pub fn certificate(dir: &Path, name: &str, days: &[&str]) {
    authority(dir);
    signed(dir, name, days);
}

/// What serves TLS with the certificate in this directory.
pub fn config(dir: &Path) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(dir.join("cert.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

/// The same, over connections.
pub fn acceptor(dir: &Path) -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(config(dir)))
}

/// Where whoever speaks TLS reaches this address, with the certificate in this directory. It ends with the test.
pub async fn in_front_of(to: SocketAddr, certificate: &Path) -> SocketAddr {
    let (acceptor, listener) = (acceptor(certificate), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up.
                let Ok(mut client) = acceptor.accept(tcp).await else { return };
                let mut server = TcpStream::connect(to).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}
