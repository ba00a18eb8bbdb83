//! A print shop: child processes do the work, and no wait for them is longer than necessary.

use std::time::Duration;

use ecru::io::{self, BufRead, BufReader, Write};
use ecru::process::{Command, Stdio};
use ecru::signal::{Signal, SignalKind};
use ecru::{scope, select, timeout};

fn main() -> io::Result<()> {
    ecru::run(|| {
        // Everything that the program prints, with both streams read at once.
        let proof = Command::new("sh").args(["-c", "echo galley; echo blot >&2"]).output()?;
        assert_eq!((&proof.stdout[..], &proof.stderr[..]), (&b"galley\n"[..], &b"blot\n"[..]));

        // A program in the middle: one task writes to it while another reads its output.
        let mut sorter = Command::new("sort");
        let mut sorter = sorter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdin, stdout) = (sorter.stdin.take(), sorter.stdout.take());
        let sheets: Vec<String> = scope(|s| {
            s.spawn(move || {
                let mut stdin = stdin.expect("it was piped");
                for sheet in ["weft", "undyed", "loom"] {
                    writeln!(stdin, "{sheet}").expect("it reads on");
                }
            });
            BufReader::new(stdout.expect("it was piped")).lines().collect::<io::Result<_>>()
        })?;
        assert_eq!(sheets, ["loom", "undyed", "weft"]);
        assert!(sorter.wait()?.success());

        // A time limit ends the wait, not the program.
        let mut press = Command::new("sleep").arg("600").kill_on_drop(true).spawn()?;
        assert!(timeout(Duration::from_millis(20), || press.wait()).is_err());

        // The end of the program is a source among others, and so is a signal.
        let (end, terminate) = (press.exit(), Signal::new(SignalKind::terminate())?);
        press.kill()?;
        select! {
            wait(&end) -> status => writeln!(io::stdout(), "the press: {}", status??)?,
            wait(&terminate) -> _ => writeln!(io::stdout(), "asked to close the shop")?,
        }
        Ok(())
    })
}
