//! Credentials of an operator, an account and a user, against a real server.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ecru_nats::{Error, ErrorKind, Options};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::server::Server;

/// The kinds of keys.
const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;

/// A key made from one number.
struct Key {
    kind: u8,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl Key {
    fn new(kind: u8, number: u8) -> Key {
        let seed = [number; 32];
        Key { kind, seed, pair: Ed25519KeyPair::from_seed_unchecked(&seed).unwrap() }
    }

    fn public(&self) -> String {
        encode(&[&[self.kind][..], self.pair.public_key().as_ref()].concat())
    }

    fn seed(&self) -> String {
        let kinds = [18 << 3 | self.kind >> 5, (self.kind & 31) << 3];
        encode(&[&kinds[..], &self.seed].concat())
    }

    /// Signs claims about a subject, with what they say about NATS.
    fn sign(&self, subject: &Key, expires: Option<u64>, nats: &str) -> String {
        let (issuer, subject) = (self.public(), subject.public());
        let expires = expires.map(|time| format!("\"exp\":{time},")).unwrap_or_default();
        let claims = format!(
            "{{\"jti\":\"{subject}\",\"iat\":1700000000,{expires}\"iss\":\"{issuer}\",\"name\":\"n\",\
             \"sub\":\"{subject}\",\"nats\":{{{nats},\"version\":2}}}}"
        );
        let header = BASE64URL_NOPAD.encode(b"{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}");
        let signed = format!("{header}.{}", BASE64URL_NOPAD.encode(claims.as_bytes()));
        let signature = BASE64URL_NOPAD.encode(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

/// Adds the checksum and encodes.
fn encode(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u16, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
        })
    });
    BASE32_NOPAD.encode(&[bytes, &sum.to_le_bytes()].concat())
}

fn credentials(jwt: &str, key: &Key) -> Options {
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        key.seed()
    );
    Options::new().credentials(&text).unwrap()
}

/// - given: a server that trusts an operator, with one account
/// - when: users log in with credentials of the account, of another account, with another key, or
///   with expired ones
/// - then: the first is accepted and the others are refused, and no error shows the JWT or the seed
#[test]
fn nats_120_credentials_of_an_operator() {
    let (operator, account, user) =
        (Key::new(OPERATOR, 1), Key::new(ACCOUNT, 2), Key::new(USER, 3));
    let limits = "\"subs\":-1,\"data\":-1,\"payload\":-1";
    let of_account = format!(
        "\"type\":\"account\",\"limits\":{{{limits},\"imports\":-1,\"exports\":-1,\
         \"wildcards\":true,\"conn\":-1,\"leaf\":-1}}"
    );
    let of_user = format!("\"type\":\"user\",{limits}");
    let config = format!(
        "operator: \"{}\"\nresolver: MEMORY\nresolver_preload: {{ {}: \"{}\" }}",
        operator.sign(&operator, None, "\"type\":\"operator\""),
        account.public(),
        operator.sign(&account, None, &of_account)
    );
    let Some(server) = Server::start_without_streams(&config) else { return };
    let connect = |options: Options| -> Result<(), Error> {
        ecru::run(|| ecru::scope(|s| options.connect(s, &server.url())?.flush()))
    };
    let jwt = account.sign(&user, None, &of_user);
    connect(credentials(&jwt, &user)).unwrap();
    let (thief, stranger) = (Key::new(USER, 4), Key::new(ACCOUNT, 5));
    let expired = account.sign(&user, Some(1_700_000_001), &of_user);
    let foreign = stranger.sign(&user, None, &of_user);
    for (jwt, key) in [(&jwt, &thief), (&expired, &user), (&foreign, &user)] {
        let error = connect(credentials(jwt, key)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Authorization, "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(&jwt[..]) && !shown.contains(&key.seed()), "{shown}");
    }
}
