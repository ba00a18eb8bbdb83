//! How jobs and results become bytes: JSON with a version.

use std::io;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::MAX_PAYLOAD;
use crate::errors::invalid;
use crate::panics;

/// The version that this release writes. It reads no other one.
const VERSION: u32 = 1;

/// What can be sent as a job, an argument or a result: any type that `serde` can write and read
/// back. It is stored as JSON, `{"v":1,"data":..}`.
///
/// A new release of a program should read what the old one has sent: give new fields a
/// `#[serde(default)]`. What cannot be read goes to the dead, also if reading it panics. What has
/// another `v` was sent by another release of this crate: it is handed out again after a pause,
/// and goes to the dead after as many attempts as the queue permits.
///
/// # Examples
/// ```
/// use ecru_fleet::{Fleet, Queue, Wire};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     image: u64,
///     width: u32,
///     // The release before this one did not have it.
///     #[serde(default)]
///     quality: u8,
/// }
///
/// /// Works for the jobs of any queue.
/// fn send_all<T: Wire>(queue: &Queue<T>, jobs: Vec<T>) -> std::io::Result<()> {
///     for job in jobs {
///         queue.send(job)?;
///     }
///     Ok(())
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let resizes = Fleet::local(s).queue::<Resize>("resizes").open()?;
///         send_all(&resizes, vec![Resize { image: 7, width: 640, quality: 80 }])?;
///         assert_eq!(resizes.stats()?.queued, 1);
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Wire: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Wire for T {}

#[derive(Serialize)]
struct Writing<'a, T> {
    v: u32,
    data: &'a T,
}

#[derive(Deserialize)]
struct Reading<T> {
    data: T,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// Returns the bytes of a job or a result.
pub(crate) fn encode<T: Serialize>(what: &str, data: &T) -> io::Result<Bytes> {
    let bytes = serde_json::to_vec(&Writing { v: VERSION, data })
        .map_err(|error| invalid(format!("{what} cannot be written as JSON: {error}")))?;
    if bytes.len() > MAX_PAYLOAD {
        return Err(invalid(format!(
            "{what} has {} bytes as JSON, and the most is {MAX_PAYLOAD}; store it elsewhere and \
             send where it is",
            bytes.len()
        )));
    }
    Ok(bytes.into())
}

/// Returns the job or result in the bytes.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> io::Result<T> {
    let unreadable = |why: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{what} cannot be read: {why}"))
    };
    let malformed = |error: serde_json::Error| unreadable(error.to_string());
    let Version { v } = serde_json::from_slice(bytes).map_err(malformed)?;
    if v != VERSION {
        let text = format!(
            "{what} cannot be read: it has version {v}, and this program reads {VERSION}; run a \
             release of ecru-fleet that reads it"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    // Reading is the program's code.
    let read = panics::caught(|| serde_json::from_slice(bytes))
        .map_err(|text| unreadable(format!("reading it panicked: {text}")))?;
    let Reading { data } = read.map_err(malformed)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_a_version() {
        let bytes = encode("a job", &(7, "x")).unwrap();
        assert_eq!(&bytes[..], br#"{"v":1,"data":[7,"x"]}"#);
        assert_eq!(decode::<(u32, String)>("a job", &bytes).unwrap(), (7, "x".to_owned()));
        for (malformed, text) in [
            (&b"{\"v\":2,\"data\":7}"[..], "version 2"),
            (b"{\"v\":1}", "data"),
            (b"7", "cannot be read"),
            (b"", "cannot be read"),
            (b"\xFF", "cannot be read"),
        ] {
            let error = decode::<u32>("a job", malformed).unwrap_err();
            let is_newer = text == "version 2";
            assert_eq!(error.kind() == io::ErrorKind::Unsupported, is_newer, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn malformed_payloads_are_errors() {
        let good = encode("a job", &vec![(7, "x".to_owned())]).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5000 {
            let mut bytes = good.to_vec();
            for _ in 0..random.usize(1..4) {
                let place = random.usize(..bytes.len());
                bytes[place] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            // Some are readable by chance.
            if let Err(error) = decode::<Vec<(u32, String)>>("a job", &bytes) {
                assert!(matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::Unsupported
                ));
            }
            let _ = crate::engine::text(&String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let error = encode("a job", &"x".repeat(MAX_PAYLOAD)).unwrap_err();
        assert!(error.to_string().contains("the most is 1048576"), "{error}");
        let unit: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
        assert!(encode("a job", &unit).is_err());
    }
}
