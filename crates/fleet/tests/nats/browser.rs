//! A real browser: Debian's chromium without a window, driven over a pipe.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::child::Killed;

/// The browser reads commands from the descriptor 3, and writes answers to 4.
const START: &str = "exec 3<&0 4>&1 </dev/null >/dev/null 2>&1; exec chromium \"$@\"";

/// A browser with one page.
pub(crate) struct Browser {
    _process: Killed,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    number: u64,
    events: VecDeque<Value>,
    _profile: Folder,
}

/// A folder that is removed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Browser {
    /// Starts a browser. If none is installed, prints a line and returns `None`, which
    /// `ECRU_REQUIRE_BROWSER=1` makes a failure.
    pub(crate) fn start(name: &str) -> Option<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join("chromium").is_file()) {
            let advice = "chromium is not installed; .ci/prepare-long installs it";
            let is_required =
                std::env::var_os("ECRU_REQUIRE_BROWSER").is_some_and(|value| value != "0");
            assert!(!is_required, "{advice}");
            println!("SKIPPED: {advice}");
            return None;
        }
        let folder =
            std::env::temp_dir().join(format!("ecru-browser-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let profile = Folder(folder);
        let mut child = Command::new("sh")
            .args(["-c", START, "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", profile.0.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = pipes(&mut child);
        let mut browser = Browser {
            _process: Killed(child),
            commands,
            answers: BufReader::new(answers),
            session: String::new(),
            number: 0,
            events: VecDeque::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the browser's protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut said = self.next();
            if said["id"] == self.number {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].take();
            }
            self.events.push_back(said);
        }
    }

    /// Reads an answer or an event.
    fn next(&mut self) -> Value {
        let mut text = Vec::new();
        self.answers.read_until(0, &mut text).unwrap();
        assert_eq!(text.pop(), Some(0), "chromium has ended");
        serde_json::from_slice(&text).unwrap()
    }

    /// Opens a page. Returns when it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        const LOADED: &str = "Page.loadEventFired";
        self.events.retain(|event| event["method"] != LOADED);
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        while !self.events.iter().any(|event| event["method"] == LOADED) {
            let event = self.next();
            self.events.push_back(event);
        }
    }

    /// Evaluates an expression in the page, and waits for its promise.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut said = self.call("Runtime.evaluate", parameters);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].take()
    }

    /// Waits until an expression is true, each time that the page changes.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, condition: &str) {
        let wait = format!(
            "new Promise(done => {{
                const look = () => {{ if ({condition}) {{ watcher.disconnect(); done(true); }} }};
                const watcher = new MutationObserver(look);
                watcher.observe(document, {{ subtree: true, childList: true, characterData: true,
                    attributes: true }});
                look();
            }})"
        );
        assert_eq!(self.evaluate(&wait), true, "{condition}");
    }

    /// Returns what the page has written to the console, and its errors.
    pub(crate) fn said(&mut self) -> Vec<String> {
        // What was said before the answer has been read.
        self.evaluate("1");
        let is_said = |event: &Value| {
            let method = event["method"].as_str().unwrap_or_default();
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"]
                .contains(&method)
        };
        let said = self.events.drain(..).filter(is_said);
        said.map(|event| event["params"].to_string()).collect()
    }

    /// Returns a picture of the page.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let text = picture["data"].as_str().unwrap();
        data_encoding::BASE64.decode(text.as_bytes()).unwrap()
    }
}

fn pipes(child: &mut Child) -> (ChildStdin, ChildStdout) {
    (child.stdin.take().unwrap(), child.stdout.take().unwrap())
}
