//! Faults other than power failures.

use super::Machine;
use std::io;
use std::time::Duration;

fn code<T: std::fmt::Debug>(outcome: io::Result<T>) -> i32 {
    outcome.unwrap_err().raw_os_error().expect("it is an error of the kernel")
}

#[test]
fn a_full_disk_takes_what_fits() {
    let mut machine = Machine::new(1);
    machine.faults.capacity = Some(3 * 4096 + 100);
    let one = machine.create("one");
    assert_eq!(machine.write(one, &[1; 5000], 0).unwrap(), 5000);
    let other = machine.create("other");
    assert_eq!(machine.write(other, &[2; 5000], 0).unwrap(), 4096);
    assert_eq!(code(machine.write(other, &[2; 904], 4096)), libc::ENOSPC);
    // What has a page already can be written.
    assert_eq!(machine.write(one, &[3; 5000], 4000).unwrap(), 4192);
    assert_eq!(machine.content("other").unwrap(), [2; 4096]);

    machine.call(|disk, context| disk.remove_file("one".as_ref(), context)).unwrap();
    assert_eq!(code(machine.write(other, &[2; 904], 4096)), libc::ENOSPC, "it is still open");
    machine.disk.close(one);
    assert_eq!(machine.write(other, &[2; 904], 4096).unwrap(), 904);
}

#[test]
fn a_host_has_a_limit_of_open_files() {
    let mut machine = Machine::new(1);
    machine.faults.open_files = Some(2);
    let one = machine.create("one");
    machine.create("other");
    assert_eq!(code(machine.open("third", libc::O_RDONLY)), libc::EMFILE);
    machine.disk.close(one);
    assert_eq!(code(machine.open("third", libc::O_RDONLY)), libc::ENOENT);
}

#[test]
fn some_transfers_are_short() {
    let mut machine = Machine::new(1);
    let file = machine.create("file");
    machine.faults.short_transfers = 0.5;
    let counts = Vec::from_iter((0..100).map(|_| machine.write(file, &[1; 10], 0).unwrap()));
    let whole = counts.iter().filter(|count| **count == 10).count();
    assert!((30..70).contains(&whole), "{counts:?}");
    assert!((1..10).all(|count| counts.contains(&count)), "{counts:?}");
    let read = |machine: &mut Machine| {
        machine.call(|disk, context| disk.read(file, &mut [0; 10], Some(0), context)).unwrap()
    };
    let counts = Vec::from_iter((0..100).map(|_| read(&mut machine)));
    assert!((1..=10).all(|count| counts.contains(&count)), "{counts:?}");
    // A transfer of one byte is never short.
    assert!((0..100).all(|_| machine.write(file, b"x", 0).unwrap() == 1));
}

#[test]
fn some_transfers_fail() {
    let mut machine = Machine::new(1);
    let file = machine.create("file");
    machine.faults.errors = 0.2;
    let failed = (0..1000).filter(|_| machine.write(file, b"x", 0).is_err()).count();
    assert!((150..250).contains(&failed), "{failed}");
    machine.faults.errors = 1.0;
    assert_eq!(code(machine.write(file, b"x", 0)), libc::EIO);
    let outcome = machine.call(|disk, context| disk.read(file, &mut [0; 9], None, context));
    assert_eq!(code(outcome), libc::EIO);
    assert_eq!(code(machine.call(|disk, context| disk.sync(file, true, None, context))), libc::EIO);
}

#[test]
fn a_sync_after_a_failed_one_does_not_write_what_that_has_lost() {
    let mut lost = 0;
    for seed in 0..100 {
        let mut machine = Machine::new(seed);
        let file = machine.create("file");
        machine.write(file, &[0; 4096], 0).unwrap();
        machine.sync(file);
        machine.sync_folder(".");
        machine.write(file, &[1; 8], 0).unwrap();
        machine.faults.errors = 1.0;
        assert!(machine.call(|disk, context| disk.sync(file, false, None, context)).is_err());
        machine.faults.errors = 0.0;
        machine.sync(file);
        assert_eq!(machine.content("file").unwrap()[..8], [1; 8], "the cache still has it");
        machine.power_fail();
        let found = machine.content("file").unwrap();
        assert_eq!(found.len(), 4096);
        lost += usize::from(found[0] == 0);
    }
    assert!((20..80).contains(&lost), "{lost}");
}

#[test]
fn a_slow_sync_writes_what_was_there_when_it_began() {
    let mut machine = Machine::new(1);
    let file = machine.create("file");
    machine.write(file, b"early", 0).unwrap();
    machine.sync_folder(".");
    let (least, most) = (Duration::from_millis(1), Duration::from_millis(5));
    machine.faults.sync_latency = least..=most;
    let sync = |machine: &mut Machine, op| {
        machine.call(|disk, context| disk.sync(file, true, op, context))
    };
    assert_eq!(code(sync(&mut machine, None)), libc::EAGAIN);
    assert_eq!(machine.begun, [], "an attempt begins nothing");
    assert_eq!(code(sync(&mut machine, Some(7))), libc::EAGAIN);
    assert_eq!(code(sync(&mut machine, Some(7))), libc::EAGAIN);
    let [(latency, 7)] = machine.begun[..] else { panic!("{:?}", machine.begun) };
    assert!((least..=most).contains(&latency), "{latency:?}");

    machine.write(file, b"late!", 4096).unwrap();
    assert!(machine.call(|disk, context| disk.finish_sync(7, context)));
    sync(&mut machine, Some(7)).unwrap();
    assert_eq!(code(sync(&mut machine, Some(7))), libc::EAGAIN, "the next op with that number");
    machine.disk.cancel_sync(7);
    assert!(!machine.call(|disk, context| disk.finish_sync(7, context)), "it was withdrawn");

    let mut lost = 0;
    for seed in 0..50 {
        let mut machine = Machine::new(seed);
        machine.faults.sync_latency = least..=most;
        let file = machine.create("file");
        machine.write(file, b"early", 0).unwrap();
        let folder = machine.open(".", libc::O_RDONLY).unwrap();
        for (op, open) in [(1, folder), (2, file)] {
            let begun = machine.call(|disk, context| disk.sync(open, true, Some(op), context));
            assert_eq!(code(begun), libc::EAGAIN);
        }
        machine.write(file, b"late!", 4096).unwrap();
        for op in [1, 2] {
            assert!(machine.call(|disk, context| disk.finish_sync(op, context)));
        }
        machine.power_fail();
        let found = machine.content("file").unwrap();
        assert_eq!(found[..5], *b"early");
        lost += usize::from(!found.ends_with(b"late!"));
    }
    assert!((10..50).contains(&lost), "{lost}");
}
