//! Servers: their addresses, and what they say about themselves.

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;

use crate::error::Error;
use crate::secret::Secret;

/// What a server says about itself when a connection begins.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The server's id, which is new with each start.
    pub server_id: String,
    /// The server's name.
    pub server_name: String,
    /// The server's version, for instance `2.12.0`.
    pub version: String,
    /// The name of its cluster, or an empty string.
    pub cluster: String,
    /// Whether it supports headers.
    pub headers: bool,
    /// Whether JetStream is enabled.
    pub jetstream: bool,
    /// The largest message that it accepts: headers and payload, in bytes.
    pub max_payload: usize,
    /// Whether credentials are needed.
    pub auth_required: bool,
    /// Whether TLS is needed.
    pub tls_required: bool,
    /// Whether the server is about to stop. Connections should go to another one.
    pub ldm: bool,
    /// The addresses of the cluster's other servers.
    pub connect_urls: Vec<String>,
    /// The text that an nkey signs.
    pub(crate) nonce: String,
}

impl ServerInfo {
    /// Returns the first two numbers of the version, to compare it with what a program needs.
    ///
    /// # Examples
    /// ```
    /// fn check(info: &ecru_nats::ServerInfo) {
    ///     assert!(info.version_numbers() >= (2, 12), "{} is too old", info.version);
    /// }
    /// # let _ = check;
    /// ```
    #[must_use]
    pub fn version_numbers(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// The longest name of a host.
const MAX_HOST: usize = 255;

/// What an URL says about how to log in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum UrlLogin {
    Token(Secret),
    User(String, Secret),
}

/// The address of a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the connection must be encrypted.
    pub(crate) tls: bool,
    /// The name in the server's certificate, if it is not the host.
    pub(crate) certified: Option<String>,
    pub(crate) login: Option<UrlLogin>,
    /// Whether another server has named it.
    pub(crate) discovered: bool,
}

impl Server {
    /// Parses a comma-separated list of URLs. Errors name an URL by its place, because it may
    /// contain a password.
    pub(crate) fn parse_list(urls: &str) -> Result<Vec<Server>, Error> {
        urls.split(',')
            .enumerate()
            .map(|(place, url)| {
                Server::parse(url.trim()).map_err(|why| {
                    let text = format!(
                        "server URL number {} is malformed: {why}; write nats://host:4222",
                        place + 1
                    );
                    Error::invalid(text)
                })
            })
            .collect()
    }

    fn parse(url: &str) -> Result<Server, &'static str> {
        let (tls, rest) = match url.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            Some(_) => return Err("its scheme is neither nats nor tls"),
            None => (false, url),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(parse_login(login)?), place),
            None => (None, rest),
        };
        if place.contains(['/', '?', '#']) {
            return Err("it has a path");
        }
        let (host, port) = split_port(place)?;
        if host.len() > MAX_HOST {
            return Err("its host is longer than 255 bytes");
        }
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it has no host");
        }
        Ok(Server { host: host.to_owned(), port, tls, certified: None, login, discovered: false })
    }

    /// Makes the server that another server of its cluster has named. It inherits whether to
    /// encrypt, so that a server cannot turn encryption off, and the name in the certificate, which
    /// an address does not have.
    pub(crate) fn discover(&self, place: &str) -> Option<Server> {
        let mut server = Server::parse(place).ok()?;
        server.login = self.login.clone();
        server.discovered = true;
        server.tls = self.tls;
        if server.host.parse::<IpAddr>().is_ok() {
            server.certified = Some(self.certified.clone().unwrap_or_else(|| self.host.clone()));
        }
        Some(server)
    }

    /// Returns whether both are the same place.
    pub(crate) fn is_at(&self, other: &Server) -> bool {
        self.host == other.host && self.port == other.port
    }

    /// Returns the name that the certificate must have.
    pub(crate) fn tls_name(&self) -> &str {
        self.certified.as_deref().unwrap_or(&self.host)
    }
}

/// Writes `host:port`, without credentials.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_login(login: &str) -> Result<UrlLogin, &'static str> {
    match login.split_once(':') {
        Some((user, password)) => Ok(UrlLogin::User(decode(user)?, Secret::new(decode(password)?))),
        None => Ok(UrlLogin::Token(Secret::new(decode(login)?))),
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`.
fn split_port(place: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("the bracket of its address is open")?,
        None => match place.find(':') {
            Some(colon) => place.split_at(colon),
            None => (place, ""),
        },
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok((host, 4222)),
        None => Err("it has no port after the address"),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("its port is not a number from 1 to 65535"),
        },
    }
}

/// Decodes `%41`.
fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
            let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
            bytes.push(byte.ok_or("a percent sign is not followed by two digits")?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| "its credentials are not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::{Server, UrlLogin};
    use crate::secret::Secret;

    #[test]
    fn urls() {
        let servers =
            Server::parse_list("a, nats://u%40x:p%3a@b:1,tls://token@[::1]:9/, [fe80::1]").unwrap();
        let shown: Vec<String> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a:4222", "b:1", "[::1]:9", "[fe80::1]:4222"]);
        assert!(servers[1].login == Some(UrlLogin::User("u@x".into(), Secret::new("p:".into()))));
        assert!(
            servers[2].tls
                && servers[2].login == Some(UrlLogin::Token(Secret::new("token".into())))
        );
        for bad in ["", "http://a", "a:0", "a:x", "a:70000", "[::1", "[::1]x", "a/b", "%@a", "x y"]
        {
            let error = Server::parse_list(bad).unwrap_err();
            assert!(error.to_string().contains("server URL number 1"), "{bad}: {error}");
        }
    }

    #[test]
    fn secrets_of_urls_are_not_shown() {
        let error = Server::parse_list("nats://u:hush@host:x").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
        let server = Server::parse_list("nats://u:hush@host").unwrap();
        assert!(!format!("{server:?}").contains("hush"));
    }

    #[test]
    fn a_discovered_server_inherits_encryption() {
        let seed = Server::parse("tls://t@example.org").unwrap();
        let other = seed.discover("nats://10.0.0.2:4222").unwrap();
        assert!(other.tls && other.tls_name() == "example.org" && other.login.is_some());
        assert_eq!(seed.discover("other.org:1").unwrap().tls_name(), "other.org");
    }
}
