//! The order of contenders in a round.

/// Returns the places of `count` contenders in the order in which round `round` runs them, counted
/// from 0. Each round begins one place later, so that no contender always runs first, or always
/// after the same pause.
pub(crate) fn rotated(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}

#[cfg(test)]
mod tests {
    use super::rotated;

    #[test]
    fn each_round_begins_one_place_later() {
        let orders: Vec<Vec<_>> = (0..4).map(|round| rotated(3, round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(rotated(0, 3).count(), 0);
    }

    #[test]
    fn in_as_many_rounds_as_contenders_each_runs_once_at_each_place() {
        for place in 0..5 {
            let mut there: Vec<_> =
                (0..5).map(|round| rotated(5, round).nth(place).unwrap()).collect();
            there.sort_unstable();
            assert_eq!(there, [0, 1, 2, 3, 4]);
        }
    }
}
