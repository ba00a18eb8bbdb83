//! Layers over a stream: std's buffers and copies, flate2, serde_json.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use crate::support::{assert_timed_out, each_run, interrupted, pair};
use ecru::net::{Shutdown, TcpStream};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Letter {
    number: u32,
    words: Vec<String>,
}

fn letter(number: u32) -> Letter {
    Letter { number, words: (0..number).map(|word| format!("word {word}")).collect() }
}

#[test]
fn layers_buffers_and_copy() {
    each_run(|| {
        ecru::scope(|s| {
            for round in [1_u32, 2] {
                s.spawn(move || {
                    let (ours, theirs) = pair();
                    ecru::scope(|s| {
                        s.spawn(|| {
                            let copied = io::copy(&mut &theirs, &mut &theirs).unwrap();
                            assert!(copied > 0);
                            theirs.shutdown(Shutdown::Write).unwrap();
                        });
                        s.spawn(|| {
                            let mut out = BufWriter::new(&ours);
                            for line in 0..10_000 * round {
                                writeln!(out, "line {line}").unwrap();
                            }
                            out.flush().unwrap();
                            ours.shutdown(Shutdown::Write).unwrap();
                        });
                        let lines = BufReader::new(&ours).lines();
                        let mut count = 0;
                        for (number, line) in lines.enumerate() {
                            assert_eq!(line.unwrap(), format!("line {number}"));
                            count += 1;
                        }
                        assert_eq!(count, 10_000 * round);
                    });
                });
            }
        });
    });
}

#[test]
fn layers_flate2_and_serde_json() {
    each_run(|| {
        let (ours, theirs) = pair();
        ecru::scope(|s| {
            s.spawn(|| {
                let mut out = GzEncoder::new(ours, Compression::fast());
                for number in 0..200 {
                    serde_json::to_writer(&mut out, &letter(number)).unwrap();
                }
                out.finish().unwrap();
            });
            let input = BufReader::new(GzDecoder::new(theirs));
            let letters = serde_json::Deserializer::from_reader(input).into_iter::<Letter>();
            let letters: Vec<_> = letters.map(Result::unwrap).collect();
            assert_eq!(letters, (0..200).map(letter).collect::<Vec<_>>());
        });
    });
}

/// serde_json refuses values nested deeper than 127 levels. A value that it accepts fits on a
/// default stack, also without optimization.
#[test]
fn layers_deep_value() {
    each_run(|| {
        let text = format!("{}7{}", "[".repeat(127), "]".repeat(127));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value.clone(), value);
        assert_eq!(value.to_string(), text);
        assert!(format!("{value:?}").contains('7'));
        assert!(serde_json::from_str::<serde_json::Value>(&format!("[{text}]")).is_err());

        let text = format!("{}7{}", r#"{"key":"#.repeat(127), "}".repeat(127));
        let value: serde_json::Value = serde_json::from_reader(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(value.clone(), value);
    });
}

/// A peer that stops half-way. Through each layer the error is still that of the time limit.
#[test]
fn layers_time_limits() {
    fn half(bytes: &[u8]) -> (TcpStream, TcpStream) {
        let (mut ours, theirs) = pair();
        ours.write_all(bytes).unwrap();
        (ours, theirs)
    }
    each_run(|| {
        let (_ours, theirs) = half(b"no end of line");
        let mut line = String::new();
        let error = interrupted(|| BufReader::new(theirs).read_line(&mut line).unwrap_err());
        assert_timed_out(&error);

        let (_ours, mut theirs) = half(b"bytes");
        let mut copied = Vec::new();
        assert_timed_out(&interrupted(|| io::copy(&mut theirs, &mut copied).unwrap_err()));
        assert_eq!(copied, b"bytes");

        let mut whole = GzEncoder::new(Vec::new(), Compression::fast());
        whole.write_all(&[7; 1000]).unwrap();
        let whole = whole.finish().unwrap();
        let (_ours, theirs) = half(&whole[..whole.len() - 9]);
        let mut bytes = Vec::new();
        let mut decoder = GzDecoder::new(theirs);
        assert_timed_out(&interrupted(|| decoder.read_to_end(&mut bytes).unwrap_err()));

        let (_ours, theirs) = half(br#"{"number": 7, "words": ["#);
        let error = interrupted(|| serde_json::from_reader::<_, Letter>(theirs).unwrap_err());
        assert!(error.is_io());
        assert_timed_out(&io::Error::from(error));

        // When writing, a buffer keeps the bytes that it could not write, and writes them again.
        let (ours, mut theirs) = pair();
        let mut out = BufWriter::new(ours);
        let error = interrupted(|| {
            loop {
                if let Err(error) = out.write_all(&[7; 4096]) {
                    break error;
                }
            }
        });
        assert_timed_out(&error);
        ecru::scope(|s| {
            s.spawn(move || io::copy(&mut theirs, &mut io::sink()).unwrap());
            out.flush().unwrap();
            drop(out);
        });
    });
}
