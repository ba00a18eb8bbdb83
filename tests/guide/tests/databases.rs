//! The programs of the chapter on databases, with a real PostgreSQL.
//!
//! The programs are in `doc/guide/programs`, and the chapter shows the same. Each runs in a process
//! of its own, because its environment has the server's address.

#[allow(dead_code, unreachable_pub, missing_docs, reason = "it is a module of a library there")]
#[path = "../../ecosystem/src/servers.rs"]
mod servers;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use ecru::net::TcpListener;
use servers::USER;

mod queries {
    include!("../../../doc/guide/programs/queries.rs");

    pub(crate) fn start() {
        main().unwrap();
    }
}

mod pool {
    include!("../../../doc/guide/programs/pool.rs");

    pub(crate) fn start() {
        main().unwrap();
    }
}

mod batch {
    include!("../../../doc/guide/programs/batch.rs");

    pub(crate) fn start() {
        main().unwrap();
    }
}

/// The programs in the order of the chapter.
const PROGRAMS: [(&str, fn()); 3] =
    [("queries", queries::start), ("pool", pool::start), ("batch", batch::start)];
/// The variable that says which program to run.
const VARIABLE: &str = "ECRU_GUIDE_PROGRAM";

/// No test: the process of a program comes here.
#[test]
fn is_a_program() {
    let Ok(wanted) = env::var(VARIABLE) else { return };
    let (_, start) = PROGRAMS.into_iter().find(|(name, _)| *name == wanted).unwrap();
    start();
}

#[test]
fn the_chapter_shows_these_programs() {
    let doc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/guide");
    let chapter = fs::read_to_string(doc.join("src/08-databases.md")).unwrap();
    let shown = chapter.split("```rust,no_run\n").skip(1).map(|rest| rest.split("```").next());
    let programs = PROGRAMS
        .map(|(name, _)| fs::read_to_string(doc.join(format!("programs/{name}.rs"))).unwrap());
    assert!(shown.eq(programs.iter().map(|program| Some(&program[..]))));
}

/// Runs a program, and returns what it and the test runner print.
#[track_caller]
fn run(program: &str, url: &str) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "is_a_program", "--nocapture", "--test-threads=1"]);
    let output = command.env(VARIABLE, program).env("DATABASE_URL", url).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}{stderr}");
    said
}

#[test]
fn the_programs_do_what_the_chapter_says_slow() {
    let Some(server) = servers::postgres() else { return };
    let url = format!("postgres://{USER}:undyed%20cloth@{}/postgres", server.address());
    assert!(run("queries", &url).contains("100.0 %"));
    assert!(run("pool", &url).contains("stored\n"));
    ecru::run(|| {
        let mut client = ecru_postgres::connect(&url).unwrap();
        let ups = client.query_one("SELECT count(*), sum(is_up::int) FROM reports", &[]).unwrap();
        assert_eq!((ups.get::<_, i64>(0), ups.get::<_, i64>(1)), (3, 2));
        // One site is up, and nothing listens at the other.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let up = listener.local_addr().unwrap().to_string();
        client.batch_execute("CREATE TABLE sites (site text, is_up bool)").unwrap();
        for site in [&up[..], "127.0.0.1:1"] {
            client.execute("INSERT INTO sites VALUES ($1, NULL)", &[&site]).unwrap();
        }
        ecru::scope(|s| {
            s.spawn_daemon(|| ecru_guide::site(&listener));
            assert!(ecru::unblock(|| run("batch", &url)).contains("2 sites"));
        });
        let up = client.query_one("SELECT site FROM sites WHERE is_up", &[]).unwrap();
        assert_eq!(up.get::<_, String>(0), listener.local_addr().unwrap().to_string());
        client.query_one("SELECT site FROM sites WHERE NOT is_up", &[]).unwrap();
    });
}
