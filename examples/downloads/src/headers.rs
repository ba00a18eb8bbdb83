//! `--header`: headers that the user adds to every request.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};
use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderName, HeaderValue};

/// The program sets these headers itself, or depends on them to read the answer.
const REFUSED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-range",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The headers. `Debug` does not show their values.
#[derive(Clone, Default)]
pub(crate) struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Reads `NAME: VALUE`, and `@FILE`, which contains one such line each.
    ///
    /// # Errors
    /// Returns a message that names the header, and never shows a value.
    pub(crate) fn parse(given: &[String]) -> anyhow::Result<Self> {
        let mut headers = Self::default();
        for (number, text) in given.iter().enumerate() {
            let Some(file) = text.strip_prefix('@') else {
                headers.add(text).with_context(|| format!("--header number {}", number + 1))?;
                continue;
            };
            let lines = std::fs::read_to_string(Path::new(file))
                .with_context(|| format!("--header: cannot read {file}"))?;
            for (number, line) in lines.lines().enumerate() {
                if !line.trim().is_empty() {
                    headers.add(line).with_context(|| format!("{file}:{}", number + 1))?;
                }
            }
        }
        Ok(headers)
    }

    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let Some((name, value)) = text.split_once(':') else {
            bail!("it contains no colon; write it as 'Name: value'");
        };
        let name: HeaderName =
            name.trim().parse().ok().context("its name is not a valid header name")?;
        if REFUSED.contains(&name.as_str()) {
            bail!("`{name}` is set by the program itself; leave it out");
        }
        let mut value = HeaderValue::from_str(value.trim())
            .or_else(|_| HeaderValue::from_bytes(value.trim().as_bytes()))
            .with_context(|| {
                format!("the value of `{name}` contains characters that a header must not have")
            })?;
        value.set_sensitive(true);
        self.0.push((name, value));
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    /// Whether the user sets `Authorization`, which then replaces a URL's credentials.
    pub(crate) fn authorize(&self) -> bool {
        self.0.iter().any(|(name, _)| *name == AUTHORIZATION)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An invalid header is refused, without showing a value.
    #[test]
    fn bad_headers() {
        for (text, words) in [
            ("Authorization Bearer secret", "no colon"),
            ("a b: secret", "not a valid header name"),
            ("Range: secret", "`range`"),
            ("X: sec\u{1}ret", "`x`"),
        ] {
            let error = format!("{:#}", Headers::parse(&[text.into()]).unwrap_err());
            assert!(error.contains(words) && !error.contains("secret"), "{text}: {error}");
        }
        let good = Headers::parse(&["X-Key: secret".into(), "Authorization:Bearer a:b".into()]);
        let good = good.unwrap();
        assert!(good.authorize());
        assert_eq!(format!("{good:?}"), r#"["x-key", "authorization"]"#);
    }
}
