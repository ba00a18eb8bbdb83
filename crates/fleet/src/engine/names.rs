//! The names of queues and runs, and the tokens of ids.

use std::fmt::Write;
use std::io;

/// The longest name of a queue or of a store of results.
pub(crate) const MAX_NAME: usize = 64;

/// The longest token.
pub(crate) const MAX_TOKEN: usize = 512;

/// Checks the name of a queue or a function, which has at most `most` bytes.
pub(crate) fn check_name(what: &str, name: &str, most: usize) -> io::Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > most {
        format!("has {} bytes, and the most is {most}", name.len())
    } else if let Some(bad) = name.chars().find(|c| !c.is_ascii() || !is_plain(*c as u8)) {
        format!("contains {bad:?}")
    } else {
        return Ok(());
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "the name {name:?} of a {what} {problem}; use letters, digits, '_' and '-' of ASCII"
        ),
    ))
}

/// Writes any text as a token: bytes other than letters, digits, `_` and `-` become `=` and two
/// hexadecimal digits.
pub(crate) fn token(what: &str, text: &str) -> io::Result<String> {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(char::from(byte));
        } else {
            let _ = write!(token, "={byte:02X}");
        }
    }
    if token.is_empty() || token.len() > MAX_TOKEN {
        let problem = if text.is_empty() { "is empty" } else { "is too long" };
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the {what} {text:?} {problem}; it has 1 to {MAX_TOKEN} bytes, where each \
                 character other than letters, digits, '_' and '-' counts three times or more"
            ),
        ));
    }
    Ok(token)
}

/// Stands between the key and the name of a job that is in order with others. No token of a text
/// has it, because a number follows each `=` there.
const IN_ORDER: &str = "==";

/// Returns the id of a job that is in order with the others of a key.
pub(crate) fn in_order(key: &str, name: &str) -> String {
    format!("{key}{IN_ORDER}{name}")
}

/// Returns the key and the name in the id of a job that is in order with others. A job of another
/// client may have any token for an id, also one that only looks so.
pub(crate) fn key_of(id: &str) -> Option<(&str, &str)> {
    id.split_once(IN_ORDER).filter(|(key, name)| !key.is_empty() && !name.is_empty())
}

/// Returns the text of a token, or `None` if it is malformed.
pub(crate) fn text(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_reversible() {
        for plain in ["a", "a-b_c", "=", "a.b *>", "ä€😀", "a=b", "\0\n"] {
            let token = token("key", plain).unwrap();
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-=".contains(&b)));
            assert_eq!(text(&token).unwrap(), plain);
        }
        assert!(token("key", "").unwrap_err().to_string().contains("is empty"));
        assert!(token("key", &"ä".repeat(100)).unwrap_err().to_string().contains("too long"));
        for malformed in ["=", "=4", "=ZZ", "=FF"] {
            assert_eq!(text(malformed), None);
        }
    }

    #[test]
    fn names_are_checked() {
        check_name("queue", "Jobs_2-x", MAX_NAME).unwrap();
        for bad in ["", "a.b", "a b", "ä", "a>", &"x".repeat(65)] {
            let error = check_name("queue", bad, MAX_NAME).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("use letters"), "{error}");
        }
    }
}
