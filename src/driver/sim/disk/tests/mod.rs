//! Tests of the disk alone: against the kernel's file systems, under power failures, and with other
//! faults.

mod faults;
mod kernel;
mod power;

use super::{Context, Disk, DiskFaults, Home, OpenFile};
use crate::driver::sim::{Draws, HostId, Journal};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time on the host's clock.
const NOW: Duration = Duration::from_secs(1_000_000_000);

/// A generator of random numbers (SplitMix64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.any() % bound as u64) as usize
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A disk, and what its calls use of a world.
struct Machine {
    disk: Disk,
    faults: DiskFaults,
    dice: Dice,
    draws: Draws,
    begun: Vec<(Duration, u64)>,
}

fn home() -> Home {
    let (current, others) = (PathBuf::from("/home"), vec![PathBuf::from("/tmp")]);
    Home { current, others, user: 1000, group: 1000, umask: 0o022 }
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine::of(home(), seed)
    }

    fn of(home: Home, seed: u64) -> Machine {
        let disk = Disk::new(home, SystemTime::UNIX_EPOCH + NOW);
        let (dice, draws) = (Dice(seed), Draws::new(seed));
        Machine { disk, faults: DiskFaults::NONE, dice, draws, begun: Vec::new() }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Disk, &mut Context<'_>) -> T) -> T {
        let Machine { disk, faults, draws, begun, .. } = self;
        let now = SystemTime::UNIX_EPOCH + NOW;
        let (host, journal) = (HostId::ROOT, &mut Journal::default());
        call(disk, &mut Context { now, host, draws, journal, faults, sockets: 0, begun })
    }

    fn open(&mut self, path: &str, flags: i32) -> io::Result<OpenFile> {
        self.call(|disk, context| disk.open(path.as_ref(), flags, 0o666, context))
    }

    fn create(&mut self, path: &str) -> OpenFile {
        self.open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).unwrap()
    }

    fn write(&mut self, file: OpenFile, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.call(|disk, context| disk.write(file, bytes, Some(at), context))
    }

    fn sync(&mut self, file: OpenFile) {
        self.call(|disk, context| disk.sync(file, false, None, context)).unwrap();
    }

    fn sync_folder(&mut self, path: &str) {
        let folder = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY).unwrap();
        self.sync(folder);
        self.disk.close(folder);
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.call(|disk, context| disk.rename(from.as_ref(), to.as_ref(), context)).unwrap();
    }

    fn make_directory(&mut self, path: &str) {
        self.call(|disk, context| disk.make_directory(path.as_ref(), 0o777, context)).unwrap();
    }

    fn power_fail(&mut self) {
        self.call(|disk, context| disk.power_fail(context));
    }

    /// Returns the content of a file, or `None` if there is none.
    fn content(&mut self, path: &str) -> Option<Vec<u8>> {
        match self.call(|disk, context| disk.read_file(path.as_ref(), context)) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("{path} cannot be read: {error}"),
        }
    }

    fn names(&mut self, path: &str) -> Vec<String> {
        let listed = self.call(|disk, context| disk.list(path.as_ref(), context));
        let names = listed.unwrap().1.into_iter().map(|entry| entry.name);
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

#[test]
fn a_host_begins_with_its_directories() {
    let mut machine = Machine::new(1);
    assert_eq!(machine.names("/"), ["home", "tmp"]);
    assert_eq!(machine.names("."), [""; 0]);
    machine.create("file");
    assert_eq!(machine.disk.real_path(Path::new("file")).unwrap(), Path::new("/home/file"));
    // They are on the disk, and come again if they were removed.
    machine.call(|disk, context| disk.remove_tree("/home".as_ref(), context)).unwrap();
    assert!(machine.open("file", libc::O_RDONLY).is_err());
    machine.power_fail();
    assert!(machine.names("/").contains(&"home".to_owned()));
    machine.create("other");
}

#[test]
fn inodes_are_freed_when_the_disk_has_forgotten_them() {
    let mut machine = Machine::new(1);
    machine.make_directory("folder");
    let files = Vec::from_iter((0..10).map(|number| machine.create(&format!("folder/{number}"))));
    let before = machine.disk.inodes.len();
    for (number, file) in files.into_iter().enumerate() {
        machine.write(file, &[7; 10_000], 0).unwrap();
        if number % 2 == 0 {
            machine.sync(file);
        }
        machine.disk.close(file);
    }
    assert_eq!(machine.disk.pages, 30);
    machine.call(|disk, context| disk.remove_tree("folder".as_ref(), context)).unwrap();
    // A power failure may bring them back, but their space is free.
    assert_eq!((machine.disk.pages, machine.disk.inodes.len()), (0, before));
    machine.sync_folder(".");
    assert_eq!((machine.disk.pages, machine.disk.inodes.len()), (0, before - 11));
}

#[test]
fn what_is_never_synced_takes_a_bounded_amount_of_memory() {
    let mut machine = Machine::new(1);
    let inodes = machine.disk.inodes.len();
    for number in 0..10_000 {
        let file = machine.create(&format!("file {number}"));
        machine.disk.close(file);
        let path = format!("file {number}");
        machine.call(|disk, context| disk.remove_file(path.as_ref(), context)).unwrap();
    }
    assert!(machine.disk.inodes.len() < inodes + 1_100, "{}", machine.disk.inodes.len());
}
