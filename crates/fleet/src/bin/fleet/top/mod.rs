//! `fleet top` and `fleet metrics`: what the queues and functions of a fleet are doing.

pub(crate) mod collect;
pub(crate) mod metrics;
pub(crate) mod table;

use std::io::{self, Write};
use std::time::Duration;

use crate::args;
use collect::Ages;

use crate::asking::{Asking, is_cancelled};
use crate::options;

/// The pause between two tables.
const PAUSE: Duration = Duration::from_secs(1);

/// Moves the cursor of a terminal to its first line and erases all.
const ERASE: &str = "\x1b[H\x1b[2J";

/// Shows the table, once or until it is interrupted. Returns the exit code.
pub(crate) fn run(settings: &args::Top) -> io::Result<u8> {
    ecru::scope(|s| {
        let client = options(&settings.login, settings.limit)?.connect(s, &settings.login.urls)?;
        let asking = Asking::new(client, settings.limit);
        let mut out = ecru::io::stdout();
        let erases = out.is_terminal() && !settings.once && !settings.json;
        // The table has no room for ages.
        let ages = if settings.metrics { Ages::Asked } else { Ages::Unasked };
        loop {
            let text = match collect::rows(&asking, ages) {
                Ok(found) if settings.metrics => metrics::text(&found),
                Ok(found) if settings.json => table::json(&found),
                Ok(found) => table::text(&found),
                Err(error) if settings.once || is_cancelled(&error) => return Err(error),
                // The client looks for another server meanwhile.
                Err(error) if settings.json => {
                    format!("{}\n", serde_json::json!({ "error": error.to_string() }))
                }
                Err(error) => format!("{error}\n"),
            };
            let begin = if erases { ERASE } else { "" };
            out.write_all(format!("{begin}{text}").as_bytes())?;
            out.flush()?;
            if settings.once {
                return Ok(0);
            }
            ecru::sleep(PAUSE)?;
        }
    })
}
