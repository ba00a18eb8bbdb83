//! The recorder's page in a real browser: Debian's chromium without a window.
//!
//! `.ci/long` runs these tests with `ECRU_REQUIRE_BROWSER=1`. Without that variable they say that
//! they were left out. `ECRU_SCREENSHOT=PATH` keeps a picture of the page.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ecru::Runtime;
use ecru::diag::{self, Recorder};

/// A folder that is removed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("ecru-page-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that ends with this, with those that it has started.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a browser is wanted. Says so if it is not.
fn is_wanted() -> bool {
    let is = std::env::var_os("ECRU_REQUIRE_BROWSER").is_some_and(|value| value != "0");
    if !is {
        println!("left out: ECRU_REQUIRE_BROWSER=1 runs this test with chromium");
    }
    is
}

/// Opens the page at the fragment. Returns the document after its scripts have run.
fn open(folder: &Folder, page: &Path, fragment: &str, options: &[&str]) -> String {
    let (dom, said) = (folder.0.join("dom"), folder.0.join("said"));
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--window-size=1500,900", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.0.join("profile").display()))
        .args(options)
        .arg(format!("file://{}#{fragment}", page.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&dom).unwrap())
        .stderr(fs::File::create(&said).unwrap());
    let mut browser = match command.spawn() {
        Ok(child) => Browser(child),
        Err(error) => {
            panic!("chromium could not be started ({error}); `.ci/prepare-long` installs it")
        }
    };
    let status = browser.0.wait().unwrap();
    let said = fs::read_to_string(said).unwrap();
    assert!(status.success(), "chromium failed: {said}");
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the page has said: {console:#?}");
    fs::read_to_string(dom).unwrap()
}

/// Returns what the page has noted about itself under this name.
fn noted<'d>(document: &'d str, name: &str) -> &'d str {
    let begin = document.find(&format!(" data-{name}=\"")).unwrap_or_else(|| panic!("no {name}"));
    document[begin..].split('"').nth(1).unwrap()
}

fn write(recorder: &Recorder, folder: &Folder) -> PathBuf {
    let path = folder.0.join("page.html");
    let mut file = fs::File::create(&path).unwrap();
    recorder.write_page(&mut file).unwrap();
    file.flush().unwrap();
    path
}

/// Four tasks echo, one collects, and twenty compute and then take a lock.
fn work(rounds: u32) {
    let (tx, rx) = ecru::channel::bounded::<u32>(8);
    let lock = ecru::sync::Mutex::new(0_u64);
    let lock = &lock;
    ecru::scope(|s| {
        for number in 0..4 {
            let (up, down) = ecru::net::UnixStream::pair().unwrap();
            let tx = tx.clone();
            s.builder().name(format!("server {number}")).spawn(move || {
                std::io::Read::bytes(&up)
                    .for_each(|byte| (&up).write_all(&[byte.unwrap()]).unwrap());
            });
            s.builder().name(format!("client {number}")).spawn(move || {
                for round in 0..rounds {
                    (&down).write_all(b"x").unwrap();
                    std::io::Read::read_exact(&mut (&down), &mut [0]).unwrap();
                    tx.send(round).unwrap();
                }
                diag::mark("client done");
            });
        }
        drop(tx);
        for _ in 0..20 {
            s.spawn(move || {
                let numbers = 0..30_000_u64;
                let sum = numbers.fold(0_u64, |sum, number| std::hint::black_box(sum ^ number));
                *lock.lock() += sum;
            });
        }
        let collector = s.builder().name("collector").spawn(move || rx.iter().count());
        collector.join().unwrap();
    });
}

/// The page shows the tasks of a run, goes to the task that its address names, and finds its critical
/// path.
#[test]
fn the_page_shows_a_run_slow() {
    if !is_wanted() {
        return;
    }
    let folder = Folder::new("run");
    let runtime = Runtime::builder().workers(2).record(4 << 20).build().unwrap();
    runtime.run(|| work(20));
    let page = write(&runtime.handle().recorder().unwrap(), &folder);
    let document = open(&folder, &page, "", &["--dump-dom"]);
    assert_eq!(noted(&document, "state"), "ready");
    assert_eq!(noted(&document, "tasks"), "30");
    for row in
        ["worker 0", "worker 1", "root #", "server 0 #", "client 3 #", "collector #", "page.rs:"]
    {
        assert!(document.contains(row), "no row for {row}");
    }
    assert!(document.contains("Spawn places") && document.contains("a value from a channel"));

    let begin = document.find("\"name picked\"");
    assert!(begin.is_none(), "no task was chosen");
    let at = document.find("collector #").unwrap();
    let number: String = document[at + 11..].chars().take_while(char::is_ascii_digit).collect();
    let chosen = open(&folder, &page, &format!("t=1000&task={number}&path=1"), &["--dump-dom"]);
    assert!(
        chosen.contains("name picked") && chosen.contains(&format!("<h2>collector #{number}</h2>"))
    );
    assert!(chosen.contains("What the end of this task has depended on."));
    let found = open(&folder, &page, "find=client+2", &["--dump-dom"]);
    assert!(found.contains("client 2 #") && !found.contains("\"name\" title=\"client 3"));
    if let Some(path) = std::env::var_os("ECRU_SCREENSHOT") {
        let option = format!("--screenshot={}", Path::new(&path).display());
        open(&folder, &page, &format!("task={number}"), &[&option]);
    }
}

/// A page with 200,000 events opens. The times of the first paint and of a zoom are printed: they
/// depend on the machine.
#[test]
fn the_page_shows_many_events_slow() {
    if !is_wanted() {
        return;
    }
    let folder = Folder::new("many");
    let runtime = Runtime::builder().workers(2).record(16 << 20).build().unwrap();
    runtime.run(|| work(10_000));
    let page = write(&runtime.handle().recorder().unwrap(), &folder);
    let document = open(&folder, &page, "measure=1", &["--dump-dom"]);
    assert_eq!(noted(&document, "state"), "ready");
    let turns: usize = noted(&document, "turns").parse().unwrap();
    assert!(turns > 40_000, "{turns} turns");
    let (first, zoom) = (noted(&document, "first-paint"), noted(&document, "zoom"));
    println!("{turns} turns: first paint after {first} ms, a zoom takes {zoom} ms");
}

/// Moves the pointer along the middles of the rows, and collects what is shown.
#[cfg(feature = "sim")]
const HOVER: &str = r"<script>
(() => {
  const chart = document.getElementById('chart'), tip = document.getElementById('tip');
  const place = chart.getBoundingClientRect(), found = new Set();
  for (let y = 35; y < 140; y += 26) for (let x = 0; x <= place.width; x += 3) {
    const at = { clientX: place.left + x, clientY: place.top + y };
    chart.dispatchEvent(new PointerEvent('pointermove', at));
    if (tip.style.display === 'block') tip.querySelectorAll('b').forEach(b => found.add(b.textContent));
  }
  const list = document.createElement('pre');
  list.id = 'hovered';
  list.textContent = [...found].join('\n');
  document.body.append(list);
})();
</script></body>";

/// The page of a failed simulation draws what has happened to its hosts.
#[cfg(feature = "sim")]
#[test]
fn the_page_shows_the_hosts_of_a_simulation_slow() {
    use ecru::net::{TcpListener, TcpStream, UdpSocket};
    use ecru::sim::{self, Simulation};
    use std::io::{self, Read};
    use std::time::Duration;

    fn server() -> io::Result<()> {
        TcpListener::bind("0.0.0.0:80")?.serve(9, |mut stream, _| {
            let mut text = [0; 4];
            stream.read_exact(&mut text)?;
            ecru::fs::write("journal", text)?;
            ecru::fs::File::open("journal")?.sync_all()?;
            stream.write_all(b"stored")
        })
    }
    fn program() {
        let pause = || ecru::sleep(Duration::from_millis(20)).unwrap();
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect("server:80")?;
            stream.write_all(b"text")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let server = sim::host("server", server);
        pause();
        sim::note("asks <now>");
        assert_eq!(ask().unwrap(), "stored");
        pause();
        server.crash();
        pause();
        server.restart();
        pause();
        UdpSocket::bind("0.0.0.0:1").unwrap().send_to(b"lost", "server:7").unwrap();
        pause();
        sim::partition(&[&sim::here()], &[&server]);
        pause();
        sim::heal();
        pause();
        panic!("the end of the program");
    }
    if !is_wanted() {
        return;
    }
    let folder = Folder::new("hosts");
    let page = folder.0.join("page.html");
    let report = Simulation::new(1).record_on_failure(&page).run(program);
    let events = report.timeline().events().count();
    assert!(report.result.is_err());
    let text = fs::read_to_string(&page).unwrap();
    let (head, foot) = text.rsplit_once("</body>").unwrap();
    fs::write(&page, format!("{head}{HOVER}{foot}")).unwrap();
    let document = open(&folder, &page, "", &["--dump-dom"]);
    assert_eq!(noted(&document, "state"), "ready");
    assert_eq!(noted(&document, "events"), events.to_string());
    // A request and its answer.
    assert_eq!(noted(&document, "messages"), "2");
    let marks: usize = noted(&document, "marks").parse().unwrap();
    assert!(marks > 12 && marks <= events, "{marks} marks of {events} events");
    assert!(document.contains("host root") && document.contains("host server"));
    let hovered = document.split_once("<pre id=\"hovered\">").unwrap().1;
    let hovered = hovered.split_once("</pre>").unwrap().0;
    for shown in [
        "note: asks &lt;now&gt;",
        "sends 4 bytes to 'server', arrives 1.00 ms later",
        "receives 4 bytes from 'root'",
        "has synced '",
        "receives 6 bytes from 'server'",
        "crashes",
        "restarts (life 2)",
        "drops a datagram from 'root': no socket receives from there",
        "is cut off from what '",
        "all partitions end",
        "the run fails",
    ] {
        assert!(hovered.contains(shown), "no mark for {shown:?} in {hovered}");
        // The list of all events has no arrivals.
        let line = shown.split(", arrives").next().unwrap();
        assert!(document.matches(line).count() >= 2, "no line for {line:?}");
    }
    if let Some(path) = std::env::var_os("ECRU_SCREENSHOT") {
        fs::write(&page, text).unwrap();
        let option = format!("--screenshot={}", Path::new(&path).display());
        open(&folder, &page, "", &[&option]);
    }
}
