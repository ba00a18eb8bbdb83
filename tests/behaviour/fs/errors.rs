//! Errors are the same as std's.

use super::{Folder, everywhere, pattern, roots, told};
use crate::support::run_on;
use ecru::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::process::Command;

/// - given: paths and files that fail
/// - when: each is used
/// - then: std's error, including its text: missing, a directory, not a directory, taken, a zero
///   byte in the path, not UTF-8
#[test]
fn fs_08_errors_as_std() {
    everywhere(|folder| {
        let (missing, file) = (folder.at("missing"), folder.at("file"));
        fs::write(&file, "x").unwrap();
        let below = file.join("below");
        let zero = Path::new("a\0b");
        for path in [&missing, &folder.0, &below, zero, Path::new(""), &missing.join("too")] {
            assert_eq!(told(fs::read(path)), told(std::fs::read(path)), "{path:?}");
            assert_eq!(told(File::open(path)), told(std::fs::File::open(path)), "{path:?}");
            assert_eq!(told(fs::metadata(path)), told(std::fs::metadata(path)), "{path:?}");
            assert_eq!(told(fs::read_dir(path)), told(std::fs::read_dir(path)), "{path:?}");
            assert_eq!(told(fs::remove_file(path)), told(std::fs::remove_file(path)), "{path:?}");
            assert_eq!(told(fs::read_link(path)), told(std::fs::read_link(path)), "{path:?}");
            if path != missing {
                assert_eq!(told(fs::write(path, "")), told(std::fs::write(path, "")), "{path:?}");
            }
        }
        assert_eq!(told(fs::create_dir(&file)), told(std::fs::create_dir(&file)));
        assert_eq!(told(File::create_new(&file)), told(std::fs::File::create_new(&file)));
        let mut directory = File::open(&folder.0).unwrap();
        assert_eq!(directory.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::IsADirectory);
        let mut unwritable = File::open(&file).unwrap();
        let refused = unwritable.write(b"no").unwrap_err();
        assert_eq!(
            told::<()>(Err(refused)),
            told(std::fs::File::open(&file).unwrap().write(b"no"))
        );
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(told(fs::read_to_string(&file)), told(std::fs::read_to_string(&file)));
    });
}

const SMALL: &str = "ECRU_TEST_SMALL_FILE_SYSTEM";

/// - given: a file system of 64 KiB
/// - when: more is written
/// - then: `StorageFull`; the bytes that fitted were reported and are there, and there is room
///   again when a file is removed
#[test]
fn fs_09_full() {
    // Errors that need no privilege.
    for workers in 1..=2 {
        run_on(workers, || {
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            assert_eq!((&full).write(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
        });
    }
    if let Some(folder) = std::env::var_os(SMALL) {
        for workers in 1..=2 {
            run_on(workers, || fill(Path::new(&folder)));
        }
        fill(Path::new(&folder));
        return;
    }
    // The others need a process with its own view of the file systems.
    let folder = Folder::on(&roots()[1]);
    let script =
        "mount -t tmpfs -o size=64k tmpfs \"$1\" && exec \"$0\" --exact fs::errors::fs_09_full";
    let refused = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs \"$0\""])
        .arg(&folder.0)
        .output()
        .map_or(true, |output| !output.status.success());
    if refused {
        eprintln!("fs_09_full: mounting is not allowed here; only /dev/full was tried");
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(&folder.0)
        .env(SMALL, &folder.0)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn fill(folder: &Path) {
    let path = folder.join("file");
    let mut file = File::create(&path).unwrap();
    let bytes = pattern(1 << 20);
    let fitted = file.write(&bytes).unwrap();
    assert!((4096..=64 << 10).contains(&fitted), "{fitted}");
    assert_eq!(file.write(&bytes).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.stream_position().unwrap(), fitted as u64);
    assert!(std::fs::read(&path).unwrap() == bytes[..fitted]);
    let refused = fs::write(folder.join("other"), &bytes).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    drop(file);
    fs::remove_file(&path).unwrap();
    fs::write(folder.join("other"), &bytes[..4096]).unwrap();
    assert_eq!(fs::read(folder.join("other")).unwrap().len(), 4096);
    fs::remove_file(folder.join("other")).unwrap();
}

/// - given: a file whose bytes cannot be read
/// - when: it is read
/// - then: the system's `EIO`, and the file stays usable
#[test]
fn fs_10_io_error() {
    everywhere(|_| {
        // Nothing is mapped at address 0.
        let file = File::open("/proc/self/mem").unwrap();
        let error = file.read_at(&mut [0; 8], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
        assert_eq!((&file).stream_position().unwrap(), 0);
        let (here, mut there) = (0x6563_7275_u32, [0; 4]);
        file.read_exact_at(&mut there, (&raw const here).addr() as u64).unwrap();
        assert_eq!(u32::from_ne_bytes(there), here);
    });
}
