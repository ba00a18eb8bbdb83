//! Pipes and eventfds.

use super::*;

#[test]
fn a_pipe_carries_bytes_and_ends_with_its_writer() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (reader, writer) = lab.network.open_pipe(host).unwrap();
    assert_eq!(lab.read(reader, 9), Err(Errno::AGAIN));
    lab.watch(reader, Interest::Read, 1);
    assert_eq!(lab.write(writer, b"bytes"), Ok(5));
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.write(reader, b"x"), Err(Errno::BADF));
    assert_eq!(lab.read(writer, 9), Err(Errno::BADF));
    lab.watch(reader, Interest::Read, 2);
    lab.close(writer);
    assert_eq!(lab.told(), [2]);
    assert_eq!(lab.read(reader, 9).unwrap(), b"bytes");
    assert_eq!(lab.read(reader, 9).unwrap(), b"");
}

#[test]
fn a_full_pipe_takes_small_writes_whole_or_not_at_all() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (reader, writer) = lab.network.open_pipe(host).unwrap();
    assert_eq!(lab.write(writer, &[0; 65_000]), Ok(65_000));
    assert_eq!(lab.write(writer, &[0; 4_096]), Err(Errno::AGAIN));
    assert!(!lab.is_ready(writer, Interest::Write));
    // The last page has room for 536 bytes. A write that ends in it goes there, and no other.
    assert_eq!(lab.write(writer, &[0; 5_000]), Err(Errno::AGAIN));
    assert_eq!(lab.write(writer, &[0; 536]), Ok(536));
    lab.watch(writer, Interest::Write, 1);
    lab.read(reader, 10_000).unwrap();
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.write(writer, &[0; 4_096]), Ok(4_096));
    lab.watch(writer, Interest::Write, 2);
    lab.close(reader);
    assert_eq!(lab.told(), [2]);
    assert_eq!(lab.write(writer, b"x"), Err(Errno::PIPE));
}

#[test]
fn an_eventfd_adds_up_what_is_written_until_it_is_read() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let event = lab.network.open_event(host).unwrap();
    assert_eq!(lab.read(event, 8), Err(Errno::AGAIN));
    lab.watch(event, Interest::Read, 1);
    lab.write(event, &1_u64.to_ne_bytes()).unwrap();
    lab.write(event, &2_u64.to_ne_bytes()).unwrap();
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.read(event, 7), Err(Errno::INVAL));
    assert_eq!(lab.read(event, 8).unwrap(), 3_u64.to_ne_bytes());
    assert_eq!(lab.read(event, 8), Err(Errno::AGAIN));
    lab.write(event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    assert!(!lab.is_ready(event, Interest::Write));
    assert_eq!(lab.write(event, &1_u64.to_ne_bytes()), Err(Errno::AGAIN));
    assert_eq!(lab.write(event, b"short"), Err(Errno::INVAL));
}
