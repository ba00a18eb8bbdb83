//! Logging in and TLS, against a real server and one that follows a script.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ecru::net::TcpListener;
use ecru_nats::jetstream::StreamConfig;
use ecru_nats::{Client, Error, ErrorKind, Message, Options};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::broker::Peer;
use crate::server::Server;

/// A user's seed, made for these tests.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn connect(options: Options, url: &str) -> Result<(), Error> {
    ecru::run(|| ecru::scope(|s| options.connect(s, url)?.flush()))
}

fn refused(options: Options, url: &str, secret: &str) {
    let error = connect(options, url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Authorization, "{error}");
    assert!(!format!("{error} {error:?}").contains(secret), "{error}");
}

/// - given: a server that wants a user and a password
/// - when: they are in the URL, in the options, wrong or missing
/// - then: the client is accepted or refused, and no error shows the password
#[test]
fn nats_30_user_and_password() {
    let Some(server) = Server::start("authorization { user: mill, password: \"h:u@sh\" }") else {
        return;
    };
    let address = server.address();
    connect(Options::new(), &format!("nats://mill:h%3au%40sh@{address}")).unwrap();
    connect(Options::new().user("mill", "h:u@sh"), &address).unwrap();
    // The options take precedence.
    connect(Options::new().user("mill", "h:u@sh"), &format!("nats://a:b@{address}")).unwrap();
    refused(Options::new().user("mill", "wrong-one"), &address, "wrong-one");
    refused(Options::new(), &format!("nats://mill:wrong-one@{address}"), "wrong-one");
    refused(Options::new(), &address, "wrong-one");
}

/// - given: a user who may not publish to some subjects
/// - when: requests and messages of a stream are sent there and elsewhere, several at once
/// - then: each that is not permitted fails at once with the subject, and the others have answers
#[test]
fn nats_38_permissions() {
    let config = "authorization { users: [
        { user: a, password: p, permissions: { publish: { deny: [\"no.>\", \"jobs.b\"] } } } ] }";
    let Some(server) = Server::start(config) else { return };
    // The time limit of a request would fail the test.
    let options = Options::new().user("a", "p").request_timeout(Duration::from_secs(3600));
    ecru::run(|| {
        ecru::scope(|s| {
            let client = options.connect(s, &server.address())?;
            let subjects = ["no.a", "yes.a", "no.b", "no.a"];
            let begun: Vec<_> =
                subjects.iter().map(|s| client.request(s, "")).collect::<Result<_, _>>()?;
            for (subject, request) in subjects.iter().zip(begun) {
                let error = request.get().unwrap_err();
                if subject.starts_with("yes") {
                    assert_eq!(error.kind(), ErrorKind::NoResponders);
                    continue;
                }
                assert_eq!(error.kind(), ErrorKind::Authorization);
                assert!(error.to_string().contains(&format!("publish to {subject};")), "{error}");
                assert!(!error.is_outcome_unknown());
            }
            let js = client.jetstream();
            let subjects = vec!["jobs.*".to_owned()];
            js.create_stream(&StreamConfig { subjects, ..StreamConfig::new("JOBS") })?;
            let begun: Vec<_> = ["jobs.a", "jobs.b"]
                .iter()
                .map(|subject| js.begin_publish(&Message::new(subject, "")))
                .collect::<Result<_, _>>()?;
            let kinds: Vec<_> =
                begun.into_iter().map(|sent| sent.get().map_err(|error| error.kind())).collect();
            assert!(kinds[0].is_ok(), "{kinds:?}");
            assert_eq!(kinds[1].as_ref().err(), Some(&ErrorKind::Authorization));
            assert_eq!(js.stream_info("JOBS")?.state.messages, 1);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a server that wants a token
/// - when: it is in the URL, in the options, or wrong
/// - then: the client is accepted or refused
#[test]
fn nats_31_token() {
    let Some(server) = Server::start("authorization { token: hush }") else { return };
    connect(Options::new(), &format!("nats://hush@{}", server.address())).unwrap();
    connect(Options::new().token("hush"), &server.url()).unwrap();
    refused(Options::new().token("wrong-one"), &server.url(), "wrong-one");
}

/// - given: a server that knows an nkey
/// - when: the client signs with its seed, with another one, or with a malformed one
/// - then: the client is accepted or refused
#[test]
fn nats_32_nkey() {
    let config = format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}");
    let Some(server) = Server::start(&config) else { return };
    connect(Options::new().nkey(SEED).unwrap(), &server.url()).unwrap();
    refused(Options::new(), &server.url(), SEED);
    let other = "SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4";
    refused(Options::new().nkey(other).unwrap(), &server.url(), other);
    assert_eq!(Options::new().nkey("SUxx").unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// - given: a credentials file
/// - when: a client logs in with it
/// - then: it sends the JWT and a signature, and never the seed
#[test]
fn nats_33_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\neyJ0.eyJ1.c2ln\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    );
    let file = std::env::temp_dir().join(format!("ecru-nats-{}.creds", std::process::id()));
    fs::write(&file, &text).unwrap();
    ecru::run(|| {
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let mut peer = Peer::accept(&listener).unwrap();
                let said = peer.next().unwrap().unwrap();
                peer.say("PONG\r\n").unwrap();
                said.words.concat()
            });
            let options = Options::new().credentials_file(&file).unwrap();
            assert!(!format!("{options:?}").contains("eyJ"), "{options:?}");
            options.connect(s, &url).unwrap();
            let said = server.join().unwrap();
            assert!(said.contains("\"jwt\":\"eyJ0.eyJ1.c2ln\"") && said.contains("\"sig\":\""));
            assert!(!said.contains(SEED), "{said}");
        });
    });
    fs::remove_file(&file).unwrap();
    let error = Options::new().credentials_file(&file).unwrap_err();
    assert!(error.to_string().contains("ecru-nats-"), "{error}");
}

/// A temporary folder, which is removed when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate for `localhost` in a folder, the server's configuration, and the client's.
fn certificate() -> (Folder, String, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!(
        "ecru-nats-tls-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, timeout: 5 }}");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (Folder(folder), config, trusting(roots))
}

fn trusting(roots: RootCertStore) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// - given: a server with TLS
/// - when: a client that trusts its certificate sends and receives messages larger than a record
/// - then: they arrive
#[test]
fn nats_34_tls() {
    let (_folder, config, trust) = certificate();
    let Some(server) = Server::start(&format!("{config}\nauthorization {{ token: hush }}")) else {
        return;
    };
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    ecru::run(|| {
        ecru::scope(|s| {
            let options = Options::new().token("hush").tls_config(Arc::clone(&trust));
            let url = format!("tls://localhost:{port}");
            let client = options.clone().connect(s, &url)?;
            let big = client.subscribe("big")?;
            for size in [0, 1, 16_384, 500_000] {
                client.publish("big", vec![b'x'; size])?;
                assert_eq!(big.recv().unwrap().payload().len(), size);
            }
            // The server asks for TLS although the URL does not.
            options.connect(s, &format!("localhost:{port}"))?.flush()
        })
    })
    .unwrap();
}

/// - given: a server whose certificate is not trusted, or is for another name
/// - when: a client connects
/// - then: `Tls`, with the name, and no credentials are sent
#[test]
fn nats_35_tls_without_trust() {
    let (_folder, config, trust) = certificate();
    let Some(server) = Server::start(&config) else { return };
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    let nothing = Options::new().tls_config(trusting(RootCertStore::empty()));
    let error = connect(nothing, &format!("tls://localhost:{port}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    assert!(error.to_string().contains("localhost"), "{error}");
    let other = Options::new().tls_config(trust);
    let error = connect(other, &format!("tls://127.0.0.1:{port}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
}

/// - given: a server that accepts clients with a certificate, and files with certificates
/// - when: a client that trusts the file of the server's one connects, with and without one of its
///   own, and files are named that are missing or have no certificate
/// - then: the client with a certificate is accepted, and the errors name the files
#[test]
fn nats_37_tls_by_files() {
    let (folder, config, _) = certificate();
    let (own, key) = (folder.0.join("certificate.pem"), folder.0.join("key.pem"));
    let config = config.replace(" }", &format!(", ca_file: {own:?}, verify: true }}"));
    let Some(server) = Server::start(&config) else { return };
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    let url = format!("tls://localhost:{port}");
    let with = |identity| Options::new().tls_files(Some(&own), identity);
    connect(with(Some((&own, &key))).unwrap(), &url).unwrap();
    let error = connect(with(None).unwrap(), &url).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Connect), "{error}");
    let missing = folder.0.join("missing.pem");
    for (authorities, certificate, bad) in
        [(&missing, &own, &missing), (&own, &missing, &missing), (&key, &own, &key)]
    {
        let files = Options::new().tls_files(Some(authorities), Some((certificate, &key)));
        let error = files.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(bad.to_str().unwrap()), "{error}");
    }
}

/// - given: a server without TLS
/// - when: a client that requires TLS connects
/// - then: `Tls`, before anything secret was sent
#[test]
fn nats_36_required_tls() {
    let Some(server) = Server::start("") else { return };
    let error = connect(Options::new().require_tls(true), &server.url()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    let text = format!("tls://hush@{}", server.address());
    let error = ecru::run(|| ecru::scope(|s| Client::connect(s, &text).map(drop))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
}
