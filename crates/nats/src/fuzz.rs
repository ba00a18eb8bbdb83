//! The parser against text that is not NATS: it neither panics nor keeps more than its limits.

use crate::wire::{Decoder, Frame, MAX_LINE, WireError};

/// The limit of the parsers here.
const MAX_MESSAGE: usize = 1000;

/// Text of a server, from which the fuzzer makes worse.
const GOOD: &str = "INFO {\"version\":\"2.12.0\",\"max_payload\":1048576}\r\n\
    MSG a.b 12 5\r\nhello\r\nMSG a.b 12 re.ply 0\r\n\r\nPING\r\nPONG\r\n+OK\r\n\
    HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n\
    HMSG a 1 r 21 26\r\nNATS/1.0\r\nName: x\r\n\r\nhello\r\n\
    HMSG a 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n-ERR 'Stale Connection'\r\n";

/// Feeds text in pieces. Returns the frames, and the error that ended it.
fn parse(text: &[u8], piece: usize) -> (Vec<Frame>, Option<WireError>) {
    let mut decoder = Decoder::new(MAX_MESSAGE);
    let mut frames = Vec::new();
    for bytes in text.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(decoder.kept() <= MAX_LINE + MAX_MESSAGE + piece, "{}", decoder.kept());
    }
    (frames, None)
}

fn shown(frames: &[Frame]) -> String {
    format!("{frames:?}")
}

/// - given: what a server sends
/// - when: it arrives in pieces of any size
/// - then: the frames are the same
#[test]
fn nats_50_pieces() {
    let (whole, error) = parse(GOOD.as_bytes(), GOOD.len());
    assert_eq!((whole.len(), error), (10, None));
    let Frame::Message(1, message) = &whole[7] else { panic!("{whole:?}") };
    assert_eq!(message.headers().get("Name"), Some("x"));
    assert_eq!((message.reply(), &message.payload()[..]), (Some("r"), &b"hello"[..]));
    let Frame::Message(1, message) = &whole[8] else { panic!("{whole:?}") };
    let status = message.status().unwrap();
    assert_eq!((status.code(), status.description()), (503, "No Responders"));
    for piece in 1..GOOD.len() {
        let (pieces, error) = parse(GOOD.as_bytes(), piece);
        assert_eq!((shown(&pieces), error), (shown(&whole), None), "{piece}");
    }
}

/// - given: a server that sends wrong lengths, endless lines or headers, or other text
/// - when: it is parsed
/// - then: an error says what is wrong, at the first line that shows it
#[test]
fn nats_51_malformed_frames() {
    let long = "x".repeat(MAX_LINE + 1);
    let malformed = [
        (long.as_str(), WireError::LineTooLong),
        ("GET / HTTP/1.1\r\n", WireError::UnknownVerb),
        ("\r\n", WireError::UnknownVerb),
        ("MSG\r\n", WireError::Arguments("MSG")),
        ("MSG a 1\r\n", WireError::Arguments("MSG")),
        ("MSG a x 1\r\n", WireError::Arguments("MSG")),
        ("MSG a\rb 1 1\r\nx\r\n", WireError::Arguments("MSG")),
        ("MSG a 1 -1\r\n", WireError::Arguments("MSG")),
        ("MSG a 1 r 5 6\r\n", WireError::Arguments("MSG")),
        ("MSG a 1 99999999999999999999999\r\n", WireError::Arguments("MSG")),
        ("MSG a 1 1001\r\n", WireError::MessageTooLong { length: 1001, limit: MAX_MESSAGE }),
        ("MSG a 1 1\r\nxyz", WireError::Unterminated),
        ("HMSG a 1 6 5\r\n", WireError::Arguments("HMSG")),
        ("HMSG a 1 5\r\n", WireError::Arguments("HMSG")),
        ("HMSG a 1 2 2\r\n\r\n\r\n", WireError::Headers("they do not begin with NATS/1.0")),
        ("HMSG a 1 8 8\r\nNATS/1.0\r\n", WireError::Headers("they do not end with an empty line")),
        (
            "HMSG a 1 14 14\r\nNATS/1.0 x\r\n\r\n\r\n",
            WireError::Headers("the status is not a number of three digits"),
        ),
        ("INFO {\r\n", WireError::Info("EOF while parsing an object at line 1 column 1".into())),
    ];
    for (text, expected) in malformed {
        assert_eq!(parse(text.as_bytes(), 7).1, Some(expected), "{text:.40}");
    }
    assert_eq!(parse(b"MSG \xff 1 1\r\nx\r\n", 100).1, Some(WireError::NotUtf8));
}

/// - given: a server's text with random changes: bytes replaced, parts repeated, moved and left out
/// - when: it is parsed in pieces of random sizes
/// - then: nothing panics, and no more is kept than the limits allow
#[test]
fn nats_52_random_text() {
    for seed in 0..4000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text: Vec<u8> = GOOD.as_bytes().repeat(random.usize(1..4));
        for _ in 0..random.usize(0..8) {
            let at = random.usize(0..text.len());
            let end = random.usize(at..text.len().min(at + 40));
            match random.u32(0..5) {
                0 => text[at] = random.u8(..),
                1 => text[at] = *random.choice(b"0123456789 \r\n:.'{").unwrap(),
                2 => drop(text.drain(at..end)),
                3 => {
                    let part = text[at..end].to_vec();
                    let to = random.usize(0..text.len());
                    text.splice(to..to, part.repeat(random.usize(1..30)));
                }
                _ => {
                    let to = random.usize(0..text.len());
                    let digits = random.u64(..).to_string();
                    text.splice(to..to, digits.bytes());
                }
            }
            if text.is_empty() {
                break;
            }
        }
        let piece = random.usize(1..200);
        let (frames, _) = parse(&text, piece);
        for frame in frames {
            if let Frame::Message(_, message) = frame {
                let _ = (message.headers().iter().count(), format!("{message:?}"));
            }
        }
    }
}

/// - given: a server that sends a line without end, or a message that never becomes complete
/// - when: it goes on
/// - then: what is kept is bounded, and the line ends in an error
#[test]
fn nats_53_endless_text() {
    assert_eq!(parse("MSG a ".repeat(20_000).as_bytes(), 4096).1, Some(WireError::LineTooLong));
    let headers = format!("HMSG a 1 900 900\r\n{}", "Name: x\r\n".repeat(98));
    assert_eq!(parse(headers.as_bytes(), 50).1, None);
}
