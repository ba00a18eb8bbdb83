//! What power failures leave.

use super::Machine;
use crate::driver::sim::disk::Lock;
use crate::driver::sim::disk::stored::SECTOR;
use std::collections::BTreeSet;

/// How many draws a test looks at.
const DRAWS: u64 = 1_500;

/// Fails the power after `f`, in each draw, and returns what was found then.
fn draws<T: Ord>(f: impl Fn(&mut Machine), found: impl Fn(&mut Machine) -> T) -> BTreeSet<T> {
    (0..DRAWS)
        .map(|seed| {
            let mut machine = Machine::new(seed);
            f(&mut machine);
            machine.power_fail();
            let once = found(&mut machine);
            machine.power_fail();
            assert!(once == found(&mut machine), "a second failure has nothing to lose");
            once
        })
        .collect()
}

#[test]
fn a_synced_file_in_a_synced_directory_survives() {
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.write(file, b"one, ", 0).unwrap();
            machine.write(file, b"two", 5).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            machine.write(file, b"lost or not", 100).unwrap();
        },
        |machine| machine.content("file").map(|bytes| bytes[..8].to_vec()),
    );
    assert_eq!(found, [Some(b"one, two".to_vec())].into());
}

#[test]
fn a_sync_of_the_data_is_enough_for_content_and_length() {
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.sync_folder(".");
            machine.write(file, &[7; 10_000], 0).unwrap();
            machine.call(|disk, context| disk.sync(file, true, None, context)).unwrap();
        },
        |machine| machine.content("file"),
    );
    assert_eq!(found, [Some(vec![7; 10_000])].into());
}

#[test]
fn a_name_survives_for_certain_only_with_a_sync_of_its_directory() {
    let synced_file = |machine: &mut Machine| {
        let file = machine.create("file");
        machine.write(file, b"x", 0).unwrap();
        machine.sync(file);
    };
    let found = draws(synced_file, |machine| machine.content("file"));
    assert_eq!(found, [None, Some(b"x".to_vec())].into());

    let journaled = draws(
        |machine| {
            machine.faults.journals_names = true;
            synced_file(machine);
        },
        |machine| machine.content("file"),
    );
    assert_eq!(journaled, [Some(b"x".to_vec())].into());
}

#[test]
fn a_removed_name_may_come_back_until_the_directory_is_synced() {
    let remove = |machine: &mut Machine| {
        let file = machine.create("file");
        machine.write(file, b"x", 0).unwrap();
        machine.sync(file);
        machine.sync_folder(".");
        machine.disk.close(file);
        machine.call(|disk, context| disk.remove_file("file".as_ref(), context)).unwrap();
    };
    let found = draws(remove, |machine| machine.content("file"));
    assert_eq!(found, [None, Some(b"x".to_vec())].into());
    let found = draws(
        |machine| {
            remove(machine);
            machine.sync_folder(".");
        },
        |machine| machine.content("file"),
    );
    assert_eq!(found, [None].into());
}

#[test]
fn each_unsynced_write_is_lost_in_some_draw_and_kept_in_another() {
    const COUNT: usize = 5;
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.write(file, &[0; COUNT * 4096], 0).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            for number in 0..COUNT {
                machine.write(file, &[1; 10], number as u64 * 4096).unwrap();
            }
        },
        |machine| {
            let bytes = machine.content("file").unwrap();
            assert_eq!(bytes.len(), COUNT * 4096);
            (0..COUNT).map(|number| bytes[number * 4096] == 1).collect::<Vec<_>>()
        },
    );
    // All combinations, because each is a sector of its own.
    assert_eq!(found.len(), 1 << COUNT, "{found:?}");
}

#[test]
fn writes_stay_in_order_if_they_are_not_reordered() {
    let found = draws(
        |machine| {
            machine.faults.reorders = false;
            let file = machine.create("file");
            machine.write(file, &[0; 5 * 4096], 0).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            for number in 0..5 {
                machine.write(file, &[1; 10], number * 4096).unwrap();
            }
        },
        |machine| {
            let bytes = machine.content("file").unwrap();
            let kept = Vec::from_iter((0..5).map(|number| bytes[number * 4096] == 1));
            assert!(kept.is_sorted_by(|one, other| one >= other), "{kept:?}");
            kept.iter().filter(|kept| **kept).count()
        },
    );
    assert_eq!(found, BTreeSet::from_iter(0..=5));
}

#[test]
fn a_write_is_torn_between_sectors_and_not_within_one() {
    const SECTORS: usize = 4;
    let sector = SECTOR as usize;
    let write = |machine: &mut Machine| {
        let file = machine.create("file");
        machine.write(file, &vec![0; SECTORS * sector], 0).unwrap();
        machine.sync(file);
        machine.sync_folder(".");
        machine.write(file, &vec![1; SECTORS * sector], 0).unwrap();
    };
    let kept = |machine: &mut Machine| {
        let bytes = machine.content("file").unwrap();
        let one = |part: &[u8]| part.iter().all(|byte| *byte == part[0]).then_some(part[0]);
        Vec::from_iter(bytes.chunks(sector).map(|part| one(part).expect("a sector is whole")))
    };
    assert_eq!(draws(write, kept).len(), 1 << SECTORS);
    let whole = draws(
        |machine| {
            machine.faults.tears = false;
            write(machine);
        },
        kept,
    );
    assert_eq!(whole, [vec![0; SECTORS], vec![1; SECTORS]].into());
}

#[test]
fn a_sector_never_has_a_later_write_without_the_earlier_ones() {
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.write(file, &[0; 100], 0).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            for place in 0..10 {
                machine.write(file, b"x", place).unwrap();
            }
        },
        |machine| {
            let bytes = machine.content("file").unwrap();
            let count = bytes.iter().take_while(|byte| **byte == b'x').count();
            assert!(bytes[count..].iter().all(|byte| *byte == 0), "{bytes:?}");
            count
        },
    );
    assert_eq!(found, BTreeSet::from_iter(0..=10));
}

#[test]
fn an_appended_length_may_come_without_its_bytes() {
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.write(file, b"old", 0).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            machine.write(file, b"new", 3).unwrap();
        },
        |machine| machine.content("file").unwrap(),
    );
    let all = [b"old".to_vec(), b"old\0\0\0".to_vec(), b"oldnew".to_vec()];
    assert_eq!(found, all.into());
}

#[test]
fn a_file_that_was_emptied_and_rewritten_has_old_or_new_bytes_but_no_mixture() {
    let found = draws(
        |machine| {
            let file = machine.create("file");
            machine.write(file, b"a long old text", 0).unwrap();
            machine.sync(file);
            machine.sync_folder(".");
            let file = machine.create("file");
            machine.write(file, b"new", 0).unwrap();
        },
        |machine| machine.content("file").unwrap(),
    );
    let all = [b"a long old text".to_vec(), Vec::new(), vec![0; 3], b"new".to_vec()];
    assert_eq!(found, all.into());
}

#[test]
fn a_replacing_rename_is_there_as_a_whole_or_not_at_all() {
    let replace = |syncs: bool| {
        move |machine: &mut Machine| {
            let old = machine.create("file");
            machine.write(old, b"old", 0).unwrap();
            machine.sync(old);
            machine.sync_folder(".");
            let new = machine.create("file.new");
            machine.write(new, b"new", 0).unwrap();
            if syncs {
                machine.sync(new);
            }
            machine.rename("file.new", "file");
        }
    };
    let content = |machine: &mut Machine| machine.content("file").expect("a file is there");
    assert_eq!(draws(replace(true), content), [b"old".to_vec(), b"new".to_vec()].into());
    // Without a sync of the new file, its name may come without its content.
    let found = draws(replace(false), content);
    assert!(found.contains(b"".as_slice()) && found.contains(b"old".as_slice()), "{found:?}");
}

#[test]
fn a_rename_between_directories_loses_nothing() {
    let found = draws(
        |machine| {
            machine.make_directory("from");
            machine.make_directory("to");
            machine.create("from/file");
            machine.sync_folder("from");
            machine.sync_folder(".");
            machine.rename("from/file", "to/file");
            machine.create("to/other");
        },
        |machine| (machine.names("from"), machine.names("to")),
    );
    let names = |names: &[&str]| Vec::from_iter(names.iter().map(|name| (*name).to_owned()));
    let all = [
        (names(&["file"]), names(&[])),
        (names(&[]), names(&["file"])),
        (names(&[]), names(&["file", "other"])),
    ];
    assert_eq!(found, all.into());

    // A sync of either directory is enough.
    for folder in ["from", "to"] {
        let found = draws(
            |machine| {
                machine.make_directory("from");
                machine.make_directory("to");
                machine.sync_folder(".");
                machine.create("from/file");
                machine.rename("from/file", "to/file");
                machine.sync_folder(folder);
            },
            |machine| (machine.names("from"), machine.names("to")),
        );
        assert_eq!(found, [(names(&[]), names(&["file"]))].into(), "{folder}");
    }
}

#[test]
fn a_file_that_leaves_a_directory_outlives_it() {
    draws(
        |machine| {
            machine.make_directory("from");
            machine.make_directory("to");
            let file = machine.create("from/file");
            machine.write(file, b"x", 0).unwrap();
            machine.sync(file);
            machine.sync_folder("from");
            machine.sync_folder(".");
            machine.rename("from/file", "to/file");
            machine.call(|disk, context| disk.remove_directory("from".as_ref(), context)).unwrap();
            machine.sync_folder(".");
        },
        |machine| assert_eq!(machine.content("to/file").unwrap(), b"x"),
    );
}

#[test]
fn directories_that_are_moved_into_each_other_stay_a_tree() {
    draws(
        |machine| {
            for folder in ["x", "x/p", "x/p/q", "y"] {
                machine.make_directory(folder);
            }
            machine.create("x/p/q/file");
            for folder in ["x/p/q", "x/p", "x", "y", "."] {
                machine.sync_folder(folder);
            }
            machine.rename("x/p/q", "y/q");
            machine.rename("x/p", "y/q/p");
        },
        |machine| {
            let places = ["x/p/q/file", "y/q/file"];
            let found = places.map(|path| machine.content(path).is_some());
            assert!(found[0] != found[1], "the file has one name: {found:?}");
            let folders = ["x/p", "y/q/p"].map(|path| machine.open(path, libc::O_RDONLY).is_ok());
            assert!(folders[0] != folders[1], "the directory has one name: {folders:?}");
        },
    );
}

#[test]
fn the_edits_of_a_directory_stay_in_order() {
    let found = draws(
        |machine| {
            for name in ["1", "2", "3", "4"] {
                machine.create(name);
            }
        },
        |machine| machine.names(".").join(" "),
    );
    let all = ["", "1", "1 2", "1 2 3", "1 2 3 4"].map(str::to_owned);
    assert_eq!(found, all.into());
}

#[test]
fn a_process_that_crashes_loses_nothing() {
    let mut machine = Machine::new(1);
    let file = machine.create("file");
    machine.write(file, b"x", 0).unwrap();
    machine.call(|disk, _| disk.lock(file, Lock::Exclusive)).unwrap();
    machine.disk.crash();
    assert_eq!(machine.content("file").unwrap(), b"x");
    let again = machine.create("file");
    machine.call(|disk, _| disk.lock(again, Lock::Exclusive)).unwrap();
    let error = machine.write(file, b"y", 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    machine.disk.close(file);
}

#[test]
fn attributes_survive_with_a_full_sync() {
    let mode =
        |machine: &mut Machine| machine.disk.look("file".as_ref(), true).unwrap().attributes.mode;
    let change = |machine: &mut Machine| {
        let file = machine.create("file");
        machine.sync(file);
        machine.sync_folder(".");
        machine.disk.set_open_mode(file, 0o600).unwrap();
        file
    };
    let found = draws(
        |machine| {
            change(machine);
        },
        mode,
    );
    assert_eq!(found, [0o600, 0o644].into());
    let found = draws(
        |machine| {
            let file = change(machine);
            machine.sync(file);
        },
        mode,
    );
    assert_eq!(found, [0o600].into());
}

#[test]
fn any_writes_and_lengths_leave_the_cache_after_a_sync() {
    for seed in 0..200 {
        let mut machine = Machine::new(seed);
        let file = machine.create("file");
        machine.sync_folder(".");
        for _ in 0..30 {
            let (at, length) = (machine.dice.below(20_000), machine.dice.below(9_000));
            match machine.dice.below(8) {
                0 => {
                    machine
                        .call(|disk, context| disk.set_length(file, at as u64, context))
                        .unwrap();
                }
                1 => machine.sync(file),
                // A sync that began earlier.
                2 => {
                    let upto = machine.dice.any() % 40;
                    let ino = machine.disk.ino_of(file).unwrap();
                    machine.disk.change(ino, std::time::SystemTime::UNIX_EPOCH, |stored| {
                        stored.sync(upto);
                    });
                }
                _ => {
                    let byte = machine.dice.any() as u8;
                    machine.write(file, &vec![byte; length], at as u64).unwrap();
                }
            }
        }
        let before = machine.content("file").unwrap();
        machine.sync(file);
        machine.power_fail();
        assert!(machine.content("file").unwrap() == before, "seed {seed}");
    }
}
