//! `ecru top`.
//!
//! `model` is what is shown and how the keys change it, `view` draws it, and this module asks the
//! program and reads the keys.

mod model;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGQUIT, SIGTERM};

use self::model::Model;
use crate::Failure;
use crate::client::ask;
use crate::json::Tree;
use crate::target::Arguments;

/// How often the program is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// The size of a screen that is printed.
const WIDTH: u16 = 120;
const HEIGHT: u16 = 40;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--once"])?;
    let mut model = Model::new(arguments.target.display().to_string());
    // The first answer also says whether the program can be asked at all.
    model.update(look(&arguments.target)?, Instant::now());
    if arguments.has("--once") {
        return print(&mut model);
    }
    if !io::stdout().is_terminal() {
        let text = "the standard output is no terminal; use `--once` to print one screen";
        return Err(Failure::Usage(String::from(text)));
    }
    let end = End::watch()?;
    let mut terminal = ratatui::try_init()?;
    let outcome = show(&mut terminal, &mut model, &arguments.target, &end);
    ratatui::try_restore()?;
    end.obey()?;
    outcome
}

/// A signal that asks this process to end. It is obeyed when the terminal has been restored.
///
/// `SIGHUP` is none of them: it means that the terminal is gone, so there is nothing to restore. It
/// ends the process at once. The reader of events would read the end of that terminal for ever.
struct End(Arc<AtomicUsize>);

impl End {
    fn watch() -> io::Result<End> {
        let arrived = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGQUIT] {
            let number = usize::try_from(signal).expect("a signal has a positive number");
            signal_hook::flag::register_usize(signal, Arc::clone(&arrived), number)?;
        }
        Ok(End(arrived))
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Ends the process as the signal would have done, if one has arrived.
    fn obey(&self) -> io::Result<()> {
        match i32::try_from(self.0.load(Ordering::Relaxed)) {
            Ok(signal) if signal != 0 => signal_hook::low_level::emulate_default_handler(signal),
            _ => Ok(()),
        }
    }
}

fn look(socket: &Path) -> Result<Tree, Failure> {
    Tree::parse(&ask(socket, "tasks")?)
}

/// Prints one screen as text. It is as high as it needs to be.
fn print(model: &mut Model) -> Result<(), Failure> {
    let size = |name: &str, default| {
        let value = std::env::var(name).ok().and_then(|value| value.parse().ok());
        value.filter(|size| (10..=1000).contains(size)).unwrap_or(default)
    };
    let backend = TestBackend::new(size("COLUMNS", WIDTH), size("LINES", HEIGHT));
    let mut terminal = Terminal::new(backend).expect("a screen in memory");
    terminal.draw(|frame| view::draw(frame, model)).expect("a screen in memory");
    let buffer = terminal.backend().buffer();
    let mut lines: Vec<String> = buffer
        .content()
        .chunks(usize::from(buffer.area.width))
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Ok(io::stdout().write_all((lines.join("\n") + "\n").as_bytes())?)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut Model,
    socket: &Path,
    end: &End,
) -> Result<(), Failure> {
    let mut next = Instant::now() + PERIOD;
    while !end.has_come() {
        terminal.draw(|frame| view::draw(frame, model))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let quits =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if quits || model.press(key.code) {
                    return Ok(());
                }
                if let Some(id) = model.wants_stack() {
                    model.set_stack(match ask(socket, &format!("stack {id}")) {
                        Ok(text) | Err(Failure::Answer(text) | Failure::Usage(text)) => text,
                        Err(Failure::Output(error)) => error.to_string(),
                    });
                }
            }
            continue;
        }
        match look(socket) {
            Ok(tree) => model.update(tree, Instant::now()),
            // The last screen stays, with the reason.
            Err(Failure::Answer(text) | Failure::Usage(text)) => model.fail(text),
            Err(error) => return Err(error),
        }
        next = Instant::now() + PERIOD;
    }
    Ok(())
}
