//! Files on a worker whose driver does not support them: every operation that waits runs on a
//! thread of the pool.

use crate::fs::{self, File, OpenOptions};
use crate::runtime::Runtime;
use crate::sched::io::files_by_pool;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::PathBuf;

/// Creates a folder on the system's disk. On a tmpfs no operation would go to the pool.
fn in_a_folder(body: impl FnOnce(&PathBuf)) {
    let folder = PathBuf::from(format!("/var/tmp/ecru-by-pool-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    files_by_pool::set(true);
    // With one worker, tasks run on this thread, for which the switch is set.
    Runtime::builder().workers(1).build().unwrap().run(|| body(&folder));
    files_by_pool::set(false);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_pool_carries_what_the_driver_does_not() {
    in_a_folder(|folder| {
        let path = folder.join("file");
        let bytes = vec![7; (1 << 20) + 3];
        fs::write(&path, &bytes).unwrap();
        let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.write_all_at(b"at", 1 << 20).unwrap();
        file.write_all(b"cursor").unwrap();
        assert_eq!(file.stream_position().unwrap(), 6);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut back = Vec::new();
        file.read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), (1 << 20) + 3 - 6);
        assert!(back.ends_with(b"at\x07"));
        assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
        assert_eq!(
            File::open(folder).unwrap().read(&mut [0; 4]).unwrap_err().kind(),
            ErrorKind::IsADirectory
        );

        // Bytes of a FIFO are waited for by readiness, so a cancellation can end the wait.
        let fifo = folder.join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let both = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        crate::scope::scope(|s| {
            let reader = s.spawn(|| (&both).read(&mut [0; 4]).map_err(|error| error.kind()));
            for _ in 0..20 {
                crate::time::yield_now().unwrap();
            }
            assert!(!reader.is_finished());
            (&both).write_all(b"four").unwrap();
            assert_eq!(reader.join().unwrap(), Ok(4));
        });
    });
}
