//! `fleet web`, in a browser and without one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use ecru_fleet::{Daemons, Fleet, Queue};

use crate::browser::Browser;
use crate::child::Killed;
use crate::server::Server;
use crate::tool::fleet;

/// A page that is served.
pub(crate) struct Page {
    _process: Killed,
    address: String,
    token: String,
}

impl Page {
    pub(crate) fn serve(url: &str, more: &[&str]) -> Page {
        let child = fleet()
            .env_remove("FLEET_WEB_TOKEN")
            .args(["web", url, "--listen", "127.0.0.1:0", "--timeout", "60"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Killed(child);
        let mut line = String::new();
        let mut out = BufReader::new(process.0.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap();
        let (address, token) = address.split_once("/#token=").unwrap();
        Page { _process: process, address: address.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }

    /// Sends a request with these lines in its head, and returns the whole answer.
    fn ask(&self, request: &str, lines: &[&str], body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head = format!("{request} HTTP/1.1\r\nConnection: close\r\n");
        if !lines.iter().any(|line| line.starts_with("Host:")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for line in lines {
            head += &format!("{line}\r\n");
        }
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }
}

/// Opens a queue that hands out one job at a time.
fn open<'s>(s: &'s impl Daemons<'s>, url: &str) -> io::Result<Queue<String>> {
    let hour = Duration::from_secs(3600);
    Fleet::connect(s, url)?.queue("mill").lease(hour).limit(1).open()
}

/// Buries a job for each id.
fn bury(url: &str, queue: &Queue<String>, ids: &[&str]) -> io::Result<()> {
    // A worker that has gone when this returns.
    ecru::scope(|s| {
        let jobs = open(s, url)?.jobs(1)?;
        for id in ids {
            queue.send_keyed(id, "rye".into())?;
            jobs.recv()?.bury(HOSTILE)?;
        }
        Ok(())
    })
}

/// A reason that would be an element if it were not put in as text.
const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\"> is mouldy";

/// Clicks a button of the only row of the dead, and then one of the dialog.
const CLICK: &str = "(() => {
    document.querySelector('#dead tbody button').click();
    if (!document.getElementById('ask').open) throw new Error('nothing was asked');
    document.getElementById('ask-yes').click();
})()";

/// - given: a queue with a job that is queued, one that runs and a dead one, whose reason looks
///   like an element; a page that only shows, and one that may change
/// - when: a browser opens both, with the token and with a wrong one, and revives the dead job
/// - then: the rows are there, as text, and the console is empty; the page that only shows has no
///   button, and the other one revives the job after a confirmation; the wrong token is refused,
///   and the right one is not in the address any more
#[test]
fn fleet_375_the_page_in_a_browser_slow() {
    let Some(server) = Server::start("") else { return };
    let Some(mut browser) = Browser::start("fleet") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = open(s, &url)?;
            bury(&url, &queue, &["sack 7"])?;
            let jobs = queue.jobs(1)?;
            queue.send_keyed("sack 1", "oats".into())?;
            queue.send_keyed("sack 2", "oats".into())?;
            let job = jobs.recv()?;
            job.run(|_| {
                let page = Page::serve(&url, &[]);
                browser.open(&page.url());
                browser.wait_for("document.body.dataset.state === 'ready'");
                browser.wait_for("document.querySelector('#queues tbody button')?.textContent === 'mill'");
                assert_eq!(browser.evaluate("location.hash + location.search"), "");
                browser.evaluate("document.querySelector('#queues tbody button').click()");
                browser.wait_for("document.querySelector('#dead tbody')?.textContent.includes('sack 7')");
                let text = browser.evaluate("document.getElementById('chosen').innerText");
                let text = text.as_str().unwrap();
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
                let place = format!("-{}", std::process::id());
                for words in ["sack 1", HOSTILE, &place, "running", "ecru-fleet"] {
                    assert!(text.contains(words), "no {words} at {host}: {text}");
                }
                let cells = "[...document.querySelector('#queues tbody tr').cells].map(c => c.innerText)";
                let cells = browser.evaluate(cells);
                assert_eq!((&cells[2], &cells[5], &cells[8]), (&"1".into(), &"1".into(), &"1".into()));
                assert_eq!(browser.evaluate("document.getElementById('ranks-shown').hidden"), true);
                let shown = "getComputedStyle(document.querySelector('#dead tbody .acts')).display";
                assert_eq!(browser.evaluate(shown), "none");
                assert_eq!(browser.evaluate("document.title"), "ecru fleet");
                // Without the button, its request is refused, too.
                browser.evaluate(CLICK);
                browser.wait_for("document.getElementById('note').textContent.includes('only shows')");
                let refused = browser.said();
                assert!(refused.iter().all(|line| line.contains("403")), "{refused:#?}");

                let page = Page::serve(&url, &["--allow-changes"]);
                browser.open(&page.url());
                browser.wait_for("document.querySelector('#queues tbody button')?.textContent === 'mill'");
                browser.evaluate("document.querySelector('#queues tbody button').click()");
                browser.wait_for("document.querySelector('#dead tbody button')");
                browser.evaluate(CLICK);
                browser.wait_for("document.getElementById('note').textContent.includes('sack 7 is queued again')");
                browser.wait_for("!document.querySelector('#dead tbody tr')");
                assert_eq!(browser.said(), [""; 0]);

                browser.open("about:blank");
                browser.open(&format!("http://{}/#token=0123456789abcdef", page.address));
                browser.wait_for("document.body?.dataset.state === 'locked'");
                browser.wait_for("document.getElementById('wrong').textContent === 'The token is wrong.'");
                assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr').length"), 0);
                // By the keyboard, the right one.
                let token = page.token.clone();
                browser.call("Input.insertText", serde_json::json!({ "text": token }));
                press(&mut browser, "Enter", "\r");
                browser.wait_for("document.querySelector('#queues tbody button')?.textContent === 'mill'");
                press(&mut browser, "j", "j");
                press(&mut browser, "Enter", "\r");
                browser.wait_for("!document.getElementById('chosen').hidden");
                press(&mut browser, "Escape", "");
                browser.wait_for("document.getElementById('chosen').hidden");
            })?;
            job.done()?;
            let stats = queue.stats()?;
            assert_eq!((stats.queued + stats.running, stats.dead), (2, 0));
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// Presses a key of the keyboard.
fn press(browser: &mut Browser, key: &str, text: &str) {
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { text } else { "" };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            _ => 74,
        };
        browser.call(
            "Input.dispatchKeyEvent",
            serde_json::json!({
                "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code,
            }),
        );
    }
}

/// - given: a page that only shows, one that may change, and a dead job
/// - when: requests come without a token, with a wrong one, by another name of the host, from
///   another origin, of another type, and to change a job
/// - then: each that is not of the page itself is refused and changes nothing; the numbers are
///   there as events and as OpenMetrics; only the page that may change discards the job
#[test]
fn fleet_376_requests_to_the_page_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = open(s, &url)?;
            bury(&url, &queue, &["sack 7"])?;
            let (shows, changes) =
                (Page::serve(&url, &[]), Page::serve(&url, &["--allow-changes"]));
            let (bearer, json) = (changes.bearer(), "Content-Type: application/json");
            let is =
                |answer: &str, status: &str| answer.starts_with(&format!("HTTP/1.1 {status} "));

            let page = changes.ask("GET /", &[], "");
            assert!(is(&page, "200") && !page.contains(&changes.token), "{page}");
            let head = page.split("\r\n\r\n").next().unwrap();
            for words in ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-store"] {
                assert!(head.contains(words), "{head}");
            }
            let nonce = |page: &str| page.split("nonce-").nth(1).unwrap()[..32].to_owned();
            assert_ne!(nonce(&page), nonce(&changes.ask("GET /", &[], "")));

            let act = r#"{"action":"discard","queue":"q_mill","number":1}"#;
            let own = format!("Origin: http://{}", changes.address);
            for (status, lines) in [
                ("401", vec![json]),
                ("401", vec![json, "Authorization: Bearer 0123456789abcdef"]),
                ("421", vec![json, &bearer, "Host: evil.example"]),
                ("403", vec![json, &bearer, "Origin: http://evil.example"]),
                ("403", vec![json, &bearer, "Origin: null"]),
                ("403", vec![json, &bearer, &own, "Sec-Fetch-Site: cross-site"]),
                ("415", vec![&bearer, &own, "Content-Type: text/plain"]),
            ] {
                let answer = changes.ask("POST /act", &lines, act);
                assert!(is(&answer, status), "{lines:?}: {answer}");
            }
            for (status, body) in [
                ("400", r#"{"action":"discard","queue":"*","number":1}"#.to_owned()),
                ("400", r#"{"action":"stop","queue":"q_mill","number":1}"#.to_owned()),
                ("404", r#"{"action":"discard","queue":"q_mill","number":9}"#.to_owned()),
                ("413", " ".repeat(5000)),
            ] {
                let answer = changes.ask("POST /act", &[json, &bearer], &body);
                assert!(is(&answer, status), "{body}: {answer}");
            }
            assert!(is(&changes.ask("GET /act", &[&bearer], ""), "405"));
            assert!(is(&changes.ask("GET /none", &[&bearer], ""), "404"));
            assert!(is(&changes.ask("GET /events?queue=%3E", &[&bearer], ""), "400"));
            assert!(is(&changes.ask("GET /metrics", &[], ""), "401"));
            let refused = shows.ask("POST /act", &[json, &shows.bearer()], act);
            assert!(is(&refused, "403") && refused.contains("--allow-changes"), "{refused}");
            assert_eq!(queue.stats()?.dead, 1);

            let metrics = changes.ask("GET /metrics", &[&bearer], "");
            assert!(metrics.contains("application/openmetrics-text"), "{metrics}");
            let dead = r#"fleet_jobs{kind="queue",name="mill",state="dead"} 1"#;
            assert!(metrics.contains(dead) && metrics.contains("# EOF\n"), "{metrics}");

            let mut stream = TcpStream::connect(&changes.address)?;
            write!(
                stream,
                "GET /events?queue=q_mill HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n\r\n"
            )?;
            let mut lines = BufReader::new(stream).lines();
            let event =
                lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("data: ")));
            let event: serde_json::Value = serde_json::from_str(&event.unwrap()?[6..])?;
            assert_eq!((&event["queues"][0]["dead"], &event["changes"]), (&1.into(), &true.into()));
            let dead = &event["chosen"]["dead"][0];
            assert_eq!((&dead["id"], &dead["reason"]), (&"sack 7".into(), &HOSTILE.into()));

            let answer = changes.ask("POST /act", &[json, &bearer, &own], act);
            assert!(is(&answer, "200") && answer.contains("sack 7"), "{answer}");
            assert_eq!(queue.stats()?.dead, 0);
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}
