//! What a client says to log in.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::{Error, tame};
use crate::nkey::KeyPair;
use crate::options::Options;
use crate::secret::Secret;
use crate::server::{Server, ServerInfo, UrlLogin};

/// How a client logs in.
#[derive(Clone)]
pub(crate) enum Login {
    User(String, Secret),
    Token(Secret),
    Nkey(Arc<KeyPair>),
    Credentials(Secret, Arc<KeyPair>),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Login::User(..) => "User(..)",
            Login::Token(..) => "Token(..)",
            Login::Nkey(..) => "Nkey(..)",
            Login::Credentials(..) => "Credentials(..)",
        })
    }
}

/// Reads the seed of an nkey.
pub(crate) fn key_pair(seed: &str) -> Result<Arc<KeyPair>, Error> {
    let pair = KeyPair::from_seed(seed.trim()).map_err(|why| {
        Error::invalid(format!(
            "the nkey seed is malformed: {why}; it has 58 characters and begins with SU"
        ))
    })?;
    Ok(Arc::new(pair))
}

/// Reads the text of a credentials file: a JWT and the seed of its nkey, each in a block between
/// lines of hyphens.
pub(crate) fn credentials(text: &str) -> Result<Login, Error> {
    let mut blocks = text.lines().map(str::trim).scan(false, |inside, line| {
        if line.starts_with("---") {
            *inside = line.contains("BEGIN");
            return Some(None);
        }
        Some((*inside && !line.is_empty()).then_some(line))
    });
    let mut next = || blocks.by_ref().flatten().next();
    match (next(), next()) {
        (Some(jwt), Some(seed)) => {
            Ok(Login::Credentials(Secret::new(jwt.to_owned()), key_pair(seed)?))
        }
        _ => Err(Error::invalid(
            "the credentials have no JWT and seed between `-----BEGIN ..` lines; use the file that \
             nsc or the account's operator made",
        )),
    }
}

/// Returns a server's words for people. If they repeat a secret of the login, they are left out.
pub(crate) fn quote(options: &Options, server: &Server, words: &str) -> String {
    let of_options = match &options.login {
        Some(Login::User(_, secret) | Login::Token(secret) | Login::Credentials(secret, _)) => {
            Some(secret)
        }
        Some(Login::Nkey(_)) | None => None,
    };
    let of_url = server.login.as_ref().map(|login| match login {
        UrlLogin::User(_, secret) | UrlLogin::Token(secret) => secret,
    });
    // Any text contains a secret that is shorter.
    let repeats = |secret: &&Secret| secret.reveal().len() >= 4 && words.contains(secret.reveal());
    if [of_options, of_url].iter().flatten().any(repeats) {
        return "(words that contain a password, token or JWT)".to_owned();
    }
    tame(words)
}

/// Returns the arguments of `CONNECT`.
pub(crate) fn connect_arguments(options: &Options, server: &Server, info: &ServerInfo) -> String {
    let mut arguments = Map::new();
    let fixed = json!({
        "verbose": false,
        "pedantic": false,
        "lang": "rust-ecru",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "headers": true,
        "no_responders": true,
        "echo": options.echo,
        "tls_required": server.tls || options.require_tls,
    });
    if let Value::Object(fixed) = fixed {
        arguments.extend(fixed);
    }
    let mut set = |name: &str, value: String| {
        arguments.insert(name.to_owned(), Value::String(value));
    };
    if let Some(name) = &options.name {
        set("name", name.clone());
    }
    let of_url = server.login.as_ref().map(|login| match login {
        UrlLogin::Token(token) => Login::Token(token.clone()),
        UrlLogin::User(user, password) => Login::User(user.clone(), password.clone()),
    });
    match options.login.clone().or(of_url) {
        None => {}
        Some(Login::User(user, password)) => {
            set("user", user);
            set("pass", password.reveal().to_owned());
        }
        Some(Login::Token(token)) => set("auth_token", token.reveal().to_owned()),
        Some(Login::Nkey(pair)) => {
            set("nkey", pair.public_key());
            set("sig", pair.sign(info.nonce.as_bytes()));
        }
        Some(Login::Credentials(jwt, pair)) => {
            set("jwt", jwt.reveal().to_owned());
            set("sig", pair.sign(info.nonce.as_bytes()));
        }
    }
    Value::Object(arguments).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Login, credentials, key_pair};

    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

    #[test]
    fn credentials_files() {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n****\nIMPORTANT\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{SEED}\r\n------END USER NKEY SEED------\n"
        );
        let Login::Credentials(jwt, pair) = credentials(&text).unwrap() else { panic!() };
        assert_eq!(jwt.reveal(), "eyJ0");
        let public = pair.public_key();
        assert_eq!(public, "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4");
        let shown = format!("{jwt:?} {:?}", credentials(&text));
        assert!(!shown.contains("eyJ0") && !shown.contains(SEED), "{shown}");
        assert!(credentials("eyJ0").is_err() && credentials("").is_err());
    }

    #[test]
    fn a_malformed_seed_is_not_shown() {
        let error = key_pair(&SEED.replace('3', "1")).err().unwrap();
        assert!(!error.to_string().contains("SUACS"), "{error}");
    }
}
