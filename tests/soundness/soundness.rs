//! Each program under `rejected/` is a bug that safe code would have if it compiled. The programs
//! under `accepted/` are similar and legal, which shows that the others are not rejected for
//! another reason. The programs under `taught/` are mistakes of newcomers. Their messages have to
//! say what is wrong in the words of ecru's users.
//!
//! The compiler's message is stored beside each program, for the stable toolchain. If a new
//! toolchain words it differently, read the difference, then run this test with
//! `TRYBUILD=overwrite`.

use std::env;
use std::path::{Path, PathBuf};

#[test]
fn what_is_wrong_is_rejected() {
    let (rejected, accepted) = (programs("rejected"), programs("accepted"));
    let taught = programs("taught");
    assert!(
        rejected.len() >= 17 && accepted.len() >= 2 && taught.len() >= 10,
        "some programs have been lost: {rejected:?}, {accepted:?}, {taught:?}"
    );
    // Without a stored text, any error would do, for example a misspelled name.
    if env::var_os("TRYBUILD").is_none() {
        for program in rejected.iter().chain(&taught) {
            assert!(
                program.with_extension("stderr").exists(),
                "{program:?} has no .stderr beside it"
            );
        }
    }
    let refused = rejected.len() + taught.len();
    println!("{refused} programs to be rejected, {} to be accepted", accepted.len());

    let cases = trybuild::TestCases::new();
    cases.compile_fail("rejected/*.rs");
    cases.compile_fail("taught/*.rs");
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
