//! Stack traces of parked tasks, as text.

use std::backtrace::Backtrace;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::room::has_room;
use crate::base::simulated;

/// The stack trace of a parked task: its calls, innermost first. The first one is the call of this
/// library in which the task waits. What that calls, and what calls the task's function, is left out.
///
/// Names and lines are looked up when the trace is printed, which takes a while the first time. A
/// release build has no line tables unless its profile says `debug = "line-tables-only"`. Without
/// them the trace shows no lines, and no functions that the optimizer has inlined into others. It
/// may then consist of a single call of this library.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let (sender, receiver) = ecru::channel::unbounded::<u32>();
///         s.builder().name("reader").spawn(move || receiver.recv());
///         while ecru::diag::metrics().waiting.is_empty() {
///             ecru::yield_now().unwrap();
///         }
///         let tree = ecru::RuntimeHandle::current().dump();
///         let reader = tree.tasks().find(|task| task.name() == Some("reader")).unwrap();
///         println!("{}", reader.stack_trace().expect("it waits"));
///         drop(sender);
///     });
/// });
/// ```
#[derive(Clone)]
pub struct StackTrace {
    captured: Arc<Backtrace>,
}

impl StackTrace {
    pub(super) fn new(captured: Backtrace) -> StackTrace {
        StackTrace { captured: Arc::new(captured) }
    }

    /// Returns the text of each frame, which has one line or more.
    pub(super) fn frames(&self) -> Vec<String> {
        let mut frames = frames_of(&self.captured);
        trim(&mut frames);
        frames
    }

    /// Returns the innermost call of this library by the program, as [`called_at`] does.
    #[cfg(feature = "sim")]
    pub(super) fn called_at(&self) -> Option<(Option<String>, String)> {
        called_at(&self.captured)
    }
}

/// The bytes that must be free where a trace is printed. The first one loads the debug information of
/// the program.
const ROOM: usize = 256 << 20;

/// Returns no frames if there is too little memory to print them.
fn frames_of(captured: &Backtrace) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    if !has_room(ROOM) {
        return frames;
    }
    // The names are in files of the machine.
    for line in simulated::aside(|| captured.to_string()).lines() {
        match (without_number(line), frames.last_mut()) {
            (Some(name), _) => frames.push(name.to_owned()),
            (None, Some(frame)) => {
                frame.push('\n');
                frame.push_str(line.trim());
            }
            (None, None) => {}
        }
    }
    frames
}

/// Returns the innermost call of this library by the program: the function that is called, if its
/// name is a plain one, and the place of the call. Returns `None` if the lines are not known.
#[cfg(feature = "sim")]
pub(crate) fn called_at(captured: &Backtrace) -> Option<(Option<String>, String)> {
    call_in(&frames_of(captured))
}

#[cfg(feature = "sim")]
fn call_in(frames: &[String]) -> Option<(Option<String>, String)> {
    let first = frames.iter().position(|frame| is_own(frame, ""))?;
    let is_foreign = |frame: &&String| {
        let Some((_, place)) = frame.split_once("\nat ") else {
            // Those that catch panics lie between `serve` and its caller. Any other one is the
            // program's, whose lines are not known.
            let name = frame.trim_start_matches(['<', '&']);
            let is_std = ["std::", "core::", "alloc::", "__rust_try"];
            return is_own(frame, "") || is_std.iter().any(|start| name.starts_with(start));
        };
        let is_std = place.starts_with("/rustc/")
            || ["/library/std/", "/library/core/", "/library/alloc/"]
                .iter()
                .any(|part| place.contains(part));
        is_own(frame, "") || is_std
    };
    let inside = frames[first..].iter().take_while(is_foreign).count();
    let (_, place) = frames.get(first + inside)?.split_once("\nat ")?;
    // Without lines of the program, those of libc may be the next ones.
    let is_rust = place.split(':').next().is_some_and(|file| file.ends_with(".rs"));
    let place = is_rust.then(|| place.strip_prefix("./").unwrap_or(place).to_owned())?;
    let own = frames[first..first + inside].iter().rev().find(|frame| is_own(frame, ""));
    Some((own.and_then(|frame| short_name(frame)), place))
}

/// Returns the type and the name of a method, or the name of a function, without generic arguments.
#[cfg(feature = "sim")]
fn short_name(frame: &str) -> Option<String> {
    let name = frame.split_once('\n').map_or(frame, |(name, _)| name);
    if name.contains('{') {
        return None;
    }
    let (path, function) = name.rsplit_once("::")?;
    // In `<Type as Trait>::method`, the type counts.
    let path = path.trim_start_matches(['<', '&']);
    let path = path.split_once(" as ").map_or(path, |(of, _)| of);
    let path = path.split_once('<').map_or(path, |(of, _)| of);
    let of = path.rsplit("::").next()?.trim_end_matches('>');
    let is_type = of.starts_with(char::is_uppercase);
    Some(if is_type { format!("{of}::{function}") } else { function.to_owned() })
}

/// Returns the name if the line begins a frame: `  12: name`.
fn without_number(line: &str) -> Option<&str> {
    let (number, name) = line.trim_start().split_once(": ")?;
    number.parse::<u32>().ok().map(|_| name)
}

/// Removes the frames by which the task waits, by which it leaves its trace, and by which it is
/// run.
fn trim(frames: &mut Vec<String>) {
    frames.retain(|frame| !is_own(frame, "base/short_trace.rs"));
    let left_it = frames.iter().position(|frame| is_own(frame, "park/parker.rs"));
    let waits = ["sched/", "park/"];
    let begin = frames
        .iter()
        .skip(left_it.unwrap_or(0))
        .position(|frame| !waits.iter().any(|part| is_own(frame, part)));
    frames.drain(..left_it.unwrap_or(0) + begin.unwrap_or(0));
    let starts = ["task/result.rs", "sched/running.rs", "sched/life.rs", "runtime/run.rs"];
    let end = frames.iter().position(|frame| starts.iter().any(|part| is_own(frame, part)));
    // One frame is always left, because the program's own frame may have been inlined into what
    // runs it.
    frames.truncate(end.unwrap_or(frames.len()).max(1));
    while frames.len() > 1 && frames.last().is_some_and(|frame| is_plumbing(frame)) {
        frames.pop();
    }
    // Of the calls of this library inside of the program's, the outermost one has a name that the
    // program knows.
    let is_inside = |frame: &&String| is_own(frame, "") || is_plumbing(frame);
    let inside = frames.iter().take_while(is_inside).count();
    if inside < frames.len() {
        let called = frames[..inside].iter().rposition(|frame| is_own(frame, ""));
        frames.drain(..called.unwrap_or(0));
    }
}

/// Returns whether a frame's code is in a given file or folder of this library. Without debug
/// information a frame has only a name. With little debug information it has only a location.
fn is_own(frame: &str, part: &str) -> bool {
    let (name, place) = frame.split_once("\nat ").unwrap_or((frame, ""));
    let module = part.trim_end_matches(".rs").trim_end_matches('/').replace('/', "::");
    let named = name
        .trim_start_matches(['<', '&'])
        .strip_prefix("ecru::")
        .is_some_and(|path| path.starts_with(&module));
    let here = Path::new(place.strip_prefix("./").unwrap_or(place));
    named || in_part(here, OWN, part) || (is_at_home() && in_part(here, "src", part))
}

/// The folder of this library's sources.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Whether the working directory is this package. Locations below the working directory are printed
/// relative to it.
fn is_at_home() -> bool {
    std::env::current_dir().is_ok_and(|at| at == Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn in_part(place: &Path, sources: &str, part: &str) -> bool {
    place.strip_prefix(sources).is_ok_and(|inside| inside.to_string_lossy().starts_with(part))
}

/// Returns whether a frame lies between a task's closure and what runs it.
fn is_plumbing(frame: &str) -> bool {
    is_own(frame, "scope/")
        || frame.starts_with("__rust_try")
        || ["/std/src/panic", "/core/src/panic", "/core/src/ops/function.rs", "/alloc/src/boxed.rs"]
            .iter()
            .any(|place| frame.contains(place))
        || [
            "std::panic",
            "core::panic",
            "core::ops::function",
            "core::option",
            "<core::panic",
            "<alloc::boxed",
        ]
        .iter()
        .any(|name| frame.starts_with(name))
}

impl fmt::Display for StackTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, frame) in self.frames().iter().enumerate() {
            for (line, text) in frame.lines().enumerate() {
                if number + line > 0 {
                    f.write_str("\n")?;
                }
                if line == 0 {
                    write!(f, "{number:>4}: {text}")?;
                } else {
                    write!(f, "          {text}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StackTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackTrace").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{OWN, is_own, trim, without_number};

    #[test]
    fn frames_are_told_from_places() {
        assert_eq!(without_number("  12: core::ops::function"), Some("core::ops::function"));
        assert_eq!(without_number("             at ./src/lib.rs:3:9"), None);
    }

    #[test]
    fn own_frames_are_known_by_name_and_by_place() {
        assert!(is_own("<ecru::park::parker::Parker>::wait_out", "park/"));
        assert!(is_own("ecru::task::result::TaskBox<B>::run", "task/result.rs"));
        assert!(is_own(&format!("{{closure#0}}\nat {OWN}/sched/host.rs:3:9"), "sched/"));
        assert!(!is_own("program::park::wait\nat /program/src/park/mod.rs:3:9", "park/"));
    }

    #[cfg(feature = "sim")]
    #[test]
    fn the_call_of_the_program_is_found() {
        use super::{call_in, short_name};
        let short = |name: &str| short_name(name).unwrap_or_default();
        assert_eq!(short("ecru::sync::mutex::Mutex<T>::lock"), "Mutex::lock");
        assert_eq!(short("<ecru::sync::mutex::Mutex<T>>::lock"), "Mutex::lock");
        let read = "<ecru::net::tcp_stream::TcpStream as std::io::Read>::read";
        assert_eq!(short(read), "TcpStream::read");
        assert_eq!(short("ecru::time::sleep"), "sleep");
        assert_eq!(short("ecru::scope::scope::{{closure}}"), "");
        let frames = [
            String::from("std::backtrace::Backtrace::create\nat /rustc/0/library/std/src/x.rs:1:1"),
            format!("out_of_budget\nat {OWN}/sched/simulated.rs:1:1"),
            format!("{read}\nat {OWN}/net/tcp_stream.rs:1:1"),
            String::from("std::io::default_read_exact\nat /rustc/0/library/std/src/io.rs:1:1"),
            String::from("program::ask\nat ./program/main.rs:7:5"),
        ];
        let call = (Some(String::from("TcpStream::read")), String::from("program/main.rs:7:5"));
        assert_eq!(call_in(&frames), Some(call));
        assert_eq!(call_in(&frames[..3]), None);
        let serve = "<ecru::net::tcp_listener::TcpListener>::serve";
        let frames = [
            format!("accept\nat {OWN}/net/tcp_listener.rs:1:1"),
            String::from("std::panicking::catch_unwind\nat /rustc/0/library/std/src/x.rs:1:1"),
            String::from("__rust_try"),
            String::from("std::panic::catch_unwind\nat /rustc/0/library/std/src/x.rs:1:1"),
            format!("{serve}\nat {OWN}/net/tcp_listener.rs:1:1"),
            String::from("program::answer\nat ./program/main.rs:9:5"),
        ];
        let call = (Some(String::from("TcpListener::serve")), String::from("program/main.rs:9:5"));
        assert_eq!(call_in(&frames), Some(call));
        // The optimizer has left no function of a program without lines, but libc has lines.
        let without_lines = [serve, "__rust_try", "program::answer", "start\nat nptl/x.c:1:1"];
        assert_eq!(call_in(&without_lines.map(String::from)), None);
        let inlined = [serve, "__rust_try", "std::thread::start", "start\nat nptl/x.c:1:1"];
        assert_eq!(call_in(&inlined.map(String::from)), None);
    }

    #[test]
    fn what_is_left_is_the_programs() {
        let frame = |name: &str, file: &str| format!("{name}\nat {OWN}/{file}:1:1");
        let mut frames = vec![
            String::from("std::backtrace::Backtrace::create"),
            frame("leave_trace", "park/parker.rs"),
            frame("wait_out", "park/parker.rs"),
            frame("end", "park/wait.rs"),
            frame("alone", "park/wait.rs"),
            frame("sleep", "time/mod.rs"),
            String::from("program::wait\nat /program/src/main.rs:1:1"),
            String::from("__rust_try"),
            frame("run", "scope/scoped.rs"),
            frame("run<B>", "task/result.rs"),
            String::from("stack_init_trampoline"),
        ];
        trim(&mut frames);
        assert_eq!(frames.len(), 2, "{frames:?}");
        assert!(frames[0].starts_with("sleep") && frames[1].starts_with("program::wait"));
    }

    #[test]
    fn what_a_call_of_this_library_calls_is_left_out() {
        let frame = |name: &str, file: &str| format!("{name}\nat {OWN}/{file}:1:1");
        let mut frames = vec![
            frame("lock_slowly", "sync/mutex.rs"),
            frame("ecru::sync::mutex::Mutex<T>::lock", "sync/mutex.rs"),
            String::from("program::pay\nat /program/src/main.rs:1:1"),
            frame("ecru::scope::scoped::scope", "scope/scoped.rs"),
            String::from("program::main\nat /program/src/main.rs:9:1"),
            String::from(
                "core::option::Option<T>::map\nat /rustc/0/library/core/src/option.rs:1:1",
            ),
        ];
        trim(&mut frames);
        let names = frames.iter().map(|frame| frame.split('\n').next().unwrap());
        let left = ["Mutex<T>::lock", "pay", "scope", "main"];
        assert!(names.zip(left).all(|(name, end)| name.ends_with(end)), "{frames:?}");
        assert_eq!(frames.len(), 4, "{frames:?}");
    }

    #[test]
    fn something_is_left_of_a_program_without_lines() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<String>>();
        let wait = ["ecru::park::parker::leave_trace", "ecru::park::parker::Parker::wait_out"];
        let start = ["ecru::task::result::TaskBox<B>::run", "stack_init_trampoline"];
        let mut joins =
            names(&[wait[0], wait[1], "ecru::scope::join::wait_for", start[0], start[1]]);
        trim(&mut joins);
        assert_eq!(joins, ["ecru::scope::join::wait_for"]);
        let mut nothing = names(&[wait[0], wait[1], start[0], start[1]]);
        trim(&mut nothing);
        assert_eq!(nothing, [start[0]]);
    }
}
