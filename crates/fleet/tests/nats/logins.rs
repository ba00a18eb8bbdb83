//! How the program `fleet` logs in: TLS, certificates, credentials and nkeys.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::server::Server;
use crate::tool::{fleet, said};

/// An nkey that nothing but these tests knows.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

/// A folder with a certificate for `localhost` and its key, which is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ecru-fleet-logins-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        folder.write("own.pem", &made.cert.pem());
        folder.write("key.pem", &made.signing_key.serialize_pem());
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks that the doctor and `top` get as far as the queues with these options.
#[track_caller]
fn work(url: &str, options: &[&str]) {
    let (code, text) = said(&[&["doctor", url, "--timeout", "60"], options].concat());
    // A single server is worth warnings.
    assert_eq!(code, 1, "{options:?}: {text}");
    assert!(text.contains("ok       jetstream"), "{options:?}: {text}");
    let (code, text) = said(&[&["top", "--once", url, "--timeout", "60"], options].concat());
    assert_eq!(code, 0, "{options:?}: {text}");
}

/// Checks that both fail with these options, and that the text has these words and no secret.
#[track_caller]
fn fail(url: &str, options: &[&str], words: &str) {
    for command in [&["doctor"][..], &["top", "--once"]] {
        let (code, text) = said(&[command, &[url, "--timeout", "60"], options].concat());
        assert_eq!(code, 2, "{command:?} {options:?}: {text}");
        assert!(text.contains(words), "{command:?} {options:?}: {text}");
        assert!(!text.contains(SEED), "{command:?} {options:?}: {text}");
    }
}

fn port(server: &Server) -> String {
    server.address().rsplit_once(':').unwrap().1.to_owned()
}

/// - given: a server with TLS, whose certificate no authority of the Web has signed
/// - when: the doctor and `top` trust it by `--ca` or by `SSL_CERT_FILE`, do not trust it, or name a
///   file that is missing
/// - then: they work, or say what is wrong
#[test]
fn fleet_389_logins_by_tls() {
    let folder = Folder::new();
    let (own, key) = (folder.file("own.pem"), folder.file("key.pem"));
    let config = format!("tls {{ cert_file: {own:?}, key_file: {key:?}, timeout: 5 }}");
    let Some(server) = Server::start(&config) else { return };
    let url = format!("tls://localhost:{}", port(&server));
    work(&url, &["--ca", &own]);
    let output = fleet()
        .args(["doctor", &url, "--timeout", "60"])
        .env("SSL_CERT_FILE", &own)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    fail(&url, &[], "localhost");
    fail(&url, &["--ca", &folder.file("missing.pem")], "missing.pem");
    fail(&url, &["--ca", &key], "key.pem");
}

/// - given: a server that accepts only clients with a certificate
/// - when: the doctor and `top` have one, or none
/// - then: they work, or fail
#[test]
fn fleet_390_logins_by_certificate() {
    let folder = Folder::new();
    let (own, key) = (folder.file("own.pem"), folder.file("key.pem"));
    let config = format!(
        "tls {{ cert_file: {own:?}, key_file: {key:?}, ca_file: {own:?}, verify: true, timeout: 5 }}"
    );
    let Some(server) = Server::start(&config) else { return };
    let url = format!("tls://localhost:{}", port(&server));
    work(&url, &["--ca", &own, "--cert", &own, "--key", &key]);
    fail(&url, &["--ca", &own], "localhost");
    let (code, text) = said(&["doctor", &url, "--cert", &own]);
    assert!(code == 64 && text.contains("--cert and --key go together"), "{text}");
}

/// - given: a server that knows an nkey, also over TLS
/// - when: the doctor and `top` have a file with its seed, with another one, or with none
/// - then: they work, or say that they are refused, and no seed is written
#[test]
fn fleet_391_logins_by_nkey() {
    let folder = Folder::new();
    folder.write("seed", &format!("{SEED}\n"));
    folder.write("other", "SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4\n");
    folder.write("none", "no seed\n");
    let users = format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}");
    let Some(server) = Server::start(&users) else { return };
    work(&server.url(), &["--nkey", &folder.file("seed")]);
    fail(&server.url(), &["--nkey", &folder.file("other")], "uthorization");
    fail(&server.url(), &[], "uthorization");
    fail(&server.url(), &["--nkey", &folder.file("none")], "none");
    let (own, key) = (folder.file("own.pem"), folder.file("key.pem"));
    let tls = format!("tls {{ cert_file: {own:?}, key_file: {key:?}, timeout: 5 }}");
    let Some(server) = Server::start(&format!("{users}\n{tls}")) else { return };
    let url = format!("tls://localhost:{}", port(&server));
    work(&url, &["--nkey", &folder.file("seed"), "--ca", &own]);
}

/// - given: a credentials file, and something that answers as a server
/// - when: the doctor and `top` log in with the file
/// - then: they send the JWT and a signature, and never the seed; a file that is missing is named
#[test]
fn fleet_392_logins_by_credentials() {
    let folder = Folder::new();
    folder.write(
        "user.creds",
        &format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.eyJ1.c2ln\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
        ),
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        [(); 2].map(|()| {
            let (mut stream, _) = listener.accept().unwrap();
            let info = "INFO {\"server_id\":\"A\",\"version\":\"2.12.0\",\"headers\":true,\
                        \"max_payload\":1048576,\"nonce\":\"abc\",\"auth_required\":true}\r\n";
            stream.write_all(info.as_bytes()).unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let connect = lines.next().unwrap().unwrap();
            // It is refused, so that the program ends.
            let _ = stream.write_all(b"-ERR 'Authorization Violation'\r\n");
            connect
        })
    });
    let creds = folder.file("user.creds");
    fail(&url, &["--creds", &creds], "uthorization");
    for connect in peer.join().unwrap() {
        assert!(connect.starts_with("CONNECT "), "{connect}");
        assert!(connect.contains("\"jwt\":\"eyJ0.eyJ1.c2ln\""), "{connect}");
        assert!(connect.contains("\"sig\":\"") && !connect.contains(SEED), "{connect}");
    }
    fail(&url, &["--creds", &folder.file("missing.creds")], "missing.creds");
}
