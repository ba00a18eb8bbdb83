//! The settings: their defaults, and the errors of malformed ones.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use service::Config;

use crate::common::Watchdog;

/// Files of a self-signed identity, which are removed when this is dropped.
pub(crate) struct Identity {
    folder: PathBuf,
    made: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Identity {
    pub(crate) fn new(name: &str) -> Identity {
        let folder = std::env::temp_dir().join(format!("service-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
        std::fs::write(folder.join("chain.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Identity { folder, made }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// Returns the settings of a client that trusts it.
    pub(crate) fn trusted(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.made.cert.der().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Settings as the environment has them.
fn read(settings: &[(&str, &str)]) -> io::Result<Config> {
    Config::read(|name| {
        let set = settings.iter().find(|(own, _)| format!("SERVICE_{own}") == name);
        set.map(|(_, value)| value.into())
    })
}

#[test]
fn settings_and_their_defaults() {
    let identity = Identity::new("settings");
    let (chain, key) = (identity.file("chain.pem"), identity.file("key.pem"));
    let config = read(&[]).unwrap();
    assert_eq!((&*config.listen, config.connections), ("127.0.0.1:8080", 10_000));
    assert!(config.tls.is_none() && config.hook.is_none() && config.refuses_late);
    let config = read(&[
        ("LISTEN", "[::]:443"),
        ("DATABASE", "postgres://me:secret@db/board"),
        ("CERTIFICATE", &chain),
        ("KEY", &key),
        ("HOOK", "https://example.org/"),
        ("HOOK_ROOTS", &chain),
        ("CONNECTIONS", "7"),
        ("REQUEST_S", "8"),
        ("GRACE_S", "9"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.listen, "[::]:443");
    assert_eq!(config.database.get_dbname(), Some("board"));
    assert!(config.tls.is_some());
    assert_eq!(config.hook.unwrap().url, "https://example.org/");
    assert_eq!((config.connections, config.request.as_secs()), (7, 8));
    assert_eq!(config.grace.as_secs(), 9);
}

/// Settings, and the words of their error.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

/// Each error names its setting or file, and the password is in none of them.
#[test]
fn malformed_settings() {
    let identity = Identity::new("malformed");
    let (chain, key) = (identity.file("chain.pem"), identity.file("key.pem"));
    std::fs::write(identity.file("empty.pem"), "no PEM").unwrap();
    let (empty, missing) = (identity.file("empty.pem"), identity.file("missing.pem"));
    let other = Identity::new("malformed-too");
    let other_key = other.file("key.pem");
    let cases: &[Case<'_>] = &[
        (&[("CONNECTIONS", "many")], &["SERVICE_CONNECTIONS", "`many`", "invalid digit"]),
        (&[("CONNECTIONS", "0")], &["SERVICE_CONNECTIONS", "`0`", "zero"]),
        (&[("CONNECTIONS", "")], &["SERVICE_CONNECTIONS", "empty"]),
        (&[("REQUEST_S", "1.5")], &["SERVICE_REQUEST_S", "`1.5`"]),
        (&[("REQUEST_S", "99999999999")], &["SERVICE_REQUEST_S", "too large"]),
        (&[("GRACE_S", "-1")], &["SERVICE_GRACE_S", "`-1`"]),
        (
            &[("DATABASE", "postgres://me:secret@db:port/x")],
            &["SERVICE_DATABASE", "invalid connection string"],
        ),
        (&[("CERTIFICATE", &chain)], &["SERVICE_CERTIFICATE", "SERVICE_KEY", "together"]),
        (&[("KEY", &key)], &["SERVICE_CERTIFICATE", "SERVICE_KEY", "together"]),
        (&[("HOOK", "https://x/")], &["SERVICE_HOOK", "SERVICE_HOOK_ROOTS", "together"]),
        (&[("CERTIFICATE", &missing), ("KEY", &key)], &["missing.pem", "No such file"]),
        (&[("CERTIFICATE", &empty), ("KEY", &key)], &["empty.pem", "no certificate"]),
        (&[("CERTIFICATE", &chain), ("KEY", &chain)], &["chain.pem"]),
        (&[("CERTIFICATE", &chain), ("KEY", &other_key)], &["chain.pem"]),
        (&[("HOOK", "https://x/"), ("HOOK_ROOTS", &key)], &["key.pem", "no certificate"]),
    ];
    for (settings, parts) in cases {
        let error = read(settings).unwrap_err();
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    let garbage = OsString::from_vec(vec![b'a', 0xff]);
    let error = Config::read(|name| name.ends_with("LISTEN").then(|| garbage.clone())).unwrap_err();
    assert_eq!(error.to_string(), "SERVICE_LISTEN: the value is not Unicode");
    let error = Config { listen: "nowhere".into(), ..read(&[]).unwrap() }.listen().unwrap_err();
    assert!(error.to_string().starts_with("SERVICE_LISTEN: `nowhere`: "), "{error}");
}

/// The program says what is wrong, and ends with a failure.
#[test]
fn a_program_with_malformed_settings() {
    let _watchdog = Watchdog::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.env("SERVICE_CONNECTIONS", "many").env_remove("RUST_LOG").env("NO_COLOR", "1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("SERVICE_CONNECTIONS: `many`: invalid digit found in string"), "{said}");
}
