//! Models of calls that take retries from a budget while others succeed.

use loom::thread;

use super::RetryBudget;

/// No retry is made twice, and no success is lost.
#[test]
fn each_retry_is_taken_once() {
    loom::model(|| {
        let budget = RetryBudget::new(2, 1);
        assert!(budget.take());
        let takers = [(); 2].map(|()| {
            let budget = budget.clone();
            thread::spawn(move || u32::from(budget.take()))
        });
        budget.succeeded();
        let taken: u32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert!(taken >= 1);
        assert_eq!(budget.retries() + taken, 2);
    });
}
