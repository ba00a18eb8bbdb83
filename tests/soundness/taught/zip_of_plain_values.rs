//! The mistake: the tasks of a `zip` return results, so that it can end with the first failure.
//! What to do: return `Ok::<_, E>(..)`, or use `join!`.

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let (one, two) = (s.spawn(|| 1), s.spawn(|| 2));
            let _ = ecru::zip((one, two));
        });
    });
}
