//! Which requests are answered.
//!
//! A browser sends requests on behalf of any page that it shows. So a request that reads or changes
//! anything has the token in a header, which no other page knows, and which a browser never adds by
//! itself. Two checks come before that one. The name in `Host` must be one of ours: otherwise a
//! page of another name, which its owner lets point to this machine, would be of the same origin.
//! And a browser that names the origin of a request must name this one.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns 32 hexadecimal digits that cannot be guessed.
pub(super) fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns whether two secrets are the same. The time that it takes depends on the length of the
/// candidate alone.
fn is_same(secret: &str, candidate: &[u8]) -> bool {
    let secret = secret.as_bytes();
    let mut difference = secret.len() ^ candidate.len();
    for (index, byte) in candidate.iter().enumerate() {
        let own = secret[index % secret.len()];
        difference |= black_box(usize::from(own ^ byte));
    }
    black_box(difference) == 0
}

/// Returns whether the request has the token.
pub(super) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let given = value.and_then(|value| value.strip_prefix(b"Bearer "));
    given.is_some_and(|given| is_same(token, given))
}

/// Returns the host and the port that the request names, if the page may be opened by that name. An
/// address of the Internet is no name that its owner could let point elsewhere.
pub(super) fn authority<'h>(headers: &'h HeaderMap, names: &[String]) -> Option<&'h str> {
    let mut hosts = headers.get_all(HOST).iter();
    let authority = hosts.next()?.to_str().ok()?;
    if hosts.next().is_some() {
        return None;
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let is_address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    };
    let is_name = |name: &str| name.eq_ignore_ascii_case(host);
    (is_address || is_name("localhost") || names.iter().any(|name| is_name(name)))
        .then_some(authority)
}

/// Returns whether the request is of the page itself, as far as the browser tells. A program that
/// is no browser tells nothing.
pub(super) fn is_own(headers: &HeaderMap, authority: &str) -> bool {
    let is_of_site = headers
        .get(SEC_FETCH_SITE)
        .is_none_or(|site| site.as_bytes() == b"same-origin" || site.as_bytes() == b"none");
    let is_origin = |origin: &str| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
    };
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().is_ok_and(is_origin));
    is_of_site && origin.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let has = |value| has_token(&headers(&[("authorization", value)]), "abcd");
        assert!(has("Bearer abcd"));
        for bad in
            ["Bearer abc", "Bearer abcde", "Bearer abcdabcd", "Bearer ", "abcd", "Basic abcd"]
        {
            assert!(!has(bad), "{bad}");
        }
        assert!(!has_token(&HeaderMap::new(), "abcd"));
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one.len() == 32 && one != other);
    }

    #[test]
    fn only_known_hosts_are_answered() {
        let names = ["mill.example".to_owned()];
        let is_known = |host| authority(&headers(&[("host", host)]), &names).is_some();
        for good in ["127.0.0.1:8787", "localhost", "[::1]:80", "10.1.2.3", "MILL.example:443"] {
            assert!(is_known(good), "{good}");
        }
        for bad in
            ["evil.example", "evil.example:8787", "127.0.0.1.evil", "localhost.evil:1", "", "::1"]
        {
            assert!(!is_known(bad), "{bad}");
        }
        let two = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert!(
            authority(&two, &names).is_none() && authority(&HeaderMap::new(), &names).is_none()
        );
    }

    #[test]
    fn requests_of_other_pages_are_refused() {
        let is_ours = |pairs: &[_]| is_own(&headers(pairs), "127.0.0.1:8787");
        assert!(is_ours(&[]));
        assert!(is_ours(&[("origin", "http://127.0.0.1:8787"), ("sec-fetch-site", "same-origin")]));
        assert!(is_ours(&[("origin", "https://127.0.0.1:8787")]));
        for bad in ["null", "http://evil.example", "http://127.0.0.1:9000", "http://127.0.0.1", ""]
        {
            assert!(!is_ours(&[("origin", bad)]), "{bad}");
        }
        for bad in ["cross-site", "same-site", ""] {
            assert!(!is_ours(&[("sec-fetch-site", bad)]), "{bad}");
        }
    }
}
