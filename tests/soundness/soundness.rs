//! Each program under `rejected/` is a bug that safe code would have if it compiled; those under `accepted/` are their legal neighbours,
//! so that the former are not rejected for another reason.
//!
//! What the compiler says is pinned beside each, for the stable toolchain. When a new one words it differently, read the
//! difference, then run this with `TRYBUILD=overwrite`.

use std::env;
use std::path::{Path, PathBuf};

#[test]
fn what_would_be_unsound_is_rejected() {
    let (rejected, accepted) = (programs("rejected"), programs("accepted"));
    assert!(
        rejected.len() >= 17 && accepted.len() >= 2,
        "some programs have been lost: {rejected:?}, {accepted:?}"
    );
    // Without a pinned text, any error would do, a misspelled name among them.
    if env::var_os("TRYBUILD").is_none() {
        for program in &rejected {
            assert!(
                program.with_extension("stderr").exists(),
                "{program:?} has no .stderr beside it"
            );
        }
    }
    println!("{} programs to be rejected, {} to be accepted", rejected.len(), accepted.len());

    let cases = trybuild::TestCases::new();
    cases.compile_fail("rejected/*.rs");
    cases.pass("accepted/*.rs");
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = folder.read_dir().expect("the folder is there").filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}
