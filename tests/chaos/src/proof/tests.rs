//! Journals written by hand, of which all but the first are refused.

use super::*;

const WINDOW: usize = 2;

fn handout(job: &str, sequence: u64, attempt: u32) -> Handout {
    Handout { job: job.to_owned(), sequence, attempt }
}

fn begun(job: &str, sequence: u64, attempt: u32) -> Line {
    Line::Begun { handout: handout(job, sequence, attempt), at: 210 }
}

/// Returns a run from its beginning to its acknowledgement.
fn run(job: &str, sequence: u64, attempt: u32) -> [Line; 3] {
    let handout = handout(job, sequence, attempt);
    let worked = Line::Worked { handout: handout.clone(), pid: 1 };
    [begun(job, sequence, attempt), worked, Line::Done { handout, at: 100 + u64::from(attempt) }]
}

fn process(end: End, start: u64, lines: impl IntoIterator<Item = Line>) -> Process {
    let lines = [Line::Start { at: start, pid: 1 }].into_iter().chain(lines).collect();
    Process { end, lines }
}

fn sender(jobs: &[&str]) -> Process {
    let lines = jobs.iter().flat_map(|job| {
        let job = (*job).to_owned();
        [Line::Intent { job: job.clone() }, Line::Sent { job }]
    });
    process(End::Finished, 0, lines)
}

fn got(index: u64, value: &str) -> Line {
    Line::Got { run: "map".to_owned(), index, value: value.to_owned() }
}

/// What happens when all is well: two jobs, the second of which runs again after a kill; poison,
/// which kills two workers; and a map whose coordinator is killed.
fn good() -> Evidence {
    let mapped = Line::Mapped { run: "map".to_owned() };
    let mut first = vec![begun("job-b", 2, 1)];
    first.splice(0..0, run("job-a", 1, 1));
    let processes = vec![
        sender(&["job-a", "job-b", "poison-1"]),
        process(End::Killed, 1, first),
        process(End::Aborted, 2, [begun("poison-1", 1, 1)]),
        process(End::Aborted, 3, [begun("poison-1", 1, 2)]),
        process(End::Finished, 4, run("job-b", 2, 2)),
        process(End::Killed, 5, [got(0, "zero")]),
        process(End::Finished, 6, [got(0, "zero"), got(1, "one"), mapped]),
    ];
    let (maps, dead) = (vec!["map".to_owned()], vec!["poison-1".to_owned()]);
    Evidence { processes, workers: 1, window: WINDOW, items: 2, maps, dead, ..Evidence::default() }
}

/// Asserts that the proof refuses the evidence because of this clause, with these words.
#[track_caller]
fn refused(evidence: &Evidence, clause: Clause, words: &str) {
    let (_, violations) = check(evidence);
    let found = violations.iter().find(|violation| violation.clause == clause);
    assert!(found.is_some_and(|found| found.text.contains(words)), "{violations:?}");
}

#[track_caller]
fn accepted(evidence: &Evidence) -> Counts {
    let (counts, violations) = check(evidence);
    assert_eq!(violations, []);
    counts
}

fn with(process: Process) -> Evidence {
    let mut evidence = good();
    evidence.processes.push(process);
    evidence
}

#[test]
fn what_is_well_is_accepted() {
    let counts = accepted(&good());
    assert_eq!((counts.sent, counts.poison, counts.results), (3, 1, 2));
    assert_eq!((counts.runs, counts.extra, counts.unfinished), (3, 1, 1));
    assert_eq!((counts.killed, counts.aborted), (1, 2));
}

#[test]
fn a_lost_job_is_found() {
    refused(&with(sender(&["job-c"])), Clause::Lost, "job-c");
    // It was begun, acknowledged and not worked on.
    let [begun, _, done] = run("job-c", 3, 1);
    let mut evidence = with(sender(&["job-c"]));
    evidence.processes.push(process(End::Killed, 7, [begun, done]));
    refused(&evidence, Clause::Lost, "job-c");
    // One that was perhaps stored may be anywhere.
    let intent = Line::Intent { job: "job-c".to_owned() };
    accepted(&with(process(End::Finished, 0, [intent])));
}

#[test]
fn the_dead_are_exactly_the_poison() {
    let mut evidence = good();
    evidence.dead.push("job-a".to_owned());
    refused(&evidence, Clause::Dead, "job-a is dead");
    evidence.dead = vec![];
    refused(&evidence, Clause::Dead, "poison-1 is not dead");
    evidence.dead = vec!["poison-1".to_owned(), "poison-2".to_owned()];
    refused(&evidence, Clause::Dead, "poison-2 is dead");
}

#[test]
fn a_job_that_is_left_is_found() {
    refused(&Evidence { left: 1, ..good() }, Clause::Left, "1 jobs are left");
}

#[test]
fn each_index_has_one_result() {
    refused(&with(process(End::Killed, 7, [got(1, "two")])), Clause::Results, "index 1");
    refused(&with(process(End::Killed, 7, [got(2, "two")])), Clause::Results, "the index 2");
    refused(&Evidence { items: 3, ..good() }, Clause::Results, "index 2 of map has no result");
    let maps = vec!["map".to_owned(), "other".to_owned()];
    refused(&Evidence { maps, ..good() }, Clause::Results, "other has no end");
}

#[test]
fn only_a_killed_process_leaves_jobs() {
    let mut evidence = good();
    evidence.processes[4].lines.pop();
    refused(&evidence, Clause::Unfinished, "Finished");
    evidence.processes[4].end = End::Killed;
    accepted(&evidence);
    let many = ["job-a", "job-b", "job-c"].map(|job| begun(job, 9, 9));
    refused(&with(process(End::Killed, 0, many)), Clause::Unfinished, "Killed");
}

#[test]
fn a_fence_is_repeated_only_by_a_killed_broker() {
    let mut evidence = with(process(End::Killed, 7, [begun("job-b", 2, 2)]));
    refused(&evidence, Clause::Fence, "1 fences are repeated, and 0 are allowed");
    evidence.deletions = 1;
    accepted(&evidence);
    (evidence.broker_kills, evidence.deletions) = (1, 0);
    assert_eq!(accepted(&evidence).repeated, 1);
}

#[test]
fn a_done_job_does_not_come_again() {
    let late = with(process(End::Killed, 200, [begun("job-a", 1, 2)]));
    refused(&late, Clause::Afterwards, "job-a");
    // A broker that was killed meanwhile may have forgotten it. One that was killed before or later
    // had not.
    accepted(&Evidence { blind: vec![(120, 130)], ..late.clone() });
    refused(&Evidence { blind: vec![(0, 50), (220, 230)], ..late }, Clause::Afterwards, "job-a");
    // A process that was there already may have had it.
    accepted(&with(process(End::Killed, 50, [begun("job-a", 1, 2)])));
    // Another job of the same name is another one.
    let again = Line::Again { job: "job-a".to_owned() };
    let mut evidence = with(process(End::Finished, 50, run("job-a", 7, 1)));
    evidence.processes[0].lines.push(again);
    accepted(&evidence);
}

#[test]
fn neighbours_of_poison_do_not_die_of_it() {
    let mut evidence = with(sender(&["neighbour-1", "alien-1"]));
    evidence.dead.push("alien-1".to_owned());
    refused(&evidence, Clause::Lost, "neighbour-1");
    evidence.dead.push("neighbour-1".to_owned());
    refused(&evidence, Clause::Dead, "neighbour-1 is dead");
    let lines = (1..=POISON_ATTEMPTS).map(|attempt| begun("neighbour-1", 3, attempt));
    evidence.processes.extend(lines.map(|line| process(End::Killed, 7, [line])));
    accepted(&evidence);
    evidence.dead.retain(|job| job != "alien-1");
    refused(&evidence, Clause::Dead, "alien-1 is not dead");
}

#[test]
fn one_attempt_settles_a_job() {
    let again = Line::Done { handout: handout("job-a", 1, 2), at: 140 };
    let mut evidence = with(process(End::Finished, 50, [begun("job-a", 1, 2), again]));
    refused(&evidence, Clause::Settled, "job-a with the number 1");
    evidence.blind = vec![(0, 50), (150, 200)];
    refused(&evidence, Clause::Settled, "job-a with the number 1");
    evidence.blind.push((110, 120));
    assert_eq!(accepted(&evidence).twice, 1);
}

#[test]
fn an_extra_run_has_a_reason() {
    // Stored twice, although no send was repeated, and nothing was killed.
    let twice = [run("job-a", 1, 1), run("job-a", 2, 1)].concat();
    let processes = vec![sender(&["job-a"]), process(End::Finished, 0, twice)];
    let mut evidence = Evidence { processes, window: WINDOW, ..Evidence::default() };
    refused(&evidence, Clause::Extra, "1 extra runs, and the observed reasons allow 0");
    let again = Line::Again { job: "job-a".to_owned() };
    evidence.processes[0].lines.push(again);
    accepted(&evidence);
    // A lease that has ended shows itself by the next attempt.
    let twice = [run("job-a", 1, 1), run("job-a", 1, 2)].concat();
    evidence.processes = vec![sender(&["job-a"]), process(End::Finished, 0, twice)];
    evidence.blind = vec![(100, 103)];
    assert_eq!(accepted(&evidence).expired, 1);
    // Or by the worker's own words.
    for outcome in [
        Line::Lost { handout: handout("job-a", 1, 1) },
        Line::Unsure { handout: handout("job-a", 1, 1) },
    ] {
        let mut lines = vec![begun("job-a", 1, 1), outcome];
        lines.extend(run("job-a", 1, 2));
        evidence.processes = vec![sender(&["job-a"]), process(End::Finished, 0, lines)];
        assert_eq!(accepted(&evidence).allowed, 1);
    }
}
