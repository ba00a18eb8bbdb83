//! A URL to download, with its credentials taken out of it.
//!
//! `http://user:password@host/path` is split here, once. The rest of the program prints, compares
//! and stores only `http://host/path`. The credentials live on as the value of an `Authorization`
//! header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use ureq::http::{HeaderValue, Uri};

/// Scheme, host and port. Credentials and the user's headers are sent to this origin only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    pub(crate) fn of(uri: &Uri) -> Self {
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let default = if scheme == "https" { 443 } else { 80 };
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        Self { port: uri.port_u16().unwrap_or(default), scheme, host }
    }
}

/// A URL without credentials, and the credentials.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) uri: Uri,
    /// The value of `Authorization`, marked as sensitive, so that `Debug` does not show it.
    pub(crate) credentials: Option<HeaderValue>,
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// Returns the reason in words, without any part of the credentials.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // A fragment is for the client, and is not sent to a server.
        let asked = text.split_once('#').map_or(text, |(before, _)| before);
        // This is checked first, because the parser's own message about it helps little.
        let (scheme, rest) = match asked.split_once("://") {
            Some((scheme, rest))
                if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) =>
            {
                (scheme, rest)
            }
            Some((scheme, _)) if !scheme.contains('@') => {
                return Err(format!("`{scheme}` is neither http nor https"));
            }
            _ => return Err("http:// or https:// is missing at the front".into()),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        if host.is_empty() {
            return Err("it names no host".into());
        }
        let uri: Uri =
            format!("{scheme}://{host}{path}").parse().map_err(|error| format!("{error}"))?;
        let parsed = uri.authority().ok_or("it names no host")?;
        if parsed.host().is_empty() {
            return Err("it names no host".into());
        }
        let bare = host.rsplit(']').next().unwrap_or_default();
        if bare.contains(':') && parsed.port_u16().is_none() {
            return Err("its port is no number from 0 to 65535".into());
        }
        Ok(Self { credentials: user_info.map(basic).transpose()?, uri })
    }
}

/// `user:password`, percent-encoded, as the value of an `Authorization` header.
fn basic(user_info: &str) -> Result<HeaderValue, String> {
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut plain: Vec<u8> = percent_decode_str(user).collect();
    if plain.contains(&b':') {
        return Err("its user name contains a colon, which Basic authentication cannot send".into());
    }
    plain.push(b':');
    plain.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(plain)))
        .expect("base64 is made of visible characters");
    value.set_sensitive(true);
    Ok(value)
}

/// Makes a line that is not a URL safe to print: everything that may be credentials is replaced.
pub(crate) fn without_credentials(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once('@') else { return text.to_string() };
    match before.split_once("://") {
        Some((scheme, _)) if !scheme.contains(['@', ':']) => format!("{scheme}://***@{after}"),
        _ => format!("***@{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that is not a URL is refused with the reason, and the reason does not repeat a
    /// password.
    #[test]
    fn no_urls() {
        for (text, why) in [
            ("example.org/x", "missing at the front"),
            ("x", "missing at the front"),
            ("ftp://h/x", "neither http nor https"),
            ("user:secret@http://h/", "missing at the front"),
            ("http:///x", "no host"),
            ("http://user:secret@/x", "no host"),
            ("http://user:secret@h:99999/x", ""),
            ("http://user:secret@h h/x", ""),
            ("http://us%3Aer:secret@h/x", "colon"),
            ("http://h:99999/x", "port"),
            ("http://h h/x", ""),
            ("", ""),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("secret"), "{text}: {error}");
            assert!(!without_credentials(text).contains("secret"), "{text}");
        }
        assert!(Address::parse("https://[::1]:8080/x?y#z").is_ok());
    }

    /// Credentials are decoded and leave the URL. `Debug` does not show them.
    #[test]
    fn credentials() {
        let address = Address::parse("http://us%40er:p%3Aa%2Fss@h:81/x@y?z=@").unwrap();
        assert_eq!(address.uri.to_string(), "http://h:81/x@y?z=@");
        let value = address.credentials.as_ref().unwrap().to_str().unwrap();
        assert_eq!(value, format!("Basic {}", STANDARD.encode("us@er:p:a/ss")));
        assert!(!format!("{address:?}").contains(value));
        let unescaped = Address::parse("http://user:p@ss@h/x").unwrap();
        assert_eq!(
            unescaped.credentials.unwrap().to_str().unwrap(),
            format!("Basic {}", STANDARD.encode("user:p@ss"))
        );
        assert!(Address::parse("http://h/x@y").unwrap().credentials.is_none());
    }

    /// A redacted line keeps what is not secret.
    #[test]
    fn redaction() {
        assert_eq!(without_credentials("ftp://u:p@h/x"), "ftp://***@h/x");
        assert_eq!(without_credentials("u:p@h/x"), "***@h/x");
        assert_eq!(without_credentials("h/x"), "h/x");
    }

    /// A default port, written or not, gives the same origin. Another scheme, host or port is
    /// another origin.
    #[test]
    fn origins() {
        let of = |text: &str| Origin::of(&text.parse().unwrap());
        assert_eq!(of("http://H/a"), of("http://h:80/b"));
        assert_eq!(of("https://h/a"), of("https://h:443/b"));
        assert_ne!(of("http://h/"), of("https://h/"));
        assert_ne!(of("http://h/"), of("http://h:81/"));
        assert_ne!(of("http://h/"), of("http://i/"));
    }
}
