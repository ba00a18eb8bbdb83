//! What the doctor has found.

use std::io::{self, Write};

use serde_json::json;

use crate::text::plain;

/// How serious a finding is. The number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Ok = 0,
    Warning = 1,
    Failed = 2,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failed => "FAILED",
        }
    }
}

struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// The value.
    found: String,
    /// What to do, or an empty text.
    advice: String,
}

/// All findings so far.
#[derive(Default)]
pub(super) struct Report(Vec<Finding>);

impl Report {
    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found.into(), "");
    }

    pub(super) fn warn(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Warning, found.into(), advice);
    }

    pub(super) fn fail(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Failed, found.into(), advice);
    }

    pub(super) fn add(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        found: String,
        to_do: &str,
    ) {
        let (found, advice) = (plain(&found), to_do.to_owned());
        self.0.push(Finding { check, verdict, found, advice });
    }

    /// Returns how many findings there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the exit code.
    pub(super) fn code(&self) -> u8 {
        self.0.iter().map(|finding| finding.verdict as u8).max().unwrap_or(0)
    }

    /// Writes a line for each finding, and one for all.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut text = String::new();
        for Finding { check, verdict, found, advice } in &self.0 {
            let line = format!("{:<8} {check:<12} {found}", verdict.word());
            text.push_str(line.trim_end());
            if !advice.is_empty() {
                text.push_str("; ");
                text.push_str(advice);
            }
            text.push('\n');
        }
        let count = |wanted| self.0.iter().filter(|finding| finding.verdict == wanted).count();
        let (warnings, failed) = (count(Verdict::Warning), count(Verdict::Failed));
        let total = self.0.len();
        text.push_str(&format!("{total} checks, {warnings} warnings, {failed} failed\n"));
        out.write_all(text.as_bytes())
    }

    /// Writes all of it as JSON.
    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let findings: Vec<_> = self
            .0
            .iter()
            .map(|finding| {
                json!({
                    "check": finding.check,
                    "verdict": finding.verdict.word(),
                    "found": finding.found,
                    "advice": finding.advice,
                })
            })
            .collect();
        writeln!(out, "{}", json!({ "checks": findings, "code": self.code() }))
    }
}
