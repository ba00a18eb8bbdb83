//! The requests of a client.

/// The length of the longest request. A longer line is malformed, and is not kept.
pub const LONGEST: usize = 64;

/// A kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It computes.
    Cpu,
    /// It sleeps.
    Io,
}

/// The contents of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The kind of task.
    pub kind: Kind,
    /// The seed of all random numbers in the task.
    pub seed: u64,
}

impl Request {
    /// Parses a line: the field before the first colon is the type, and the field after the last
    /// colon is the seed.
    pub fn parse(line: &[u8]) -> Option<Request> {
        if line.len() > LONGEST {
            return None;
        }
        let mut fields = str::from_utf8(line).ok()?.trim().split(':');
        let first = fields.next()?;
        let last = fields.next_back().unwrap_or(first);
        let kind = match first.parse::<u8>().ok()? {
            0 | 2 => Kind::Cpu,
            1 => Kind::Io,
            _ => return None,
        };
        Some(Request { kind, seed: last.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, LONGEST, Request};

    #[test]
    fn the_first_and_the_last_field_count() {
        let cpu = |seed| Some(Request { kind: Kind::Cpu, seed });
        assert_eq!(Request::parse(b"0:7"), cpu(7));
        assert_eq!(Request::parse(b" 0:7\r"), cpu(7));
        assert_eq!(Request::parse(b"2:7"), cpu(7));
        assert_eq!(Request::parse(b"0:what:ever:7"), cpu(7));
        assert_eq!(Request::parse(b"0"), cpu(0));
        assert_eq!(
            Request::parse(b"1:18446744073709551615"),
            Some(Request { kind: Kind::Io, seed: u64::MAX })
        );
    }

    #[test]
    fn whatever_else_is_no_request() {
        for line in [
            "",
            ":",
            "0:",
            ":7",
            "3:7",
            "256:7",
            "-1:7",
            "0:-7",
            "0:18446744073709551616",
            "0 :7",
            "0;7",
            "hello",
        ] {
            assert_eq!(Request::parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Request::parse(b"0:\xff"), None);
        assert_eq!(Request::parse(format!("0:{}7", "0".repeat(LONGEST)).as_bytes()), None);
    }
}
