//! Cancelled ops, also at random moments.

use super::*;

#[test]
fn a_cancelled_op_completes_and_the_others_go_on_waiting() {
    const OPS: u64 = 200;
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let fd = named(&ours);
        let mut buffer = [0; 8];
        let op = recv(fd, &mut buffer);
        for token in 0..OPS {
            submit(driver, &op, token);
            if token > 0 {
                cancel(driver, token);
            }
        }
        let completions = collect(driver, OPS as usize - 1);
        assert!(completions.iter().all(|completion| completion.result == Completion::CANCELLED));
        assert!(completions.iter().all(|completion| completion.token != Token::new(0)));
        expect_nothing(driver);
        theirs.write_all(b"x").unwrap();
        let completion = collect(driver, 1)[0];
        assert_eq!(completion.token, Token::new(0));
        assert_eq!(completion.result, 1);
    });
}

#[test]
fn cancelling_what_has_ended_does_nothing() {
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let fd = named(&ours);
        let mut buffer = [0; 8];
        theirs.write_all(b"x").unwrap();
        assert_eq!(finish(driver, &recv(fd, &mut buffer), 1).unwrap(), 1);
        cancel(driver, 1);
        cancel(driver, 77);
        let op = recv(fd, &mut buffer);
        submit(driver, &op, 2);
        theirs.write_all(b"y").unwrap();
        let completion = collect(driver, 1)[0];
        assert_eq!(completion.token, Token::new(2));
        assert_eq!(completion.result, 1);
    });
}

/// Cancels reads at random moments while a peer writes a known sequence.
fn attack(driver: &mut AnyDriver, rounds: u64, seed: u64) {
    const UNTOUCHED: u8 = 0xEE;
    let mut random = fastrand::Rng::with_seed(seed);
    let (ours, mut theirs) = pair();
    let fd = named(&ours);
    let stop = Arc::new(AtomicBool::new(false));
    let peer = thread::spawn({
        let (stop, mut random) = (Arc::clone(&stop), random.fork());
        move || {
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let chunk = (sent..sent + random.u64(1..6)).map(|at| at as u8).collect::<Vec<_>>();
                theirs.write_all(&chunk).unwrap();
                sent += chunk.len() as u64;
                for _ in 0..random.u32(0..3_000) {
                    std::hint::spin_loop();
                }
            }
            sent
        }
    });
    let mut kept = Vec::new();
    let (mut received, mut cancelled, mut told) = (0_u64, 0, 0);
    let end = Instant::now() + GUARD;
    let mut round = 0;
    while round < rounds || cancelled < 20 || told < 20 {
        round += 1;
        let in_time = round <= rounds || Instant::now() < end;
        assert!(in_time, "both outcomes must be met: {cancelled} and {told}");
        let mut buffer = Box::new([UNTOUCHED; 4]);
        let op = recv(fd, &mut buffer[..]);
        let attempts = random.bool();
        let at_once = attempts.then(|| attempt(&op)).and_then(Result::ok);
        let at_once = at_once.or_else(|| match start(driver, &op, round, attempts) {
            StartedOp::Done(result) => Some(result.unwrap()),
            _ => None,
        });
        let count = at_once.unwrap_or_else(|| {
            let mut completions = Vec::new();
            for _ in 0..random.u32(0..2_000) {
                std::hint::spin_loop();
            }
            // If the threads run in turns on this machine, the peer gets its turn while a read is
            // in progress.
            if round > rounds && told < 20 {
                thread::sleep(Duration::from_micros(500));
            }
            if random.bool() {
                driver.poll(PollTimeout::Poll, &mut completions).unwrap();
            }
            cancel(driver, round);
            if completions.is_empty() {
                completions = collect(driver, 1);
            }
            assert_eq!((completions.len(), completions[0].token), (1, Token::new(round)));
            match completions[0].result {
                Completion::CANCELLED => {
                    cancelled += 1;
                    0
                }
                result => {
                    told += 1;
                    u32::try_from(result)
                        .unwrap_or_else(|_| panic!("round {round} ended with {result}"))
                }
            }
        });
        for byte in &mut buffer[..count as usize] {
            assert_eq!(*byte, received as u8, "round {round} of seed {seed}");
            received += 1;
            *byte = UNTOUCHED;
        }
        kept.push(buffer);
    }
    stop.store(true, Ordering::Relaxed);
    // Reads the rest until the peer has hung up, so that the peer is not stuck in a write.
    let mut byte = [0];
    while carry_out(driver, &recv(fd, &mut byte)).unwrap() == 1 {
        assert_eq!(byte[0], received as u8);
        received += 1;
    }
    assert_eq!(received, peer.join().unwrap(), "no byte is lost");
    assert!(
        kept.iter().all(|buffer| **buffer == [UNTOUCHED; 4]),
        "no byte is written after the completion"
    );
}

#[test]
fn cancelling_reads_at_random_moments_loses_no_byte_and_writes_none_late() {
    let mut seed = 0;
    on_each(|driver| {
        seed += 1;
        attack(driver, 1_000, seed);
    });
}
